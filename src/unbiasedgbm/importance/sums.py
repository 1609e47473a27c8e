"""Kernels that pass over rows: sums by leaf and by split, contributions of held-out rows, effects to take out.

``node`` holds the leaf of each row. A row of weight zero takes no part. Sums are integers in fixed point, so that they
depend neither on the order of the rows nor on where the rows lie.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import kernel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]

# Columns of the sums by node: number of rows, their mass and its square. The mass of a row is its weight; in the
# paper's sums its second derivative.
N, MASS, SQUARE = range(3)

# Columns of the sums by step, over the rows of a child: gradients, gradient times mass, squared gradient.
G, GM, GG = range(3)


@kernel
def add_masses(node: IntArray, mass: FloatArray, units: FloatArray, total: LongArray) -> None:
    """Add rows to the sums of their leaves: their number, mass and squared mass.

    Parameters
    ----------
    node : ndarray of shape (n_rows,), int32
    mass : ndarray of shape (n_rows,), float64
    units : ndarray of shape (2,), float64
        Powers of two that leave room for all rows, for mass and squared mass.
    total : ndarray of shape (n_nodes, 3), int64; added to
    """
    for i in range(len(node)):
        m = mass[i]
        if m != 0.0:
            v = node[i]
            total[v, N] += 1
            total[v, MASS] += np.int64(np.rint(m * units[0]))
            total[v, SQUARE] += np.int64(np.rint(m * m * units[1]))


@kernel
def add_gradients(node: IntArray, g: FloatArray, mass: FloatArray, unit: float, total: LongArray) -> None:
    """Add the gradients of training rows to their leaves, ``total`` of shape (n_nodes,); for the paper's sums."""
    for i in range(len(node)):
        if mass[i] != 0.0:
            total[node[i]] += np.int64(np.rint(g[i] * unit))


@kernel
def sum_training_rows(
    node: IntArray, g: FloatArray, h: FloatArray, order: IntArray, parent: IntArray, total: FloatArray
) -> None:
    """Σg and Σh of the training rows in every node, ``total`` of shape (n_nodes, 2); for plain gain."""
    for i in range(len(node)):
        v = node[i]
        if h[i] != 0.0:
            total[v, 0] += g[i]
            total[v, 1] += h[i]
    for position in range(len(order) - 1, 0, -1):
        v = order[position]
        if v >= 0:
            total[parent[v], 0] += total[v, 0]
            total[parent[v], 1] += total[v, 1]


@kernel
def add_steps(
    node: IntArray,
    mass: FloatArray,
    g: FloatArray,
    entry_start: IntArray,
    step_start: IntArray,
    step_entry: IntArray,
    step_row: IntArray,
    units: FloatArray,
    total: LongArray,
) -> None:
    """Add held-out rows to the sums of every step on their paths.

    Parameters
    ----------
    node, mass
        As in `add_masses`.
    g : ndarray of shape (n_entries,), float64
        Gradients of the first row's entries, then of the second row's, and so on.
    entry_start, step_start, step_entry, step_row
        From `Paths`.
    units : ndarray of shape (3,), float64
        Powers of two for g, g times mass and g².
    total : ndarray of shape (2 n_slots, 3), int64; added to
    """
    first = 0
    for i in range(len(node)):
        v = node[i]
        if mass[i] != 0.0:
            for step in range(step_start[v], step_start[v + 1]):
                value = g[first + step_entry[step]]
                row = step_row[step]
                total[row, G] += np.int64(np.rint(value * units[G]))
                total[row, GM] += np.int64(np.rint(value * mass[i] * units[GM]))
                total[row, GG] += np.int64(np.rint(value * value * units[GG]))
        first += entry_start[v + 1] - entry_start[v]


@kernel
def lift_sums(order: IntArray, parent: IntArray, total: LongArray) -> None:
    """Add the sums of leaves to the nodes above them.

    Parameters
    ----------
    order, parent : ndarray of shape (n_nodes,), int32
        See `Tree`; unreached nodes are -1 at the end of ``order``.
    total : ndarray of shape (n_nodes, n_columns), int64; added to
    """
    for position in range(len(order) - 1, 0, -1):
        v = order[position]
        if v >= 0:
            for column in range(total.shape[1]):
                total[parent[v], column] += total[v, column]


@kernel
def gather_entries(
    node: IntArray,
    entry_start: IntArray,
    entry_unit: IntArray,
    raw: FloatArray,
    own: npt.NDArray[np.float32],
    row: LongArray,
    without: FloatArray,
) -> None:
    """For every row and every unit on its path: the raw prediction without what the unit has added so far.

    Parameters
    ----------
    node : ndarray of shape (n_rows,), int32
    entry_start, entry_unit
        From `Paths`.
    raw : ndarray of shape (n_rows, n_outputs), float64
    own : ndarray of shape (n_rows, n_units, n_outputs), float32
        What each unit has added so far.
    row : ndarray of shape (n_entries,), int64; written
        The row of each entry.
    without : ndarray of shape (n_entries, n_outputs), float64; written
    """
    place = 0
    for i in range(len(node)):
        v = node[i]
        for entry in range(entry_start[v], entry_start[v + 1]):
            row[place] = i
            for output in range(raw.shape[1]):
                without[place, output] = raw[i, output] - own[i, entry_unit[entry], output]
            place += 1


@kernel
def repeat_entries(node: IntArray, entry_start: IntArray, g: FloatArray, repeated: FloatArray) -> None:
    """The gradient of each row, once for every entry of its leaf; ``repeated`` is written."""
    place = 0
    for i in range(len(node)):
        for _ in range(entry_start[node[i] + 1] - entry_start[node[i]]):
            repeated[place] = g[i]
            place += 1


@kernel
def place_entries(
    node: IntArray, entry_start: IntArray, entry_unit: IntArray, unit: int, g: FloatArray, placed: FloatArray
) -> None:
    """The gradient of each row for the entries of one unit; ``placed`` of shape (n_entries,) is written there."""
    place = 0
    for i in range(len(node)):
        for entry in range(entry_start[node[i]], entry_start[node[i] + 1]):
            if entry_unit[entry] == unit:
                placed[place] = g[i]
            place += 1


@kernel
def add_own_effects(
    node: IntArray,
    entry_start: IntArray,
    entry_unit: IntArray,
    entry_top: IntArray,
    value: FloatArray,
    mean: FloatArray,
    output: int,
    own: npt.NDArray[np.float32],
) -> None:
    """Add what one tree gives a row because of each unit: its leaf's value, less the mean below the unit's first split.

    Parameters
    ----------
    node : ndarray of shape (n_rows,), int32
    entry_start, entry_unit, entry_top
        From `Paths`.
    value, mean : ndarray of shape (n_nodes,), float64
        Leaf values, and mean values of the leaves below each node; see `score.mean_values`.
    output : int
    own : ndarray of shape (n_rows, n_units, n_outputs), float32; added to
    """
    for i in range(len(node)):
        v = node[i]
        for entry in range(entry_start[v], entry_start[v + 1]):
            own[i, entry_unit[entry], output] += np.float32(value[v] - mean[entry_top[entry]])


@kernel
def add_contributions(
    node: IntArray,
    mass: FloatArray,
    g: FloatArray,
    entry_start: IntArray,
    entry_unit: IntArray,
    entry_weight: FloatArray,
    psi: FloatArray,
) -> None:
    """Add what each held-out row contributes through one tree to the units on its path.

    Parameters
    ----------
    node, mass, g
        As in `add_steps`.
    entry_start, entry_unit
        From `Paths`.
    entry_weight : ndarray of shape (n_entries, 2), float64
        Weights of g and of the mass; see `score.entry_weights`.
    psi : ndarray of shape (n_rows, n_units), float64; added to
    """
    first = 0
    for i in range(len(node)):
        v = node[i]
        begin = entry_start[v]
        if mass[i] != 0.0:
            for entry in range(begin, entry_start[v + 1]):
                value = entry_weight[entry, 0] * g[first + entry - begin] + entry_weight[entry, 1] * mass[i]
                psi[i, entry_unit[entry]] += value
        first += entry_start[v + 1] - begin


@kernel
def count_groups(
    order: LongArray,
    groups: npt.NDArray[np.uint32],
    node: IntArray,
    mass: FloatArray,
    parent: IntArray,
    last: LongArray,
    total: FloatArray,
    count: FloatArray,
    square: FloatArray,
) -> None:
    """Number of groups that have rows in each node, and the sum of their squared masses.

    Parameters
    ----------
    order : ndarray of shape (n_rows,), int64
        The rows, group by group.
    groups : ndarray of shape (n_rows,), uint32
    node, mass
        As in `add_masses`.
    parent : ndarray of shape (n_nodes,), int32
    last : ndarray of shape (n_nodes,), int64
        Working memory: the last group seen in each node, -1 at the beginning.
    total : ndarray of shape (n_nodes,), float64, zeros
        Working memory: the mass of that group in each node.
    count, square : ndarray of shape (n_nodes,), float64; added to
    """
    for position in range(len(order)):
        i = order[position]
        if mass[i] == 0.0:
            continue
        group = np.int64(groups[i])
        v = node[i]
        while v >= 0:
            if last[v] != group:
                last[v] = group
                count[v] += 1.0
                square[v] += total[v] * total[v]
                total[v] = 0.0
            total[v] += mass[i]
            v = parent[v]
    for v in range(len(total)):
        square[v] += total[v] * total[v]
