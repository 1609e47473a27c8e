"""What is judged as one: each feature that the model splits on, each combination of features, each group.

A CatBoost split may compare a statistic of several features. Such a combination is a *source* of splits of its own, and
its credit is shared equally by its features. A *unit* is whatever is taken out of the prediction together: a source, or
a group of features that the user named. `Units` is made once per model; `Paths` once per tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import Tree, TreeModel
from unbiasedgbm.kernels import kernel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
Members = Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a model, as the kernels read them.

    Attributes
    ----------
    n_units : int
    scored_start, scored_unit : ndarray, int32
        A split by source s is scored for the units ``scored_unit[scored_start[s]:scored_start[s + 1]]``: the source
        itself and the groups that have a feature of it.
    scored_share : ndarray, float64
        How much of the score each of them gets: for a group, the share of the source's features that it has.
    touched_start, touched_unit : ndarray, int32
        Units that share a feature with source s: what they added to a row begins, at the latest, with a split by s.
    columns : tuple of (ndarray of int64, ndarray of float64)
        For each feature and then each group: the units that its importance is a sum of, and their shares.
    """

    n_units: int
    scored_start: IntArray
    scored_unit: IntArray
    scored_share: FloatArray
    touched_start: IntArray
    touched_unit: IntArray
    columns: tuple[tuple[npt.NDArray[np.int64], FloatArray], ...]

    @classmethod
    def of(cls, model: TreeModel, groups: Members) -> Units:
        """Units of the sources that the model splits on and of the groups.

        Parameters
        ----------
        model : TreeModel
        groups : mapping from a name to feature numbers
        """
        splits = [tree.source[tree.is_split] for tree in model.trees]
        used = np.unique(np.concatenate([np.empty(0, np.int32), *splits]))
        group_sets = [frozenset(members.tolist()) for members in groups.values()]
        features = {int(s): frozenset(model.sources[s]) for s in used}
        unit_of_source = {s: u for u, s in enumerate(features)}
        sets = [*features.values(), *group_sets]
        touched: list[list[int]] = [[] for _ in model.sources]
        scored: list[list[int]] = [[] for _ in model.sources]
        shares: list[list[float]] = [[] for _ in model.sources]
        units_with: dict[int, list[int]] = {}
        for u, members in enumerate(sets):
            for j in members:
                units_with.setdefault(j, []).append(u)
        single: list[list[tuple[int, float]]] = [[] for _ in model.feature_names]
        for s, own in features.items():
            touched[s] = sorted({u for j in own for u in units_with[j]})
            scored[s] = [unit_of_source[s], *(u for u in touched[s] if u >= len(features))]
            shares[s] = [1.0, *(len(own & sets[u]) / len(own) for u in scored[s][1:])]
            for j in own:
                single[j].append((unit_of_source[s], 1.0 / len(own)))
        grouped = [[(len(features) + number, 1.0)] for number in range(len(group_sets))]
        return cls(
            len(sets),
            *_lists(scored),
            np.array([share for row in shares for share in row]),
            *_lists(touched),
            tuple(
                (np.array([u for u, _ in column], dtype=np.int64), np.array([share for _, share in column]))
                for column in (*single, *grouped)
            ),
        )

    def spread(self, table: FloatArray) -> FloatArray:
        """Values of units as values of features and groups: shape (…, n_units) to (…, n_columns)."""
        found = [table[..., units] @ shares for units, shares in self.columns]
        return np.stack(found, axis=-1) if found else np.zeros((*table.shape[:-1], 0))

    def count(self, table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Counts of units as counts of features and groups; a combination counts for each of its features."""
        return np.array([table[units].sum() for units, _ in self.columns], dtype=np.int64)


def _lists(rows: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Lists of numbers as one array, and where each list begins."""
    start = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return start, np.array([u for row in rows for u in row], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Paths:
    """What lies on the way to each leaf of one tree.

    A *slot* is a split scored for one unit. Its two children have the rows ``2 slot`` and ``2 slot + 1`` in tables of
    sums. The *entries* of a leaf are the units that have a split on its path, from the leaf upwards.

    Attributes
    ----------
    slot_node, slot_unit : ndarray of shape (n_slots,), int32
    slot_share : ndarray of shape (n_slots,), float64
    entry_start : ndarray of shape (n_nodes + 1,), int32
        The entries of leaf v are ``entry_start[v]`` to ``entry_start[v + 1] - 1``.
    entry_unit, entry_top : ndarray of shape (n_entries,), int32
        The unit, and the first node on the path whose split has to do with it.
    step_start : ndarray of shape (n_nodes + 1,), int32
        The steps of leaf v: one for every slot on its path.
    step_entry, step_row : ndarray of shape (n_steps,), int32
        Which of the leaf's entries the step belongs to, counted from 0, and the row of the child that it leads to.
    """

    slot_node: IntArray
    slot_unit: IntArray
    slot_share: FloatArray
    entry_start: IntArray
    entry_unit: IntArray
    entry_top: IntArray
    step_start: IntArray
    step_entry: IntArray
    step_row: IntArray

    @classmethod
    def of(cls, tree: Tree, units: Units) -> Paths:
        """Paths of one tree."""
        n_nodes = len(tree.left)
        source = np.where(tree.is_split, tree.source, -1)
        n_scored, n_touched = (np.diff(start) for start in (units.scored_start, units.touched_start))
        slots = np.where(source >= 0, n_scored[source], 0)
        first_slot = np.concatenate([[0], np.cumsum(slots)]).astype(np.int32)
        splits = np.flatnonzero(source >= 0)
        n_slots = int(first_slot[-1])
        scored = np.arange(n_slots) + np.repeat(units.scored_start[source[splits]] - first_slot[splits], slots[splits])
        leaves = np.flatnonzero((tree.left < 0) & (tree.depth >= 0))
        room = max(1, int(tree.depth[leaves].sum()))
        entry_start, step_start = np.empty((2, n_nodes + 1), np.int32)
        entry_unit, entry_top = np.empty((2, room * int(n_touched.max(initial=1))), np.int32)
        step_entry, step_row = np.empty((2, room * int(n_scored.max(initial=1))), np.int32)
        n_entries, n_steps = fill_paths(
            *(tree.left, tree.parent, tree.depth, source.astype(np.int32), first_slot),
            *(units.scored_start, units.scored_unit, units.touched_start, units.touched_unit),
            np.full(units.n_units, -1, dtype=np.int32),
            *(entry_start, entry_unit, entry_top, step_start, step_entry, step_row),
        )
        return cls(
            np.repeat(splits, slots[splits]).astype(np.int32),
            units.scored_unit[scored],
            units.scored_share[scored],
            entry_start,
            entry_unit[:n_entries],
            entry_top[:n_entries],
            step_start,
            step_entry[:n_steps],
            step_row[:n_steps],
        )


@kernel
def fill_paths(
    left: IntArray,
    parent: IntArray,
    depth: IntArray,
    source: IntArray,
    first_slot: IntArray,
    scored_start: IntArray,
    scored_unit: IntArray,
    touched_start: IntArray,
    touched_unit: IntArray,
    place: IntArray,
    entry_start: IntArray,
    entry_unit: IntArray,
    entry_top: IntArray,
    step_start: IntArray,
    step_entry: IntArray,
    step_row: IntArray,
) -> tuple[int, int]:
    """Fill the arrays of `Paths`.

    Parameters
    ----------
    left, parent, depth, source : ndarray of shape (n_nodes,), int32
    first_slot : ndarray of shape (n_nodes + 1,), int32
        First slot of each split.
    scored_start, scored_unit, touched_start, touched_unit
        From `Units`.
    place : ndarray of shape (n_units,), int32, all -1
        Working memory; -1 again at the end.
    entry_start, ..., step_row
        Written.

    Returns
    -------
    n_entries, n_steps : int
    """
    entries = 0
    steps = 0
    for v in range(len(left)):
        entry_start[v] = entries
        step_start[v] = steps
        if left[v] >= 0 or depth[v] < 0:
            continue
        child = v
        while parent[child] >= 0:
            top = parent[child]
            s = source[top]
            for position in range(touched_start[s], touched_start[s + 1]):
                u = touched_unit[position]
                if place[u] < 0:
                    place[u] = entries - entry_start[v]
                    entry_unit[entries] = u
                    entries += 1
                entry_top[entry_start[v] + place[u]] = top
            side = 0 if left[top] == child else 1
            for number in range(scored_start[s + 1] - scored_start[s]):
                step_entry[steps] = place[scored_unit[scored_start[s] + number]]
                step_row[steps] = 2 * (first_slot[top] + number) + side
                steps += 1
            child = top
        for entry in range(entry_start[v], entries):
            place[entry_unit[entry]] = -1
    entry_start[len(left)] = entries
    step_start[len(left)] = steps
    return entries, steps
