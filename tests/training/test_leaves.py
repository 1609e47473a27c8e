"""Leaf values: Newton steps, drawn to those of the parents."""

import numpy as np
import pytest

from unbiasedgbm import UnbiasedGBMRegressor
from unbiasedgbm.training.leaves import NewtonStep, leaf_values
from unbiasedgbm.training.nodes import NODE_TYPE


def random_tree(rng, n_leaves):
    """Nodes of a tree, each with children behind it, and Σg, Σh of its leaves in whole numbers."""
    node = np.zeros(2 * n_leaves - 1, NODE_TYPE)
    node["left"], node["low"], node["high"] = -1, -np.inf, np.inf
    leaves, n = [0], 1
    while n < len(node):
        k = leaves.pop(rng.integers(len(leaves)))
        node["left"][k] = n
        leaves += [n, n + 1]
        n += 2
    sums = np.zeros((len(node), 2), np.int64)
    sums[leaves, 0] = rng.integers(-900, 900, n_leaves)
    sums[leaves, 1] = rng.integers(1, 90, n_leaves)
    return node, sums, sorted(leaves)


def expected_values(node, sums, step):
    """The same, by recursion."""
    g, h = sums[:, 0] / step.g_unit, sums[:, 1] / step.h_unit
    value = np.zeros(len(node))

    def total(k):
        left = node["left"][k]
        return np.array([g[k], h[k]]) if left < 0 else total(left) + total(left + 1)

    def go(k, above):
        own_g, own_h = total(k)
        own = (step.pull * above - own_g) / (own_h + step.reg_lambda + step.pull)
        left = node["left"][k]
        if left < 0:
            value[k] = np.clip(np.clip(own, -step.most, step.most), node["low"][k], node["high"][k]) * step.rate
        else:
            go(left, own)
            go(left + 1, own)

    go(0, 0.0)
    return value


@pytest.mark.parametrize("pull", [0.0, 4.0])
@pytest.mark.parametrize("n_leaves", [1, 2, 40])
def test_values_of_leaves(pull, n_leaves):
    rng = np.random.default_rng(n_leaves)
    node, sums, leaves = random_tree(rng, n_leaves)
    node["high"][leaves[::3]] = 0.5
    step = NewtonStep(8.0, 4.0, 1.5, pull, 1.0, 3.0, 0.1)
    expected = expected_values(node, sums, step)
    value = np.full(len(node), np.nan)
    leaf_values(node, sums, *step, value)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert not value[node["left"] >= 0].any()


def test_a_leaf_of_one_row_is_drawn_to_its_parent():
    # one row is far from all others, in its target and in its feature, and its neighbours are at ten
    x = np.arange(400.0)
    y = np.where(x >= 200, 10.0, 0.0)
    y[-1] = 30.0
    how = {"linear_start": False, "n_bags": 1, "n_estimators": 1, "learning_rate": 1.0, "n_jobs": 1}
    drawn = [UnbiasedGBMRegressor(random_state=seed, **how).fit(x[:, None], y).predict(x[:, None]) for seed in range(9)]
    # whatever the roles, the far half is near ten: no leaf falls back to the mean of all, which is five
    assert np.all(np.abs(np.array(drawn)[:, 220:380] - 10.0) < 1.0)
