"""Kernels against their NumPy twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unbiasedgbm.ensemble.adapters import Tree, UnsupportedModelError
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.draws import mean_ratio

from .helpers import below

# 0 splits into 1 and 2; 2 into 5 and 3; node 4 is not reached, children need not come after their parents' siblings.
LEFT = np.array([1, -1, 5, -1, -1, -1], dtype=np.int32)
RIGHT = np.array([2, -1, 3, -1, -1, -1], dtype=np.int32)
SOURCE = np.array([0, -1, 1, -1, -1, -1], dtype=np.int32)


def tree() -> Tree:
    return Tree(LEFT, RIGHT, SOURCE, np.zeros((6, 1)))


def rows(n_rows: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    node = rng.choice(np.array([1, 5, 3], dtype=np.int32), n_rows)
    h = rng.uniform(0.1, 1.0, n_rows)
    h[rng.random(n_rows) < 0.1] = 0.0
    return node, np.where(h > 0, rng.normal(size=n_rows), 0.0), h


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


def test_sums_over_rows() -> None:
    shape = tree()
    node, g, h = rows()
    train, total = np.zeros((6, 2)), np.zeros((6, 6), np.int64)
    units = np.array([1.0, *[2.0**52] * 5])
    sums.sum_training_rows(node, g, h, shape.order, shape.parent, train)
    sums.add_rows(node[:70], g[:70], h[:70], units, total)
    sums.add_rows(node[70:], g[70:], h[70:], units, total)
    sums.lift_sums(shape.order, shape.parent, total)
    held = total / units
    for v in (0, 1, 2, 3, 5):
        inside = below(shape, v, node) & (h > 0)
        expected = [inside.sum(), g[inside].sum(), h[inside].sum(), (g * h)[inside].sum(), (h * h)[inside].sum()]
        expected.append((g * g)[inside].sum())
        np.testing.assert_allclose(held[v], expected, rtol=1e-12)
        np.testing.assert_allclose(train[v], expected[1:3], rtol=1e-12)
    assert not held[4].any()


def test_expected_ratio_is_the_mean_over_subsets() -> None:
    _, g, h = rows()
    g, h = g[h > 0], h[h > 0]
    total = np.array([[len(g), g.sum(), h.sum(), (g * h).sum(), (h * h).sum()]])
    rng = np.random.default_rng(1)
    for k in (15, 60):
        drawn = [rng.choice(len(g), k, replace=False) for _ in range(20_000)]
        ratios = np.array([g[i].sum() / h[i].sum() for i in drawn])
        error = ratios.std() / np.sqrt(len(ratios))
        assert abs(sums.expected_ratio(total, 0, float(k)) - ratios.mean()) < 4 * error
    assert sums.expected_ratio(total, 0, float(len(g))) == g.sum() / h.sum()


def test_expected_ratio_is_exact_for_constant_h() -> None:
    g = np.random.default_rng(0).normal(size=50)
    total = np.array([[50.0, g.sum(), 100.0, 2 * g.sum(), 200.0]])
    assert sums.expected_ratio(total, 0, 5.0) == pytest.approx(g.sum() / 100.0, rel=1e-12)


def test_mean_ratio_of_draws() -> None:
    _, g, h = rows()
    inside = np.flatnonzero(h > 0)
    total = np.array(
        [[len(inside), g.sum(), h.sum(), (g * h).sum(), (h * h).sum()]],
    )
    drawn = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(1), np.uint64(0))
    again = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(1), np.uint64(0))
    other = mean_ratio(g, h, inside.copy(), 20, 20_000, np.uint64(2), np.uint64(0))
    spread = g[inside].std() / h[inside].mean() / np.sqrt(20 * 20_000)
    assert drawn == again != other
    assert abs(drawn - sums.expected_ratio(total, 0, 20.0)) < 4 * spread
    # All rows drawn: no chance left, and every row is used once.
    whole = mean_ratio(g, h, inside.copy(), len(inside), 3, np.uint64(1), np.uint64(0))
    assert whole == pytest.approx(g.sum() / h.sum())


def test_paths_gather_repeated_and_shared_features() -> None:
    shape = tree()
    per_g = np.array([0.0, 1.0, 2.0, 3.0, 9.0, 4.0])
    per_h = np.array([0.0, 0.1, 0.2, 0.3, 9.0, 0.4])
    # Source 0 is feature 0; source 1 is features 0 and 2 together.
    start, feature = np.array([0, 1, 3], dtype=np.int32), np.array([0, 0, 2], dtype=np.int32)
    leaf_start = np.empty(7, dtype=np.int32)
    leaf_feature, leaf_weight = np.empty(12, dtype=np.int32), np.empty((12, 2))
    place = np.full(3, -1, dtype=np.int32)
    sums.gather_paths(
        shape.left, shape.parent, shape.source, per_g, per_h, start, feature, place, leaf_start, leaf_feature,
        leaf_weight,
    )  # fmt: skip
    assert (place == -1).all()
    node, g, h = rows()
    psi = np.zeros((len(node), 3))
    sums.add_contributions(node, g, h, leaf_start, leaf_feature, leaf_weight, psi)
    expected = np.zeros_like(psi)
    for i in np.flatnonzero(h):
        u = int(node[i])
        while shape.parent[u] >= 0:
            part = per_g[u] * g[i] - per_h[u] * h[i]
            features = [0] if shape.parent[u] == 0 else [0, 2]
            expected[i, features] += part / len(features)
            u = int(shape.parent[u])
    np.testing.assert_allclose(psi, expected, atol=1e-14)
