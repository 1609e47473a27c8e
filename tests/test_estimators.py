import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import train_test_split
from workbench import ALL_RULES, mixed_table, same_trees

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.exceptions import InterruptedWarning, UnsavedParameterWarning
from unbiasedgbm.export.parts import link_of
from unbiasedgbm.importance import unbiased_gain
from unbiasedgbm.losses import REGRESSION_LOSSES

FAST = {"n_estimators": 30, "learning_rate": 0.1, "n_jobs": 1}


class TestLearning:
    @pytest.mark.parametrize("rule", ALL_RULES)
    def test_binary(self, rule):
        X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
        model = UnbiasedGBMClassifier(split_rule=rule, **FAST).fit(X, y)
        assert model.score(X_test, y_test) > 0.92
        np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1)

    @pytest.mark.parametrize("rule", ALL_RULES)
    def test_multiclass(self, rule):
        X, X_test, y, y_test = train_test_split(*load_iris(return_X_y=True), random_state=0)
        labels = np.array(["setosa", "versicolor", "virginica"])
        model = UnbiasedGBMClassifier(split_rule=rule, min_samples_leaf=2, **FAST).fit(X, labels[y])
        assert model.score(X_test, labels[y_test]) > 0.9
        assert model.decision_function(X_test).shape == (len(X_test), 3)

    @pytest.mark.parametrize("rule", ALL_RULES)
    def test_regression(self, rule):
        X, X_test, y, y_test = train_test_split(*load_diabetes(return_X_y=True), random_state=0)
        assert UnbiasedGBMRegressor(split_rule=rule, **FAST).fit(X, y).score(X_test, y_test) > 0.15

    @pytest.mark.parametrize("loss", REGRESSION_LOSSES)
    @pytest.mark.parametrize("rule", ["evidence", "standard"])
    def test_all_losses(self, loss, rule):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 3))
        rate = np.exp(0.7 * X[:, 0] + 0.5 * (X[:, 1] > 0))
        y = rng.poisson(rate) + (0.1 if loss == "gamma" else 0.0)
        options = {"n_estimators": 100, "learning_rate": 0.04, "num_leaves": 31, "n_jobs": 1}
        model = UnbiasedGBMRegressor(loss=loss, split_rule=rule, **options).fit(X, y)
        objective = model._make_loss()
        raw = model._raw(X, None)
        start = np.full(1000, objective.start(y.astype(float), None)[0])
        if loss == "huber":
            objective.delta = np.quantile(np.abs(y - start), 0.9)
        assert objective.mean(y, raw) < 0.9 * objective.mean(y, start)
        if loss in ("poisson", "gamma", "tweedie"):
            assert (model.predict(X) > 0).all()
            assert mean_poisson_deviance(rate, model.predict(X)) < 0.4 * mean_poisson_deviance(
                rate, np.full(1000, y.mean())
            )

    @pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
    def test_quantiles_cover(self, level):
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (6000, 2))
        y = X[:, 0] + rng.exponential(size=6000) * (1 + (X[:, 1] > 0))
        train, test = slice(0, 3000), slice(3000, None)
        model = UnbiasedGBMRegressor(loss="quantile", quantile=level, n_estimators=100, n_jobs=1).fit(
            X[train], y[train]
        )
        # binomial(3000): four standard deviations are 0.036
        assert np.mean(y[test] <= model.predict(X[test])) == pytest.approx(level, abs=0.045)

    def test_absolute_error_is_not_moved_by_outliers(self):
        X, y = mixed_table(500)
        y[:10] = 1e6
        for loss, robust in (("absolute_error", True), ("huber", True), ("squared_error", False)):
            model = UnbiasedGBMRegressor(loss=loss, **FAST).fit(X, y)
            assert (np.abs(model.predict(X[50:])).max() < 1e4) == robust


def test_a_custom_loss_equals_the_built_in():
    def gradients(y, raw):
        mean = np.exp(raw)
        return mean - y, mean

    def values(y, raw):
        return np.exp(raw) - y * raw

    X, y = mixed_table(400)
    y = np.random.default_rng(0).poisson(np.exp(y / 8)).astype(float)
    # large leaves of small numbers have short steps, which the built-in one does not limit
    options = {"n_estimators": 20, "n_jobs": 1, "linear_start": False, "min_samples_leaf": 10}
    custom = UnbiasedGBMRegressor(loss=(gradients, values), **options).fit(X, y, X_val=X, y_val=y)
    built_in = UnbiasedGBMRegressor(loss="poisson", **options).fit(X, y)
    np.testing.assert_allclose(np.exp(custom.predict(X)), built_in.predict(X), rtol=1e-6)
    np.testing.assert_array_equal(custom.ensemble_.feature, built_in.ensemble_.feature)
    assert custom.history_["validation"]["loss"][3] == pytest.approx(
        values(y, custom.predict(X, n_iterations=4)).mean()
    )


@pytest.fixture(scope="module")
def table():
    X, y = mixed_table(300)
    return X, y, np.digitize(y, [0, 2])


class TestStages:
    def test_first_iterations(self, table):
        X, y, _ = table
        long, short = UnbiasedGBMRegressor(n_estimators=12, n_jobs=1), UnbiasedGBMRegressor(n_estimators=5, n_jobs=1)
        long.fit(X, y)
        np.testing.assert_array_equal(long.predict(X, n_iterations=5), short.fit(X, y).predict(X))
        # nothing but the line that trees begin from
        assert abs(long.predict(X, n_iterations=0).mean() - y.mean()) < 0.1
        plain = UnbiasedGBMRegressor(n_estimators=2, n_jobs=1, linear_start=False).fit(X, y)
        np.testing.assert_allclose(plain.predict(X, n_iterations=0), y.mean())
        np.testing.assert_array_equal(long.predict(X, n_iterations=np.int64(12)), long.predict(X))

    def test_stages_are_first_iterations(self, table):
        X, y, c = table
        regressor = UnbiasedGBMRegressor(n_estimators=6, n_jobs=1).fit(X, y)
        stages = list(regressor.staged_predict(X))
        assert len(stages) == 6
        for k, stage in enumerate(stages, 1):
            np.testing.assert_array_equal(stage, regressor.predict(X, n_iterations=k))
        for target in (c, c > 0):
            model = UnbiasedGBMClassifier(n_estimators=4, n_jobs=1).fit(X, target)
            for name in ("predict", "predict_proba", "decision_function"):
                for k, stage in enumerate(getattr(model, f"staged_{name}")(X), 1):
                    np.testing.assert_array_equal(stage, getattr(model, name)(X, n_iterations=k))

    def test_apply(self, table):
        X, _, c = table
        model = UnbiasedGBMClassifier(n_estimators=4, n_jobs=1).fit(X, c)
        leaf, trees = model.apply(X), model.ensemble_
        # four iterations, three bags, three classes; before them, six features and three classes
        assert leaf.shape == (300, 36 + 18)
        raw = np.repeat(trees.base[None], 300, axis=0)
        for t in range(36 + 18):
            raw[:, trees.output[t]] += trees.value[trees.tree_start[t] + leaf[:, t]]
        np.testing.assert_array_equal(raw, model.decision_function(X))

    @pytest.mark.parametrize("bad", [-1, 7, 2.0, "3", 99])
    def test_bad_numbers_of_iterations(self, table, bad):
        X, y, _ = table
        model = UnbiasedGBMRegressor(n_estimators=6, n_jobs=1).fit(X, y)
        with pytest.raises(ValueError, match="n_iterations must be a whole number between 0 and 6"):
            model.predict(X, n_iterations=bad)


class TestImportance:
    @pytest.mark.parametrize("rule", ALL_RULES)
    def test_is_the_sum_of_scores(self, rule):
        X, y = mixed_table(500)
        model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=10, n_jobs=1).fit(X, y)
        trees = model.ensemble_
        expected = np.zeros(6)
        if rule == "evidence":
            assert model.feature_importances_.max() > 0
            return
        inner = trees.left >= 0
        np.add.at(expected, trees.feature[inner], trees.score[inner])
        # made splits count; rejected candidates, whose scores are negative, are counted too
        assert model.feature_importances_.sum() <= expected.sum() + 1e-9
        assert model.feature_importances_.sum() >= expected.sum() + trees.score[~inner & (trees.score < 0)].sum() - 1e-6

    def test_is_neither_clipped_nor_scaled(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 10))
        y = 10 * X[:, 0] + rng.normal(size=500)
        importance = (
            UnbiasedGBMRegressor(split_rule="separate", n_estimators=50, n_jobs=1).fit(X, y).feature_importances_
        )
        assert importance.min() < 0
        assert importance.sum() > 10
        assert importance.argmax() == 0

    def test_is_a_copy(self):
        X, y = mixed_table(200)
        model = UnbiasedGBMRegressor(n_estimators=3, n_jobs=1).fit(X, y)
        model.feature_importances_[:] = -1
        assert not (model.feature_importances_ == -1).all()


class TestState:
    def test_seeds(self):
        X, y = mixed_table(300)
        options = {"n_estimators": 5, "n_jobs": 1}
        a, b = (UnbiasedGBMRegressor(random_state=3, **options).fit(X, y) for _ in range(2))
        assert same_trees(a.ensemble_, b.ensemble_)
        assert not same_trees(a.ensemble_, UnbiasedGBMRegressor(random_state=4, **options).fit(X, y).ensemble_)
        state = UnbiasedGBMRegressor(random_state=np.random.RandomState(0), **options).fit(X, y)
        again = UnbiasedGBMRegressor(random_state=np.random.RandomState(0), **options).fit(X, y)
        assert same_trees(state.ensemble_, again.ensemble_)
        one, two = (UnbiasedGBMRegressor(random_state=None, **options).fit(X, y) for _ in range(2))
        assert not same_trees(one.ensemble_, two.ensemble_)

    def test_fit_again_starts_anew(self):
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(X, y)
        first = model.predict(X)
        model.fit(X[:, :3], -y)
        assert model.n_features_in_ == 3
        np.testing.assert_array_equal(model.fit(X, y).predict(X), first)

    def test_pickle_and_clone(self):
        X, y = mixed_table(300)
        model = UnbiasedGBMClassifier(n_estimators=5, categorical_features=[4, 5], n_jobs=1).fit(
            X, np.digitize(y, [0, 2])
        )
        model.predict(X)
        for other in (
            pickle.loads(pickle.dumps(model)),
            pickle.loads(pickle.dumps(clone(model).fit(X, np.digitize(y, [0, 2])))),
        ):
            np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
            assert same_trees(other.ensemble_, model.ensemble_)
            np.testing.assert_array_equal(other.feature_importances_, model.feature_importances_)
        grown = (
            pickle.loads(pickle.dumps(model)).set_params(warm_start=True, n_estimators=8).fit(X, np.digitize(y, [0, 2]))
        )
        whole = clone(model).set_params(n_estimators=8).fit(X, np.digitize(y, [0, 2]))
        assert same_trees(grown.ensemble_, whole.ensemble_)

    def test_not_fitted(self):
        for name in ("predict", "predict_proba", "apply", "decision_function"):
            with pytest.raises(NotFittedError):
                getattr(UnbiasedGBMClassifier(), name)(np.zeros((2, 2)))
        for name in ("feature_importances_", "ensemble_", "n_iter_", "history_"):
            with pytest.raises((NotFittedError, AttributeError)):
                getattr(UnbiasedGBMRegressor(), name)

    def test_a_fit_that_fails_leaves_the_old_model(self):
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="loss='poisson'"):
            model.set_params(loss="poisson").fit(X, -np.abs(y))
        np.testing.assert_array_equal(model.predict(X), before)

    def test_inputs_are_not_written_to(self):
        X, y = mixed_table(300)
        weight = np.ones(300)
        copies = X.copy(), y.copy(), weight.copy()
        for array in (X, y, weight):
            array.flags.writeable = False
        model = UnbiasedGBMRegressor(n_estimators=5, categorical_features=[4, 5], n_jobs=1).fit(X, y, weight)
        model.predict(X)
        for array, copy in zip((X, y, weight), copies, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_views_and_other_types(self):
        X, y = mixed_table(300)
        X = X.round(1)
        expected = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(X, y).predict(X)
        for other in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], np.repeat(X, 2, axis=1)[:, ::2], X.tolist()):
            model = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(other, y.tolist())
            np.testing.assert_array_equal(model.predict(other), expected)
        whole = (np.nan_to_num(X) * 10).round()
        expected = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(whole, y).predict(whole)
        for kind in (np.int16, np.int64, np.float32):
            np.testing.assert_array_equal(
                UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(whole.astype(kind), y).predict(whole.astype(kind)),
                expected,
            )

    def test_ctrl_c_keeps_what_is_done(self):
        class Interrupt:
            def before_iteration(self, state):
                if state.iteration == 4:
                    raise KeyboardInterrupt

            def after_iteration(self, state):
                return None

        X, y = mixed_table(300)
        with pytest.warns(InterruptedWarning, match="after 4 iterations"):
            model = UnbiasedGBMRegressor(n_estimators=50, n_jobs=1).fit(X, y, callbacks=[Interrupt()])
        assert model.n_iter_ == 4
        short = UnbiasedGBMRegressor(n_estimators=4, n_jobs=1).fit(X, y)
        assert same_trees(model.ensemble_, short.ensemble_)
        more = UnbiasedGBMRegressor(n_estimators=9, n_jobs=1).fit(X, y, init_model=model)
        assert same_trees(more.ensemble_, UnbiasedGBMRegressor(n_estimators=9, n_jobs=1).fit(X, y).ensemble_)

    def test_a_callback_stops(self):
        class Stop:
            def before_iteration(self, state):
                return None

            def after_iteration(self, state):
                return state.iteration >= 3

        X, y = mixed_table(300)
        assert UnbiasedGBMRegressor(n_estimators=50, n_jobs=1).fit(X, y, callbacks=[Stop()]).n_iter_ == 3

    def test_verbose_reports(self, capsys):
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=4, verbose=2, n_jobs=1).fit(X, y)
        assert len(model.history_["training"]["loss"]) == 4
        losses = model.history_["training"]["loss"]
        assert losses == sorted(losses, reverse=True)

    def test_no_warnings(self):
        X, y = mixed_table(300)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for loss in REGRESSION_LOSSES:
                UnbiasedGBMRegressor(loss=loss, n_estimators=5, n_jobs=1).fit(X, np.exp(y)).predict(X)
            UnbiasedGBMClassifier(n_estimators=5, n_jobs=1).fit(X, y > 0).predict_proba(X)


def _gradients(y, raw):
    return raw - y, np.ones_like(raw)


def _values(y, raw):
    return (raw - y) ** 2 / 2


class TestTheLossOfAModel:
    """It is the one that was trained with, whatever the parameters are set to afterwards."""

    CHANGES = (
        ("poisson", {"loss": "squared_error"}),
        ("squared_error", {"loss": "poisson"}),
        ("quantile", {"quantile": 0.9}),
        ("huber", {"huber_quantile": 0.5}),
        ("tweedie", {"tweedie_power": 1.9}),
        ("tweedie", {"loss": "absolute_error"}),
        ((_gradients, _values), {"loss": "gamma"}),
    )

    @pytest.fixture(params=CHANGES, ids=lambda case: f"{case[0] if isinstance(case[0], str) else 'own'} {case[1]}")
    def models(self, request):
        """A model, and the same with other parameters since."""
        loss, change = request.param
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=5, loss=loss, n_jobs=1).fit(X, np.exp(y / 3))
        return model, pickle.loads(pickle.dumps(model)).set_params(**change)

    def test_predictions(self, models):
        X, _ = mixed_table(300)
        model, changed = models
        np.testing.assert_array_equal(changed.predict(X), model.predict(X))
        for one, other in zip(changed.staged_predict(X), model.staged_predict(X), strict=True):
            np.testing.assert_array_equal(one, other)
        assert link_of(changed) == link_of(model)

    def test_importance(self, models):
        X, y = mixed_table(300)
        rows = (X[:200], np.exp(y[:200] / 3), X[200:], np.exp(y[200:] / 3))
        one, other = (unbiased_gain(model, *rows, n_jobs=1) for model in models)
        np.testing.assert_array_equal(one.importance, other.importance)
        assert (one.importance != 0).any()

    def test_files_and_pickles(self, models, tmp_path):
        X, _ = mixed_table(300)
        model, changed = models
        now = changed.get_params()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(changed)).predict(X), model.predict(X))
        for one, name in ((model, "a.json"), (changed, "b.json")):
            one.save_model(tmp_path / name)
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
        assert changed.get_params() == now

    def test_the_next_fit_is_with_the_new_ones(self, models):
        X, y = mixed_table(300)
        y = np.exp(y / 3)
        changed = models[1].fit(X, y)
        expected = clone(changed).fit(X, y)
        np.testing.assert_array_equal(changed.predict(X), expected.predict(X))
        rows = (X[:200], y[:200], X[200:], y[200:])
        np.testing.assert_array_equal(
            unbiased_gain(changed, *rows, n_jobs=1).importance, unbiased_gain(expected, *rows, n_jobs=1).importance
        )

    def test_a_training_that_goes_on(self):
        X, y = mixed_table(300)
        y = np.exp(y / 3)
        options = {"n_jobs": 1, "warm_start": True}
        model = UnbiasedGBMRegressor(n_estimators=3, loss="poisson", **options).fit(X, y)
        before = model.predict(X)
        model.set_params(n_estimators=6, loss="squared_error")
        with pytest.raises(ValueError, match="loss must be 'poisson', as in the model to go on from"):
            model.fit(X, y)
        np.testing.assert_array_equal(model.predict(X), before)
        model.set_params(loss="poisson").fit(X, y)
        whole = UnbiasedGBMRegressor(n_estimators=6, loss="poisson", n_jobs=1).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))

    def test_functions_that_a_file_could_not_hold(self, tmp_path):
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=5, loss=(_gradients, _values), n_jobs=1).fit(X, y)
        model.save_model(tmp_path / "m.json")
        with pytest.warns(UnsavedParameterWarning):
            again = load_model(tmp_path / "m.json")
        rows = (X[:200], y[:200], X[200:], y[200:])
        expected = unbiased_gain(model, *rows, n_jobs=1).importance
        # functions that are set stand for those that were lost, the name of another loss does not
        found = unbiased_gain(again.set_params(loss=(_gradients, _values)), *rows, n_jobs=1).importance
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(again.set_params(loss="poisson").predict(X), model.predict(X))

    def test_a_pickle_that_knows_only_the_name_of_the_loss(self):
        X, y = mixed_table(300)
        model = UnbiasedGBMRegressor(n_estimators=5, loss="tweedie", tweedie_power=1.3, n_jobs=1).fit(X, np.exp(y / 3))
        older = object.__new__(UnbiasedGBMRegressor)
        older.__setstate__({**model.__getstate__(), "_trained_loss": "tweedie"})
        np.testing.assert_array_equal(older.set_params(loss="huber").predict(X), model.predict(X))
        assert older._make_loss().power == 1.3
        model = UnbiasedGBMClassifier(n_estimators=5, n_jobs=1).fit(X, y > 0)
        older = object.__new__(UnbiasedGBMClassifier)
        older.__setstate__({**model.__getstate__(), "_trained_loss": None})
        np.testing.assert_array_equal(older.predict_proba(X), model.predict_proba(X))
