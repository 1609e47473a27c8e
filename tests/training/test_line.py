"""The line that a fit begins from: found where there is one, the same trees everywhere, nothing where there is none."""

from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.binning import learn_bins
from unbiasedgbm.ensemble.predict import prepare, raw_predict
from unbiasedgbm.frames import learn_schema
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.harvest import to_ensemble
from unbiasedgbm.training.line import (
    Column,
    _heights,
    _inverse,
    _level_tree,
    _middles,
    _standardised,
    _tree,
    add_line,
)
from unbiasedgbm.training.setup import go_on, start_raw


def n_line(model):
    return model._model.progress.n_line


def sloped(n, seed=0, n_features=6, missing=0.0):
    """A table whose target rises with the first feature and falls with the second."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = 2 * X[:, 0] - X[:, 1] + rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


# -- whether there is one ----------------------------------------------------------------------------------------------


def test_a_line_is_found_and_helps():
    X, y = sloped(3000)
    truth = 2 * X[1000:, 0] - X[1000:, 1]
    error = {}
    for linear_start in (True, False):
        model = UnbiasedGBMRegressor(linear_start=linear_start).fit(X[:1000], y[:1000])
        error[linear_start] = np.mean((model.predict(X[1000:]) - truth) ** 2)
        assert n_line(model) == (6 if linear_start else 0)
    assert error[True] < 0.8 * error[False]


def test_noise_has_no_line():
    # the first step must be three standard errors from useless: 1.3 in a thousand tables without a signal get a line
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(60):
        model = UnbiasedGBMRegressor(n_estimators=1, random_state=seed)
        found += n_line(model.fit(rng.normal(size=(200, 5)), rng.normal(size=200))) > 0
    assert found <= 1


def test_only_the_default_rule_looks_for_a_line_unless_asked():
    X, y = sloped(500)
    assert n_line(UnbiasedGBMRegressor(n_estimators=2).fit(X, y)) == 6
    assert n_line(UnbiasedGBMRegressor(n_estimators=2, split_rule="merged").fit(X, y)) == 0
    assert n_line(UnbiasedGBMRegressor(n_estimators=2, split_rule="standard").fit(X, y)) == 0
    assert n_line(UnbiasedGBMRegressor(n_estimators=2, split_rule="merged", linear_start=True).fit(X, y)) == 6


def test_losses_without_newton_steps_have_no_line():
    X, y = sloped(500)
    assert n_line(UnbiasedGBMRegressor(loss="absolute_error", n_estimators=2).fit(X, y)) == 0
    with pytest.raises(ValueError, match="linear_start must be None or False with loss='quantile'"):
        UnbiasedGBMRegressor(loss="quantile", linear_start=True).fit(X, y)
    own = (lambda y, raw: (raw - y, np.ones_like(y)), lambda y, raw: 0.5 * (raw - y) ** 2)
    assert n_line(UnbiasedGBMRegressor(loss=own, n_estimators=2).fit(X, y)) == 0


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "huber"])
def test_other_losses_have_one(loss):
    X, y = sloped(2000)
    rate = np.exp(0.5 * y)
    model = UnbiasedGBMRegressor(loss=loss, n_estimators=3).fit(X, rate)
    assert n_line(model) == 6
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("n", [5, 40, 61])
def test_tables_that_are_too_small_have_none(n):
    X, y = sloped(n)
    model = UnbiasedGBMRegressor(n_estimators=2, linear_start=True).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_which_features_are_in_it():
    X, y = sloped(800)
    X[:, 2] = 1.0  # constant
    X[:, 3] = np.nan
    X[:, 4] = np.digitize(X[:, 4], [-1, 0, 1])
    model = UnbiasedGBMRegressor(n_estimators=2, categorical_features=[4], monotonic_cst=[0, -1, 0, 0, 0, 0]).fit(X, y)
    trees = model.ensemble_
    used = {int(f) for k in range(n_line(model)) for f in trees.feature[trees.tree_start[k] : trees.tree_start[k + 1]]}
    assert used - {-1} == {0, 4, 5}
    falling = np.repeat(X[:1], 9, axis=0)
    falling[:, 1] = np.linspace(-2, 2, 9)
    steps = model.predict(falling)
    assert (np.diff(steps) <= 1e-9).all()


def test_more_features_than_a_line_can_have():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 300))
    assert n_line(UnbiasedGBMRegressor(n_estimators=2).fit(X, 5 * X[:, 0])) == 0


def test_values_that_have_no_deviation():
    X, y = sloped(400)
    X[::2, 1] = 1e308
    X[1::2, 1] = -1e308
    X[:, 2] *= 1e-320
    model = UnbiasedGBMRegressor(n_estimators=3).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_more_than_two_classes():
    X, y = sloped(1500)
    labels = np.where(y > 1, 2, 0)
    labels[::3] = 1  # a class of no line: its rows are drawn by number
    model = UnbiasedGBMClassifier(n_estimators=3).fit(X, labels)
    assert n_line(model) == 18
    trees = model.ensemble_
    assert trees.output[:18].tolist() == [0, 1, 2] * 6
    sizes = np.diff(trees.tree_start)[:18].reshape(6, 3)
    assert (sizes[:, [0, 2]] > 1).all()
    assert (sizes[:, 1] == 1).all()


# -- the same everywhere -----------------------------------------------------------------------------------------------


def test_the_model_begins_with_the_line():
    X, y = sloped(600, missing=0.1)
    model = UnbiasedGBMRegressor(n_estimators=5).fit(X, y)
    line = model.predict(X, n_iterations=0)
    assert line.std() > 1
    trees = model.ensemble_
    table = model._model.read(X, "")
    assert (raw_predict(prepare(trees.head(6)), trees.base, table, 0, 6, Pool(1))[:, 0] == line).all()
    stages = list(model.staged_predict(X))
    assert len(stages) == 5
    assert (stages[-1] == model.predict(X)).all()
    assert (stages[1] == model.predict(X, n_iterations=2)).all()
    assert model.apply(X).shape == (600, trees.n_trees) == (600, 6 + 15)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_bins_say_the_same_as_the_trees(n_jobs):
    X, y = sloped(5000, n_features=8, missing=0.1)
    X[::7, 0], X[1::7, 1] = np.inf, -np.inf
    X[:, 2] = np.digitize(X[:, 2], [-1, 0, 1])  # a category between the numbers
    X[:, 3] = 1.0
    X[:, 4] = np.where(X[:, 4] > 0, np.inf, -np.inf)
    X[:, 5] = np.random.default_rng(1).integers(0, 700, 5000)  # as a category, it has wide bins
    labels = np.digitize(y, [-1, 1])
    model = UnbiasedGBMClassifier(n_estimators=1, categorical_features=[2, 5]).fit(X, labels)
    first = n_line(model)
    trees = model.ensemble_.head(first)
    schema, table = model._model.schema, model._model.read(X, "")
    pool = Pool(n_jobs)
    n_levels = np.array([0 if levels is None else len(levels) for levels in schema.categories])
    mapper = learn_bins(table, schema.is_categorical, n_levels, None, model.max_bins, pool)
    found = np.repeat(trees.base[None], len(X), axis=0)
    add_line(trees, mapper, mapper.transform(table, pool), found, pool)
    walked = raw_predict(prepare(trees), trees.base, table, 0, first, pool)
    assert first > 6
    assert len(np.unique(walked)) > 1000
    assert (found == walked).all()


def test_a_line_over_other_bins():
    X, y = sloped(600)
    model = UnbiasedGBMRegressor(n_estimators=1).fit(X, y)
    trees = model.ensemble_.head(6)
    other = 1.5 * sloped(700, seed=1)[0]
    table = model._model.read(other, "")
    mapper = learn_bins(table, model._model.schema.is_categorical, np.zeros(6, int), None, 32, Pool(1))
    _, start = go_on(trees, model._model.progress)
    raw, bags = start_raw(start, 2, table, mapper, mapper.transform(table, Pool(1)), Pool(1))
    line = model.predict(other, n_iterations=0)
    assert (raw[:, 0] == line).all()
    assert all((bag[:, 0] == line).all() for bag in bags)


def test_going_on_draws_no_second_line():
    X, y = sloped(600)
    whole = UnbiasedGBMRegressor(n_estimators=12).fit(X, y)
    part = UnbiasedGBMRegressor(n_estimators=5).fit(X, y)
    assert n_line(part) == 6
    rest = UnbiasedGBMRegressor(n_estimators=12).fit(X, y, init_model=part)
    assert (rest.predict(X) == whole.predict(X)).all()
    assert (rest.feature_importances_ == whole.feature_importances_).all()
    plain = UnbiasedGBMRegressor(n_estimators=5, linear_start=False).fit(X, y)
    assert n_line(UnbiasedGBMRegressor(n_estimators=12).fit(X, y, init_model=plain)) == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_who_adds_up_does_not_matter(weighted, monkeypatch):
    """Products are of whole numbers: blocks of any size give the same sums, on any number of threads."""
    X, y = sloped(3000, n_features=40)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    predictions = []
    for n, block in ((1, 1024), (2, 1000), (4, 77)):
        monkeypatch.setattr("unbiasedgbm.training.line._BLOCK_ROWS", block)
        with threadpool_limits(n, user_api="blas"):
            model = UnbiasedGBMRegressor(n_estimators=2, n_jobs=n).fit(X, y, sample_weight=weight)
        predictions.append(model.predict(X))
    assert (predictions[0] == predictions[1]).all()
    assert (predictions[0] == predictions[2]).all()


def test_a_large_table_learns_it_from_a_sample():
    X, y = sloped(50_000, n_features=3)
    model = UnbiasedGBMRegressor(n_estimators=1, n_bags=1).fit(X, y)
    assert n_line(model) == 3
    assert np.corrcoef(model.predict(X, n_iterations=0), 2 * X[:, 0] - X[:, 1])[0, 1] > 0.99
    assert model.ensemble_.cover[0] == pytest.approx(20_000, rel=0.03)


def test_weights_count():
    X, y = sloped(2000)
    y[1000:] = 3 * X[1000:, 2]  # another line
    weight = np.repeat([1.0, 1e-6], 1000)
    model = UnbiasedGBMRegressor(n_estimators=1).fit(X, y, sample_weight=weight)
    line = model.predict(X, n_iterations=0)
    assert np.corrcoef(line, 2 * X[:, 0] - X[:, 1])[0, 1] > 0.98


@pytest.mark.parametrize("rare", [0, 2])
def test_the_name_of_a_rare_class_does_not_matter(rare):
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    X = np.column_stack([z, z + 0.15 * rng.normal(size=2000)])
    side = (10 * (X[:, 1] - X[:, 0]) + 0.3 * rng.normal(size=2000) > 0).astype(int)
    labels = side + 1 if rare == 0 else side
    labels[:6] = rare
    model = UnbiasedGBMClassifier(n_estimators=1).fit(X, labels)
    right = model.predict(X, n_iterations=0) == labels
    assert right.mean() > 0.85


def test_order_of_columns_that_differ_by_the_order_of_rows_alone():
    X = np.array(list(product(range(4), repeat=5)), float)
    y = X @ [1, 2, -1, 0.5, 0.3] + np.random.default_rng(0).normal(size=len(X))
    plain = UnbiasedGBMRegressor(n_estimators=3).fit(X, y)
    turned = UnbiasedGBMRegressor(n_estimators=3).fit(X[:, ::-1], y)
    assert n_line(plain) == 5
    assert (plain.predict(X) == turned.predict(X[:, ::-1])).all()


def test_many_classes_have_none():
    X, y = sloped(3000, n_features=60)
    model = UnbiasedGBMClassifier(n_estimators=1, n_bags=1).fit(X, np.digitize(y, np.linspace(-3, 3, 19)))
    assert n_line(model) == 0


@pytest.mark.filterwarnings("error")
def test_nothing_warns():
    X, y = sloped(400)
    infinite = X.copy()
    infinite[::5, 0], infinite[1::5, 0] = np.inf, -np.inf
    infinite[:, 1] = np.where(X[:, 1] > 0, np.inf, -np.inf)
    UnbiasedGBMRegressor(n_estimators=1).fit(infinite, y)
    for weight in (1e-310, 1e-300, 1e-30):
        UnbiasedGBMRegressor(n_estimators=1, min_child_weight=0.0).fit(X, y, sample_weight=np.full(400, weight))
    for seed in range(230, 240):
        UnbiasedGBMRegressor(n_estimators=1, min_samples_leaf=1, random_state=seed).fit(X[:12], y[:12])


def test_whole_weights_are_no_repetitions_to_the_test():
    # a row is one observation under the default rule
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 3))
        y = 0.25 * X[:, 0] + rng.normal(size=300)
        model = UnbiasedGBMRegressor(n_estimators=1, random_state=seed)
        found = [n_line(model.fit(X, y, sample_weight=np.full(300, w))) for w in (1.0, 9.0, 900.0)]
        assert found[0] == found[1] == found[2]


def test_a_state_of_an_older_version():
    X, y = sloped(100)
    model = UnbiasedGBMRegressor(n_estimators=2, linear_start=False).fit(X, y)
    state = model.__getstate__()
    del state["linear_start"], state["_model"]["training"]["n_line"]
    other = UnbiasedGBMRegressor.__new__(UnbiasedGBMRegressor)
    other.__setstate__(state)
    assert (other.predict(X) == model.predict(X)).all()


# -- importance --------------------------------------------------------------------------------------------------------


def test_importance_of_the_line():
    # features that say nothing get nothing or less; a sum of independent tables, so a mean has a normal distribution
    found = []
    for seed in range(30):
        X, y = sloped(300, seed)
        model = UnbiasedGBMRegressor(n_estimators=1, random_state=seed).fit(X, y)
        found.append(model.feature_importances_)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (mean[:2] > 10 * error[:2]).all()
    # one-sided, 0.1 % for each of four
    assert (mean[2:] < 3.1 * error[2:]).all()


def test_a_feature_that_corrects_another_is_useful():
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000)
    X = np.column_stack([z, z + 0.5 * rng.normal(size=3000), rng.normal(size=3000)])
    y = 3 * X[:, 0] - 1.5 * X[:, 1] + 0.3 * rng.normal(size=3000)
    model = UnbiasedGBMRegressor(n_estimators=1).fit(X, y)
    assert (model.feature_importances_[:2] > 100 * abs(model.feature_importances_[2])).all()
    trees = model.ensemble_
    n_splits = np.bincount(trees.feature[trees.left >= 0], minlength=3)
    assert (model._model.progress.n_splits == n_splits).all()


# -- parts -------------------------------------------------------------------------------------------------------------


def test_inverse():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 40))
    square = A.T @ A + np.eye(40)
    np.testing.assert_allclose(_inverse(square), np.linalg.inv(square), rtol=1e-9, atol=1e-12)


def test_values_of_bins():
    assert _middles(np.array([0.5])).tolist() == [0.0, 1.0]
    assert _middles(np.array([0.5, 1.5, 2.5])).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert _middles(np.array([5e-324, 1e-323])).tolist() == [0.125, 0.375, 0.625]
    assert _standardised(np.array([0.0, 1.0]), np.array([5.0, 5.0])).tolist() == [-512.0, 512.0]
    assert _standardised(np.array([0.0, 1.0]), np.array([5.0, 0.0])) is None
    assert _standardised(np.array([0.0, 1.0]), np.array([0.0, 0.0])) is None


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_line_is_a_tree(missing):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 1))
    x[rng.random(x.shape) < missing] = np.nan
    _, table = learn_schema(x, categorical_features=None, handle_unknown="missing")
    mapper = learn_bins(table, np.zeros(1, bool), np.zeros(1, np.int64), None, 10, Pool(1))
    bins = mapper.transform(table, Pool(1)).narrow.reshape(500, -1)[:, 0]
    value = np.zeros((2, mapper.n_bins[0]))
    value[:, 1:] = rng.integers(-999, 999, (2, mapper.n_bins[0] - 1))
    column = Column(0, bins, np.bincount(bins, minlength=mapper.n_bins[0]), value, None)
    slope = np.array([0.3, -0.1])
    trees = to_ensemble(mapper, np.zeros(1), [_tree(column, slope, 0)]).validate()
    found = raw_predict(prepare(trees), trees.base, table, 0, 1, Pool(1))[:, 0]
    expected = (slope[:, None] * value / 512).sum(axis=0)[bins]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    inner = trees.left >= 0
    assert (trees.cover[inner] == trees.cover[trees.left[inner]] + trees.cover[trees.left[inner] + 1]).all()
    assert trees.cover[0] == 500
    assert trees.depth.max() <= 6
    lost = learn_schema(np.array([[np.nan]]), categorical_features=None, handle_unknown="missing")[1]
    nothing = raw_predict(prepare(trees), trees.base, lost, 0, 1, Pool(1))[0, 0]
    assert abs(nothing) == (0 if missing else np.abs(found).min())


@pytest.mark.parametrize(("rare", "missing"), [(0, 0), (5, 0), (30, 0), (0, 40), (12, 15)])
def test_levels_are_a_tree(rare, missing):
    rng = np.random.default_rng(1)
    x = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0, np.nan], [100, 100, 100, 100, rare, missing])[:, None]
    x = np.append(x, [[99.0]], axis=0)  # the last of a hundred levels: sets take two words
    _, table = learn_schema(x, categorical_features=[0], handle_unknown="missing")
    mapper = learn_bins(table, np.ones(1, bool), np.array([100]), None, 10, Pool(1))
    bins = np.where(np.isnan(x[:, 0]), 0, x[:, 0] + 1).astype(np.uint8)
    n_rows = np.bincount(bins, minlength=101)
    levels = np.flatnonzero(n_rows >= 20)
    value = np.rint(512 * (np.eye(101)[levels] - n_rows[levels, None] / len(x)))
    slope = rng.normal(size=len(levels))
    grown = _level_tree(Column(0, bins, n_rows, value, levels), slope, 0)
    trees = to_ensemble(mapper, np.zeros(1), [grown]).validate()
    heights = _heights(trees, mapper, np.zeros(1, np.int32))[0, :101]
    expected = (slope[:, None] * value / 512).sum(axis=0)
    others = np.setdiff1d(np.arange(101), levels)
    np.testing.assert_allclose(heights[levels], expected[levels], rtol=1e-12)
    if n_rows[others].sum() >= 20:
        np.testing.assert_allclose(heights[others], expected[others], rtol=1e-12)
    else:
        assert set(heights[others]) == {heights[levels][np.abs(heights[levels]).argmin()]}
    inner = trees.left >= 0
    assert (trees.cover[inner] == trees.cover[trees.left[inner]] + trees.cover[trees.left[inner] + 1]).all()
    assert trees.cover[0] == len(x)
    assert (trees.cover >= 20).all()
    flat = _level_tree(Column(0, bins, n_rows, value, levels), 0 * slope, 0)
    assert len(flat.node) == 1


def test_categories_are_in_the_line():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 8, (3000, 3))
    truth = rng.normal(size=(3, 8))[np.arange(3), levels].sum(axis=1)
    y = truth + rng.normal(size=3000)
    X = np.array(list("abcdefgh"))[levels].astype(object)
    X[::11, 0] = None
    error = {}
    for linear_start in (True, False):
        model = UnbiasedGBMRegressor(linear_start=linear_start).fit(X[:500], y[:500])
        error[linear_start] = np.mean((model.predict(X[500:]) - truth[500:]) ** 2)
        assert n_line(model) == (3 if linear_start else 0)
    assert error[True] < 0.9 * error[False]
    model = UnbiasedGBMRegressor(n_estimators=1).fit(X, y)
    assert np.corrcoef(model.predict(X[1::11], n_iterations=0), truth[1::11])[0, 1] > 0.95
    unknown = np.array([["z", "z", "z"]], dtype=object)
    assert abs(model.predict(unknown, n_iterations=0)[0] - y.mean()) < 1.5


def test_levels_that_make_one_leaf_are_not_in_it():
    X, y = sloped(300, n_features=3)
    X[:, 1], X[:10, 1] = 0.0, 1.0  # too few rows to tell them from the others
    model = UnbiasedGBMRegressor(n_estimators=1, categorical_features=[1]).fit(X, y)
    assert n_line(model) == 2


def test_more_classes_than_trees_and_no_numbers():
    y = np.tile(np.arange(1030), 3)
    X = np.column_stack([y % 7, y % 5]).astype(float)
    model = UnbiasedGBMClassifier(n_estimators=1, n_bags=1, categorical_features=[0, 1]).fit(X, y)
    assert n_line(model) == 0


def test_noise_levels_have_no_line():
    # three standard errors, as with numbers; the level of a row says nothing
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(60):
        X = rng.integers(0, 12, (400, 3)).astype(str)
        found += n_line(UnbiasedGBMRegressor(n_estimators=1, random_state=seed).fit(X, rng.normal(size=400))) > 0
    assert found <= 1
