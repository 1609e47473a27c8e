"""After every iteration the raw predictions that training keeps equal those of `predict`, to the bit."""

import numpy as np
import pytest
from workbench import ALL_RULES, booster, mixed_table, trees_of

from unbiasedgbm.ensemble.predict import leaves, prepare, raw_predict
from unbiasedgbm.losses import (
    AbsoluteError,
    GammaLoss,
    HuberLoss,
    LogLoss,
    MulticlassLogLoss,
    PoissonLoss,
    QuantileLoss,
    SquaredError,
    TweedieLoss,
)
from unbiasedgbm.threads import Pool

LOSSES = {
    "squared": (SquaredError, lambda y: y),
    "absolute": (AbsoluteError, lambda y: y),
    "quantile": (lambda: QuantileLoss(0.2), lambda y: y),
    "huber": (HuberLoss, lambda y: y),
    "poisson": (PoissonLoss, lambda y: np.floor(np.exp(y))),
    "gamma": (GammaLoss, np.exp),
    "tweedie": (TweedieLoss, lambda y: np.maximum(y, 0)),
    "binary": (LogLoss, lambda y: (y > 1).astype(float)),
    "multiclass": (lambda: MulticlassLogLoss(3), lambda y: np.digitize(y, [0, 2]).astype(float)),
}


def check_every_iteration(boosted, n_iterations=8):
    trees = []
    n_splits = 0
    for _ in range(n_iterations):
        trees += boosted.iterate()
        ensemble = trees_of(boosted, trees).validate()
        walk = prepare(ensemble)
        raw = raw_predict(walk, ensemble.base, boosted.table, 0, ensemble.n_trees, Pool(1))
        np.testing.assert_array_equal(raw, boosted.rows.raw)
        n_splits = (ensemble.left >= 0).sum()
        # the leaf that apply finds holds the value that was added
        found = leaves(walk, boosted.table, ensemble.n_trees, Pool(1))
        for t in range(ensemble.n_trees):
            assert (ensemble.left[ensemble.tree_start[t] + found[:, t]] == -1).all()
    assert n_splits > 0
    return ensemble


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rule", ["evidence", "standard"])
def test_all_losses(name, rule):
    X, y = mixed_table(500, n_levels=400)
    make, transform = LOSSES[name]
    boosted = booster(X, transform(y), categorical=[4, 5], loss=make(), split_rule=rule, min_split_gain=-5.0)
    check_every_iteration(boosted)


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize(
    "options",
    [
        {"subsample": 0.5},
        {"role_draw": "node"},
        {"role_draw": "node", "subsample": 0.7},
        {"role_draw": "fit"},
        {"colsample_bytree": 0.5, "colsample_bynode": 0.7},
        {"max_depth": 2},
        {"min_samples_leaf": 1},
    ],
    ids=str,
)
def test_all_rules(rule, options):
    X, y = mixed_table(400, 1, n_levels=350)
    boosted = booster(X, y, categorical=[4, 5], split_rule=rule, min_split_gain=-5.0, **options)
    check_every_iteration(boosted, 4)


def test_weights_and_infinite_values():
    X, y = mixed_table(400, 2)
    X[:10, 0], X[10:20, 0] = np.inf, -np.inf
    y[:10] += 5
    weight = np.random.default_rng(0).exponential(size=400)
    check_every_iteration(booster(X, y, categorical=[4, 5], weight=weight, split_rule="standard"))


def test_validation_rows_are_walked_by_the_same_rule():
    X, y = mixed_table(400, 3, n_levels=350)
    boosted = booster(X, y, categorical=[4, 5], split_rule="merged")
    rng = np.random.default_rng(9)
    other = X[rng.permutation(400)].copy()
    other[rng.random(other.shape) < 0.2] = np.nan
    other[:, 0] *= 100
    table = boosted.schema.read(other)
    bins = boosted.mapper.transform(table, Pool(1))
    raw = np.repeat(boosted.base[None], 400, axis=0)
    trees = []
    for _ in range(5):
        grown = boosted.iterate()
        trees += grown
        for one in grown:
            boosted.add_to(one, bins, raw)
        ensemble = trees_of(boosted, trees)
        expected = raw_predict(prepare(ensemble), ensemble.base, table, 0, ensemble.n_trees, Pool(1))
        np.testing.assert_array_equal(raw, expected)
