"""Leaf values against the formula, node by node."""

import numpy as np
import pytest

from unbiasedgbm.training.leaves import path_values

#       0
#     1   2
#   3  4
LEFT = np.array([1, 3, -1, -1, -1])
G = {2: 5.0, 3: -2.0, 4: 7.0}
H = {2: 4.0, 3: 0.5, 4: 3.0}


@pytest.mark.parametrize("reg_lambda", [0.0, 1.5])
@pytest.mark.parametrize("smooth", [0.0, 2.5])
def test_equals_the_formula(reg_lambda, smooth):
    g, h, value = np.zeros(5), np.zeros(5), np.zeros(5)
    for k in G:
        g[k], h[k] = G[k], H[k]
    path_values(LEFT, g, h, reg_lambda, smooth, value)
    root = -(5.0 - 2.0 + 7.0) / (7.5 + reg_lambda)
    inner = (smooth * root - 5.0) / (3.5 + reg_lambda + smooth)
    expected = [
        root,
        inner,
        (smooth * root - 5.0) / (4.0 + reg_lambda + smooth),
        (smooth * inner + 2.0) / (0.5 + reg_lambda + smooth),
        (smooth * inner - 7.0) / (3.0 + reg_lambda + smooth),
    ]
    np.testing.assert_allclose(value, expected, rtol=1e-15)


def test_without_smoothing_it_is_the_newton_step_to_the_bit():
    rng = np.random.default_rng(0)
    g, h, value = rng.normal(size=5), rng.random(5), np.zeros(5)
    leaf = LEFT < 0
    expected = -g[leaf] / (h[leaf] + 1.0)
    path_values(LEFT, g, h, 1.0, 0.0, value)
    np.testing.assert_array_equal(value[leaf], expected)


def test_a_tree_that_is_a_leaf():
    value = np.zeros(1)
    path_values(np.array([-1]), np.array([3.0]), np.array([2.0]), 1.0, 10.0, value)
    assert value[0] == -1.0
