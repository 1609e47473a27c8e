"""`split_rule="standard"` against an exact search on raw values: no bins, no integers, no histograms."""

import numpy as np
import pytest
from workbench import mixed_table

from unbiasedgbm import UnbiasedGBMRegressor


def exact_splits(x, categorical, g, rows, min_samples, lam, cat_smooth):
    """Every way to send the rows left: ``(left mask, score)``, with h = 1."""
    values = x[rows]
    ways = []
    present = np.unique(values[~np.isnan(values)])
    if categorical:
        levels = [rows & (x == level) for level in present] + [rows & np.isnan(x)]
        levels = [level for level in levels if level.any()]
        levels.sort(key=lambda level: g[level].sum() / (level.sum() + cat_smooth))
        ways = [np.logical_or.reduce(levels[:k]) for k in range(1, len(levels))]
    else:
        missing = rows & np.isnan(x)
        for cut in present[:-1]:
            below = rows & (x <= cut)
            ways += [below | missing, below] if missing.any() else [below]
        if missing.any():
            ways.append(missing)
    total = g[rows].sum() ** 2 / (rows.sum() + lam)
    for left in ways:
        right = rows & ~left
        if min(left.sum(), right.sum()) < min_samples:
            continue
        score = g[left].sum() ** 2 / (left.sum() + lam) + g[right].sum() ** 2 / (right.sum() + lam) - total
        yield left, 0.5 * score


def exact_tree(X, categorical, g, num_leaves, min_samples, lam, cat_smooth):
    """Leaf-wise growth; returns the leaves as masks."""

    def best_of(rows):
        best = (-np.inf, None)
        for j in range(X.shape[1]):
            for left, score in exact_splits(X[:, j], j in categorical, g, rows, min_samples, lam, cat_smooth):
                if score > best[0]:
                    best = (score, left)
        return best

    leaves = [np.ones(len(g), bool)]
    options = [best_of(leaves[0])]
    while len(leaves) < num_leaves:
        k = int(np.argmax([score for score, _ in options]))
        score, left = options[k]
        if left is None or score < 0:
            break
        rows = leaves[k]
        leaves[k], options[k] = rows & left, best_of(rows & left)
        leaves.append(rows & ~left)
        options.append(best_of(rows & ~left))
    return leaves


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_same_trees_as_an_exact_search(seed, lam):
    n = 120
    X, y = mixed_table(n, seed, n_levels=20)
    X[:, [0, 1, 3]] = X[:, [0, 1, 3]].round(1)  # fewer distinct values than bins: the bins lose nothing
    model = UnbiasedGBMRegressor(
        split_rule="standard", n_estimators=3, learning_rate=0.5, num_leaves=7, min_samples_leaf=4,
        min_child_weight=0.0, reg_lambda=lam, max_bins=255, categorical_features=[4, 5], n_jobs=1,
    ).fit(X, y)  # fmt: skip
    raw = np.full(n, y.mean())
    np.testing.assert_allclose(model.predict(X, n_iterations=0), raw, rtol=1e-12)
    for k, staged in enumerate(model.staged_predict(X)):
        g = raw - y
        for leaf in exact_tree(X, {4, 5}, g, 7, 4, lam, 5.0):
            raw[leaf] -= 0.5 * g[leaf].sum() / (leaf.sum() + lam)
            # all rows of the leaf end up in one leaf of the model
            assert len(np.unique(model.apply(X)[leaf, k])) == 1
        # float32 gradients: 2**-24 of a gradient a row
        np.testing.assert_allclose(staged, raw, atol=2e-6 * np.abs(y).max())
