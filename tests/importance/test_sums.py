"""Kernels against their NumPy twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unbiasedgbm.ensemble.adapters import Tree, UnsupportedModelError
from unbiasedgbm.importance import score, sums
from unbiasedgbm.importance.draws import mean_ratio
from unbiasedgbm.importance.units import Paths, Units
from unbiasedgbm.kernels import kernel

from .helpers import below

# 0 splits into 1 and 2; 2 into 5 and 3; node 4 is not reached, children need not come after their parents' siblings.
LEFT = np.array([1, -1, 5, -1, -1, -1], dtype=np.int32)
RIGHT = np.array([2, -1, 3, -1, -1, -1], dtype=np.int32)
SOURCE = np.array([0, -1, 1, -1, -1, -1], dtype=np.int32)


def tree(source: Any = SOURCE) -> Tree:
    return Tree(LEFT, RIGHT, source, np.arange(6.0)[:, None])


class Model:
    """As much of a model as `Units` reads: source 0 is feature 0, source 1 features 0 and 2 together."""

    feature_names = ("a", "b", "c")
    sources = ((0,), (0, 2))

    def __init__(self, *trees: Tree) -> None:
        self.trees = trees


def rows(n_rows: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    node = rng.choice(np.array([1, 5, 3], dtype=np.int32), n_rows)
    mass = rng.uniform(0.1, 1.0, n_rows)
    mass[rng.random(n_rows) < 0.1] = 0.0
    return node, np.where(mass > 0, rng.normal(size=n_rows), 0.0), mass


def test_shape_of_a_tree() -> None:
    shape = tree()
    np.testing.assert_array_equal(shape.parent, [-1, 0, 0, 2, -1, 2])
    np.testing.assert_array_equal(shape.depth, [0, 1, 1, 2, -1, 2])
    np.testing.assert_array_equal(shape.order, [0, 1, 2, 5, 3, -1])
    np.testing.assert_array_equal(shape.is_split, [True, False, True, False, False, False])


@pytest.mark.parametrize("children", [([1, -1, -1], [1, -1, -1]), ([1, -1], [2, -1]), ([1, 0, -1], [2, 2, -1])])
def test_what_is_not_a_tree_is_refused(children: Any) -> None:
    left, right = (np.array(side, dtype=np.int32) for side in children)
    with pytest.raises(UnsupportedModelError, match="not a binary tree"):
        Tree(left, right, left, np.zeros((len(left), 1)))


def test_masses_of_rows() -> None:
    shape = tree()
    node, _, mass = rows()
    total, units = np.zeros((6, 3), np.int64), np.array([2.0**52, 2.0**52])
    sums.add_masses(node[:70], mass[:70], units, total)
    sums.add_masses(node[70:], mass[70:], units, total)
    sums.lift_sums(shape.order, shape.parent, total)
    held = total / np.array([1.0, *units])
    for v in (0, 1, 2, 3, 5):
        inside = below(shape, v, node) & (mass > 0)
        np.testing.assert_allclose(held[v], [inside.sum(), mass[inside].sum(), (mass[inside] ** 2).sum()], rtol=1e-12)
    assert not held[4].any()


def paths_of(groups: Any = None) -> tuple[Tree, Units, Paths]:
    shape = tree()
    units = Units.of(Model(shape), groups or {})  # type: ignore[arg-type]
    return shape, units, Paths.of(shape, units)


def test_units_and_their_columns() -> None:
    _, units, paths = paths_of({"g": np.array([2])})
    # Two sources and a group, which has one of the two features of source 1.
    assert units.n_units == 3
    np.testing.assert_array_equal(paths.slot_node, [0, 2, 2])
    np.testing.assert_array_equal(paths.slot_unit, [0, 1, 2])
    np.testing.assert_array_equal(paths.slot_share, [1.0, 1.0, 0.5])
    np.testing.assert_allclose(units.spread(np.array([1.0, 10.0, 100.0])), [1.0 + 5.0, 0.0, 5.0, 100.0])
    # The unit of source 0 is touched by source 1, too: both have feature 0. The group only by source 1.
    entries = {v: slice(paths.entry_start[v], paths.entry_start[v + 1]) for v in (1, 3, 5)}
    tops = {
        v: dict(zip(paths.entry_unit[e].tolist(), paths.entry_top[e].tolist(), strict=True)) for v, e in entries.items()
    }
    assert tops[1] == {0: 0, 1: 0}
    assert tops[3] == tops[5] == {0: 0, 1: 0, 2: 2}


def test_steps_and_contributions_of_rows() -> None:
    shape, units, paths = paths_of()
    node, _, mass = rows()
    n_entries = np.diff(paths.entry_start)[node]
    g = np.random.default_rng(1).normal(size=n_entries.sum())
    first = np.cumsum(n_entries) - n_entries
    scale = np.full(3, 2.0**50)
    total = np.zeros((2 * len(paths.slot_node), 3), np.int64)
    steps = paths.step_start, paths.step_entry, paths.step_row
    sums.add_steps(node, mass, g, paths.entry_start, *steps, scale, total)
    per_g, per_mass = np.random.default_rng(2).normal(size=(2, len(total)))
    scores = score.TreeScores(np.zeros(2), per_g, per_mass)
    psi = np.zeros((len(node), units.n_units))
    weights = score.entry_weights(paths, scores)
    sums.add_contributions(node, mass, g, paths.entry_start, paths.entry_unit, weights, psi)
    expected, expected_psi = np.zeros((len(total), 3)), np.zeros_like(psi)
    for i in np.flatnonzero(mass):
        entries = range(paths.entry_start[node[i]], paths.entry_start[node[i] + 1])
        of_unit = {int(paths.entry_unit[e]): g[first[i] + place] for place, e in enumerate(entries)}
        u = int(node[i])
        while shape.parent[u] >= 0:
            slot = [0, 2].index(int(shape.parent[u]))
            row = 2 * slot + int(shape.right[shape.parent[u]] == u)
            value = of_unit[slot]
            expected[row] += [value, value * mass[i], value**2]
            expected_psi[i, slot] += per_g[row] * value - per_mass[row] * mass[i]
            u = int(shape.parent[u])
    np.testing.assert_allclose(total / scale, expected, atol=1e-12)
    np.testing.assert_allclose(psi, expected_psi, atol=1e-14)


def test_what_is_taken_out_of_predictions() -> None:
    shape, units, paths = paths_of()
    node, _, mass = rows()
    mean = np.zeros(6)
    weight = np.array([10.0, 4.0, 6.0, 5.0, 0.0, 1.0])
    score.mean_values(shape.left, shape.right, shape.order, shape.value[:, 0].copy(), weight, mean)
    np.testing.assert_allclose(mean[[0, 1, 2, 3, 5]], [(4 * 1 + 5 * 3 + 1 * 5) / 10, 1, (5 * 3 + 1 * 5) / 6, 3, 5])
    own = np.zeros((len(node), units.n_units, 2), dtype=np.float32)
    value = np.ascontiguousarray(shape.value[:, 0])
    sums.add_own_effects(node, paths.entry_start, paths.entry_unit, paths.entry_top, value, mean, 1, own)
    # Both units have feature 0, which the root is split by.
    np.testing.assert_allclose(own[:, 0, 1], value[node] - mean[0], rtol=1e-6)
    np.testing.assert_array_equal(own[:, 1, 1], own[:, 0, 1])
    assert not own[:, :, 0].any()
    raw, n_entries = np.random.default_rng(3).normal(size=(len(node), 2)), np.diff(paths.entry_start)[node]
    row, without = np.empty(n_entries.sum(), np.int64), np.empty((n_entries.sum(), 2))
    sums.gather_entries(node, paths.entry_start, paths.entry_unit, raw, own, row, without)
    np.testing.assert_array_equal(row, np.repeat(np.arange(len(node)), n_entries))
    unit = np.concatenate([paths.entry_unit[paths.entry_start[v] : paths.entry_start[v + 1]] for v in node])
    np.testing.assert_array_equal(without, raw[row] - own[row, unit])
    # A gradient for each row and unit reaches the entries of that unit.
    placed, repeated = np.full(len(row), np.nan), np.empty(len(row))
    for u in range(units.n_units):
        sums.place_entries(
            node, paths.entry_start, paths.entry_unit, u, np.ascontiguousarray(without[:, 0])[: len(node)] + u, placed
        )
    np.testing.assert_array_equal(placed, without[row, 0] + unit)
    sums.repeat_entries(node, paths.entry_start, mass, repeated)
    np.testing.assert_array_equal(repeated, mass[row])


@kernel
def ratio_of(n: float, mass: float, square: float, g: float, gm: float, k: float) -> float:
    return score.expected_ratio(n, mass, square, g, gm, k)


def test_expected_ratio_is_the_mean_over_subsets() -> None:
    _, g, h = rows()
    g, h = g[h > 0], h[h > 0]
    total = float(len(g)), h.sum(), (h * h).sum(), g.sum(), (g * h).sum()
    rng = np.random.default_rng(1)
    for k in (15, 60):
        drawn = [rng.choice(len(g), k, replace=False) for _ in range(20_000)]
        ratios = np.array([g[i].sum() / h[i].sum() for i in drawn])
        error = ratios.std() / np.sqrt(len(ratios))
        assert abs(ratio_of(*total, float(k)) - ratios.mean()) < 4 * error
    assert ratio_of(*total, float(len(g))) == g.sum() / h.sum()


def test_expected_ratio_is_exact_for_equal_masses() -> None:
    g = np.random.default_rng(0).normal(size=50)
    assert ratio_of(50.0, 100.0, 200.0, g.sum(), 2 * g.sum(), 5.0) == pytest.approx(g.sum() / 100.0, rel=1e-12)


def test_mean_ratio_of_draws() -> None:
    _, g, h = rows()
    inside = np.flatnonzero(h > 0)
    total = float(len(inside)), h.sum(), (h * h).sum(), g.sum(), (g * h).sum()
    drawn = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(1), np.uint64(0))
    again = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(1), np.uint64(0))
    other = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(2), np.uint64(0))
    spread = g[inside].std() / h[inside].mean() / np.sqrt(20 * 20_000)
    assert drawn == again != other
    assert abs(drawn - ratio_of(*total, 20.0)) < 4 * spread
    # All rows drawn: no chance left, and every row is used once.
    whole = mean_ratio(g, h, inside.copy(), len(inside), 3, np.uint64(1), np.uint64(0))
    assert whole == pytest.approx(g.sum() / h.sum())


def test_no_child_has_a_larger_share_than_any_node_above_it() -> None:
    # A chain of nodes: the share of the third would rise above that of the second, but not above the first's.
    order, parent = np.arange(4, dtype=np.int32), np.array([-1, 0, 1, 2], dtype=np.int32)
    count, mass = np.array([10.0, 8.0, 6.0, 4.0]), np.array([10.0, 8.0, 6.0, 4.0])
    square = np.array([20.0, 32.0, 9.0, 4.0])
    found = score.effective_number(count, mass, square, order, parent)
    np.testing.assert_allclose(found / count, [0.5, 0.25, 0.25, 0.25], rtol=1e-6)
    # A node of no rows says nothing.
    np.testing.assert_array_equal(score.effective_number(*np.zeros((3, 4)), order, parent), 0.0)
