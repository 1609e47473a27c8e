"""Trees in a model file: flat lists, from which everything that could contradict itself is left out.

Whether a node is categorical follows from its feature; thresholds are listed for the numeric inner nodes alone, sets of
levels for the categorical ones, values for the leaves, all in the order of the nodes.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import fields
from unbiasedgbm.frames import Schema

_MAX = 2**31 - 1
_HEX = re.compile(r"[0-9a-f]*")
_KEYS = {"base", "n_nodes", "left", "feature", "threshold", "missing_left", "sets", "value", "cover", "score"}


def trees_to_dict(trees: TreeEnsemble) -> dict[str, Any]:
    """Arrays of an ensemble whose trees take turns at the outputs."""
    inner = trees.left >= 0
    categorical = trees.set_start >= 0
    numeric = inner & ~categorical
    return {
        "base": trees.base,
        "n_nodes": np.diff(trees.tree_start),
        "left": trees.left,
        "feature": trees.feature,
        "threshold": trees.threshold[numeric],
        "missing_left": trees.missing_left[numeric].astype(np.int64),
        "sets": [_to_hex(trees, node) for node in np.flatnonzero(categorical).tolist()],
        "value": trees.value[~inner],
        "cover": trees.cover,
        "score": trees.score,
    }


def trees_from_dict(data: Any, schema: Schema, n_outputs: int, n_trees: int) -> TreeEnsemble:
    """Validated ensemble.

    Parameters
    ----------
    data : object
        What `trees_to_dict` gave, with lists or arrays; untrusted.
    schema : Schema
        Says which features are categorical, and their numbers of levels.
    n_outputs, n_trees : int
        What the ensemble must have.

    Raises
    ------
    ValueError
        If a kernel could not rely on it.
    """
    data = fields.mapping(data, "trees", _KEYS)
    sizes = fields.integers(data["n_nodes"], "n_nodes", 1, _MAX, n_trees)
    left = fields.integers(data["left"], "left", -1, _MAX, dtype=np.int32)
    n = len(left)
    if int(sizes.sum()) != n:
        raise ModelFileError("'n_nodes' does not add up to the number of nodes")
    feature = fields.integers(data["feature"], "feature", -1, schema.n_features - 1, n, np.int32)
    inner = left >= 0
    categorical = inner & (feature >= 0) & schema.is_categorical[np.maximum(feature, 0)]
    numeric = inner & ~categorical
    threshold, value = np.zeros(n), np.zeros(n)
    missing_left = np.zeros(n, dtype=np.bool_)
    n_numeric = int(numeric.sum())
    threshold[numeric] = fields.floats(data["threshold"], "threshold", n_numeric, finite=False)
    missing_left[numeric] = fields.integers(data["missing_left"], "missing_left", 0, 1, n_numeric) == 1
    value[~inner] = fields.floats(data["value"], "value", n - int(inner.sum()))
    cover = fields.floats(data["cover"], "cover", n)
    if (cover < 0).any():
        raise ModelFileError("'cover' holds a negative number")
    set_start, set_words, sets = _sets(data["sets"], schema, feature, categorical)
    return TreeEnsemble(
        n_features=schema.n_features,
        base=fields.floats(data["base"], "base", n_outputs),
        tree_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        output=np.arange(n_trees, dtype=np.int64) % n_outputs,
        left=left,
        feature=feature,
        threshold=threshold,
        missing_left=missing_left,
        set_start=set_start,
        set_words=set_words,
        sets=sets,
        value=value,
        cover=cover,
        score=fields.floats(data["score"], "score", n),
    ).validate()


def _to_hex(trees: TreeEnsemble, node: int) -> str:
    """A set of levels as one hexadecimal number, 16 digits a word; bit 0 is the last bit."""
    begin = int(trees.set_start[node])
    words = trees.sets[begin : begin + int(trees.set_words[node])]
    return words[::-1].astype(">u8").tobytes().hex()


def _sets(
    entries: Any, schema: Schema, feature: npt.NDArray[np.int32], categorical: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """``set_start``, ``set_words`` and ``sets`` of the categorical nodes."""
    nodes = np.flatnonzero(categorical)
    entries = fields.sequence(entries, "sets", len(nodes))
    # bit 0 is a missing level
    n_bits = np.array([0 if levels is None else len(levels) + 1 for levels in schema.categories], dtype=np.int64)
    set_start = np.full(len(feature), -1, dtype=np.int64)
    set_words = np.zeros(len(feature), dtype=np.int32)
    set_words[nodes] = (n_bits[feature[nodes]] + 63) // 64
    set_start[nodes] = np.cumsum(set_words[nodes]) - set_words[nodes]
    for node, entry in zip(nodes.tolist(), entries, strict=True):
        if not isinstance(entry, str) or len(entry) != 16 * int(set_words[node]) or not _HEX.fullmatch(entry):
            raise ModelFileError(f"'sets': node {node} needs {16 * int(set_words[node])} hexadecimal digits")
        if int(entry, 16).bit_length() > n_bits[feature[node]]:
            raise ModelFileError(f"'sets': node {node} has a level that its feature does not have")
    words = [np.frombuffer(bytes.fromhex(entry), dtype=">u8")[::-1] for entry in entries]
    sets = np.concatenate([*words, np.empty(0, np.uint64)]).astype(np.uint64)
    return set_start, set_words, sets
