"""Nodes: what is known of a tree while it is being grown, and what its growth is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins

# Entries of the state vector.
STAGE, PARENT, N_NODES, N_LEAVES, N_FREE, SMALL, LARGE, SUBTRACT, KEEP_SMALL, CHUNKS = range(10)
STATE_SIZE = 10

NODE_TYPE = np.dtype(
    [
        ("begin", np.int64),  # where in ``rows`` the node's rows begin
        ("n_rows", np.int64),
        ("left", np.int64),  # left child; the right one is the next; −1 for a leaf
        ("depth", np.int64),
        ("slot", np.int64),  # place of the node's histogram, −1 for none
        ("feature", np.int64),  # of the best split, −1 for none
        ("bin", np.int64),
        ("missing_left", np.int64),
        ("score", np.float64),  # what the node is judged by; −inf if it has no split
        ("worth", np.float64),  # what the best split adds to its feature's importance
        ("low", np.float64),  # bounds on its value by monotone constraints, in packed units
        ("high", np.float64),
        ("middle", np.float64),  # between the values of its children
    ]
)
"""A node of the tree that is being grown; the root is node 0."""


class Nodes(NamedTuple):
    """The nodes of a tree that is being grown."""

    node: npt.NDArray[np.void]
    """(m,) of NODE_TYPE."""
    count: npt.NDArray[np.int64]  # type: ignore[assignment]  # the field hides tuple.count, which nobody needs
    """(m, 4) rows of S1, S2, S3 and left out, in this order in ``rows``."""
    compatible: npt.NDArray[np.uint8]
    """(m, n_groups) interaction groups that hold every feature on the path."""
    side_count: npt.NDArray[np.int64]
    """(2, 4) answer of a partition: rows of each role that went left, and right."""
    promise: npt.NDArray[np.float64]
    """(m,) scores of the leaves that may be divided, −inf for all other nodes; the two last nodes are not in it yet."""


class Limits(NamedTuple):
    """When growth ends, and from what size on `grow` asks instead of doing."""

    num_leaves: int
    max_depth: int
    min_rows: int
    """Rows that a role must have for a node to be worth a look."""
    min_split_gain: float
    root_on_trial: bool
    """Whether a root whose best split is turned away is divided all the same: two features may mean something together
    of which each alone means nothing."""
    rows_elsewhere: bool
    """Whether partitions and histograms are asked for; whoever divides rows draws their roles anew, too."""
    draw_key: np.uint64
    n_threads: int
    split_rows: int
    """A chunk of a partition has at least so many rows."""
    build_rows: int
    """So has one of a histogram."""
    scan_bins: int
    """A chunk of a scan or a subtraction has at least so many bins."""
    few_search: int
    """A node of at most so many rows of S1,"""
    few_rows: int
    """and of at most so many in all roles, is looked through row by row."""
    few_features: int
    """A chunk of such a scan has at least so many features."""
    n_bins: int
    """Size of one role's histogram."""


class Table(NamedTuple):
    """The rows, and room for histograms: what the members of a team share beside the nodes."""

    bins: Bins
    packed: npt.NDArray[np.int64]
    """(n,)"""
    rows: npt.NDArray[np.uint32]
    """(n,)"""
    spare: npt.NDArray[np.uint32]
    """(n,)"""
    hist: npt.NDArray[np.int64]
    """(n_slots * n_roles * n_bins,)"""
    parts: npt.NDArray[np.int64]
    """((n_threads - 1) * n_roles * n_bins,) histograms of all chunks but the first."""
    cuts: npt.NDArray[np.int64]
    """(n_threads, 4) rows of each chunk and role that go left."""


class Evidence(NamedTuple):
    """What is known of features and node sizes from earlier trees, and what this tree adds."""

    bonus: npt.NDArray[np.float64]
    """(p + N_BUCKETS,) added to a feature's score and, by the logarithm of its rows, to a node's."""
    found: npt.NDArray[np.float64]
    """(p + N_BUCKETS,) sum of this tree's evidence."""


def new_nodes(num_leaves: int, n_groups: int) -> Nodes:
    """Room for a tree of ``num_leaves`` leaves."""
    m = 2 * num_leaves + 1
    return Nodes(
        np.zeros(m, NODE_TYPE),
        np.zeros((m, 4), np.int64),
        np.zeros((m, n_groups), np.uint8),
        np.zeros((2, 4), np.int64),
        np.full(m, -np.inf),
    )
