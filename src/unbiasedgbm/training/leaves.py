"""Leaf values: the Newton step of every leaf, and what it adds to the raw predictions of the leaf's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import inline_kernel, kernel
from unbiasedgbm.training.nodes import N_NODES

if TYPE_CHECKING:
    from unbiasedgbm.training.workspace import Rows, Workspace

FloatArray = npt.NDArray[np.float64]


class NewtonStep(NamedTuple):
    """How sums over a leaf's rows become what it adds."""

    g_unit: float
    """Power of two by which gradients are multiplied before they are added up as integers."""
    h_unit: float
    reg_lambda: float
    pull: float
    """Hessian by which a node's step is drawn to that of its parent."""
    bound: float
    """A node's bounds by monotone constraints times this are bounds on its value."""
    most: float
    """Longest step."""
    rate: float
    """Share of the step that is taken."""


def newton_step(rows: Rows, memory: Workspace, output: int, step: NewtonStep) -> FloatArray:
    """−G/(H + λ) of every leaf, in steps that many threads or workers share; returns the values of all nodes."""
    leaf, m = _leaves(memory), int(memory.state[N_NODES])
    sums, value = np.zeros((m, 2), np.int64), np.empty(m)
    sums[leaf] = rows.leaf_sums(memory, leaf, output, (step.g_unit, step.h_unit))
    leaf_values(memory.nodes.node[:m], sums, *step, value)
    rows.add(memory, leaf, output, value[leaf])
    return value


def quantile_step(rows: Rows, memory: Workspace, output: int, level: float, step: NewtonStep) -> FloatArray:
    """A quantile of every leaf's residuals; returns the values of all nodes."""
    leaf = _leaves(memory)
    found = rows.leaf_quantiles(memory, leaf, output, level)
    if memory.features["monotone"].any():
        low, high = _bounds(memory, leaf, found)
        found = found.clip(low, high)
    added = found * step.rate
    rows.add(memory, leaf, output, added)
    value = np.zeros(int(memory.state[N_NODES]))
    value[leaf] = added
    return value


def _bounds(memory: Workspace, leaf: npt.NDArray[np.intp], value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What monotone constraints allow each leaf: children of such a split meet between the means of their leaves.

    Bounds found while the tree grew are in units of gradients, which say nothing of quantiles.
    """
    node = memory.nodes.node[: int(memory.state[N_NODES])]
    n_rows, total = (np.zeros(len(node)) for _ in range(2))
    n_rows[leaf] = memory.nodes.count[leaf].sum(axis=1)
    total[leaf] = n_rows[leaf] * value
    inner = [(k, int(node["left"][k])) for k in np.flatnonzero(node["left"] >= 0).tolist()]
    # a node's children come after it
    for k, left in reversed(inner):
        for sums in (n_rows, total):
            sums[k] = sums[left] + sums[left + 1]
    low, high = np.full(len(node), -np.inf), np.full(len(node), np.inf)
    for k, left in inner:
        sign = int(memory.features["monotone"][node["feature"][k]])
        for side in (left, left + 1):
            low[side], high[side] = low[k], high[k]
        if sign != 0:
            means = total[left : left + 2] / np.maximum(n_rows[left : left + 2], 1.0)
            middle = means.mean().clip(low[k], high[k])
            lower, upper = (left, left + 1) if sign > 0 else (left + 1, left)
            high[lower] = low[upper] = middle
    return low[leaf], high[leaf]


def _leaves(memory: Workspace) -> npt.NDArray[np.intp]:
    return np.flatnonzero(memory.nodes.node["left"][: int(memory.state[N_NODES])] < 0)


@kernel
def leaf_values(node, sums, g_unit, h_unit, reg_lambda, pull, bound, most, rate, value):
    """What each leaf adds, from sums over its rows.

    The step of a node is (π v − G) / (H + λ + π), where v is the step of its parent, and zero for the root: the fewer
    rows a leaf has, the more it is like the leaf that its parent would have been.

    Parameters
    ----------
    node : ndarray of shape (m,), NODE_TYPE
    sums : ndarray of shape (m, 2), int64
        Σg and Σh of leaves, in fixed point; those of other nodes are filled in.
    g_unit, h_unit, reg_lambda, pull, bound, most, rate
        See `NewtonStep`.
    value : ndarray of shape (m,), float64
        Filled; 0 for inner nodes.
    """
    for k in range(node.size - 1, -1, -1):
        left = node[k].left
        if left >= 0:
            # children come after their parents
            for j in range(2):
                sums[k, j] = sums[left, j] + sums[left + 1, j]
    value[0] = 0.0
    for k in range(node.size):
        push = -(sums[k, 0] / g_unit)
        if pull > 0.0:
            # so far it is the step of its parent
            push += pull * value[k]
        newton = push / max(sums[k, 1] / h_unit + reg_lambda + pull, 1e-300)
        left = node[k].left
        if left >= 0:
            value[left] = newton
            value[left + 1] = newton
            value[k] = 0.0
        else:
            newton = min(max(newton, -most), most)
            value[k] = min(max(newton, node[k].low * bound), node[k].high * bound) * rate


@kernel
def finish_leaves(
    node,
    count,
    first_role,
    g,
    h,
    weight,
    rows,
    g_unit,
    h_unit,
    reg_lambda,
    pull,
    bound,
    most,
    rate,
    at,
    step,
    bag,
    n_bags,
    sums,
    value,
):
    """`newton_step` in one call, where one thread has all rows.

    Parameters
    ----------
    node : ndarray of shape (m,), NODE_TYPE
    count : ndarray of shape (m, 4), int64
        Rows of each role.
    first_role : int
        First role whose rows values are computed of.
    g, h, weight
        As in `gradients.pack`.
    rows : ndarray of shape (n,), uint32
    g_unit, h_unit, reg_lambda, pull, bound, most, rate
        See `NewtonStep`.
    at, step : int
        Row i's raw prediction is at + step * i.
    bag : ndarray of shape (n * step,), float64
        Added to, `n_bags` times.
    sums : ndarray of shape (m, 2), int64
        Working memory.
    value : ndarray of shape (m,), float64
        Filled.
    """
    for k in range(node.size):
        if node[k].left >= 0:
            continue
        begin = node[k].begin
        for role in range(first_role):
            begin += count[k, role]
        end = begin
        for role in range(first_role, 3):
            end += count[k, role]
        sums[k, 0], sums[k, 1] = _sum_range(g, h, weight, rows, begin, end, g_unit, h_unit)
    leaf_values(node, sums, g_unit, h_unit, reg_lambda, pull, bound, most, rate, value)
    for k in range(node.size):
        if node[k].left >= 0:
            continue
        of_bag = value[k] * n_bags
        begin = node[k].begin
        for i in range(np.uint64(begin), np.uint64(begin + node[k].n_rows)):
            bag[np.uint64(at) + np.uint64(step) * np.uint64(rows[i])] += of_bag


@inline_kernel
def _sum_range(g, h, weight, rows, begin, end, g_unit, h_unit):
    """Fixed-point sums of weighted g and h over rows[begin:end]."""
    weighted = weight.size > 0
    total_g = np.int64(0)
    total_h = np.int64(0)
    for i in range(np.uint64(begin), np.uint64(end)):
        row = np.uint64(rows[i])
        # never; but a loop with a second way out does not become vector code, which would gather, twice as slow
        if row >= np.uint64(g.size):
            break
        x = np.rint(np.float64(g[row]) * g_unit)
        y = np.rint(np.float64(h[row]) * h_unit)
        if weighted:
            x = np.rint(x * weight[row])
            y = np.rint(y * weight[row])
        total_g += np.int64(x)
        total_h += np.int64(y)
    return total_g, total_h


@kernel
def sum_chunks(g, h, weight, rows, begins, ends, first, last, g_unit, h_unit, sums):
    """Fixed-point sums of weighted g and h over chunks of rows, for leaf values.

    Parameters
    ----------
    g, h, weight
        As in `gradients.pack`.
    begins, ends : ndarrays of shape (n_chunks,), int64
        Each chunk is rows[begin:end].
    first, last : int
        Chunks to do.
    g_unit, h_unit : float
        Powers of two that leave room for all rows.
    sums : ndarray of shape (n_chunks, 2), int64
        Filled.
    """
    for c in range(first, last):
        sums[c, 0], sums[c, 1] = _sum_range(g, h, weight, rows, begins[c], ends[c], g_unit, h_unit)


@kernel
def add_values(raw, at, step, rows, begins, ends, values, first, last):
    """Add each chunk's value to the raw predictions of its rows.

    Parameters
    ----------
    raw : ndarray of shape (n * step,), float64
    begins, ends : ndarrays of shape (n_chunks,), int64
    values : ndarray of shape (n_chunks,), float64
    first, last : int
        Chunks to do.
    """
    for c in range(first, last):
        for i in range(np.uint64(begins[c]), np.uint64(ends[c])):
            raw[np.uint64(at) + np.uint64(step) * np.uint64(rows[i])] += values[c]
