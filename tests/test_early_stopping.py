import numpy as np
import pytest
import sklearn
from sklearn.metrics import get_scorer, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.callbacks import Checkpoint, EarlyStopping, TrainingState
from unbiasedgbm.kernels import hash_rows
from unbiasedgbm.training.setup import held_out_counts, hold_out_key


def tables(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n) > 0.7).astype(int)
    return train_test_split(X, y, random_state=0)


OVERFIT = {"split_rule": "standard", "learning_rate": 0.3, "n_estimators": 300, "n_jobs": 1}


def test_stops_and_predicts_with_the_best():
    X, X_val, y, y_val = tables()
    model = UnbiasedGBMClassifier(**OVERFIT, n_iter_no_change=7).fit(X, y, X_val=X_val, y_val=y_val)
    losses = model.history_["validation"]["loss"]
    assert model.n_iter_ == len(losses) < 300
    assert model.best_iteration_ == int(np.argmin(losses)) + 1
    assert model.n_iter_ - model.best_iteration_ == 7
    np.testing.assert_array_equal(
        model.predict_proba(X_val), model.predict_proba(X_val, n_iterations=model.best_iteration_)
    )
    assert log_loss(y_val, model.predict_proba(X_val)) == pytest.approx(min(losses), rel=1e-9)
    # all trees are there, the ensemble and the leaves are those that predict
    assert model.ensemble_.n_trees == model.best_iteration_ == model.apply(X_val).shape[1]
    assert len(list(model.staged_predict(X_val))) == model.best_iteration_
    model.predict(X_val, n_iterations=model.n_iter_)


def test_history_is_the_metric_of_every_stage():
    X, X_val, y, y_val = tables()
    scorer = make_scorer(roc_auc_score, response_method="predict_proba")
    model = UnbiasedGBMClassifier(
        n_estimators=6, scoring=["loss", "roc_auc", "accuracy", scorer], early_stopping=False, n_jobs=1
    )
    model.fit(X, y, X_val=X_val, y_val=y_val)
    history = model.history_["validation"]
    assert list(history)[:3] == ["loss", "roc_auc", "accuracy"]
    assert len(history) == 4
    for k, proba in enumerate(model.staged_predict_proba(X_val)):
        assert history["loss"][k] == pytest.approx(log_loss(y_val, proba), rel=1e-9)
        assert history["roc_auc"][k] == pytest.approx(roc_auc_score(y_val, proba[:, 1]), rel=1e-9)
        assert history["accuracy"][k] == pytest.approx(np.mean((proba[:, 1] > 0.5) == y_val), rel=1e-9)
    assert history["roc_auc"] == list(history.values())[3]


@pytest.mark.parametrize("scoring", ["neg_root_mean_squared_error", "r2", "neg_mean_absolute_error"])
def test_regression_scorers(scoring):
    X, X_val, y, y_val = tables()
    model = UnbiasedGBMRegressor(n_estimators=30, scoring=scoring, n_jobs=1).fit(
        X, y * 1.0, X_val=X_val, y_val=y_val * 1.0
    )
    best = max(model.history_["validation"][scoring])
    assert get_scorer(scoring)(model, X_val, y_val) == pytest.approx(best)


def test_a_scorer_may_count_its_rows():
    X, X_val, y, y_val = tables()
    model = UnbiasedGBMClassifier(n_estimators=2, scoring=lambda model, X, y: float(len(X)), n_jobs=1)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert set(*model.history_["validation"].values()) == {float(len(X_val))}


def test_the_first_metric_stops():
    X, X_val, y, y_val = tables()
    for scoring, best in ((["loss", "roc_auc"], np.argmin), (["roc_auc", "loss"], np.argmax)):
        model = UnbiasedGBMClassifier(**OVERFIT, scoring=scoring).fit(X, y, X_val=X_val, y_val=y_val)
        assert model.best_iteration_ == int(best(model.history_["validation"][scoring[0]])) + 1


def test_multiclass_scorers():
    X, X_val, y, y_val = tables()
    y, y_val = y + (X[:, 0] > 0), y_val + (X_val[:, 0] > 0)
    model = UnbiasedGBMClassifier(
        n_estimators=5, scoring=["neg_log_loss", "loss", "accuracy"], early_stopping=False, n_jobs=1
    )
    model.fit(X, y, X_val=X_val, y_val=y_val)
    history = model.history_["validation"]
    np.testing.assert_allclose(history["loss"], -np.array(history["neg_log_loss"]))


def test_weights_of_validation_rows():
    X, X_val, y, y_val = tables()
    weight = np.random.default_rng(0).exponential(size=len(y_val))
    model = UnbiasedGBMClassifier(n_estimators=4, scoring=["loss", "accuracy"], n_jobs=1)
    model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    expected = log_loss(y_val, model.predict_proba(X_val, n_iterations=2), sample_weight=weight)
    assert model.history_["validation"]["loss"][1] == pytest.approx(expected)


class TestInternalSplit:
    def test_holds_rows_out(self):
        X, _, y, _ = tables()
        model = UnbiasedGBMClassifier(**OVERFIT, early_stopping=True, validation_fraction=0.25).fit(X, y)
        assert model.best_iteration_ < model.n_iter_ < 300
        # the root has the rows that were not held out
        assert model.ensemble_.cover[0] == len(y) - int(np.ceil(0.25 * len(y)))

    def test_a_number_of_rows(self):
        X, _, y, _ = tables()
        by_number = UnbiasedGBMClassifier(**OVERFIT, early_stopping=True, validation_fraction=np.int64(50)).fit(X, y)
        assert by_number.ensemble_.cover[0] == len(y) - 50
        by_share = UnbiasedGBMClassifier(**OVERFIT, early_stopping=True, validation_fraction=50 / len(y)).fit(X, y)
        np.testing.assert_array_equal(by_number.predict_proba(X), by_share.predict_proba(X))

    @pytest.mark.parametrize("n_bags", [1, 3])
    def test_none_stops_by_the_training_rows(self, n_bags):
        X, _, y, _ = tables()
        options = {"early_stopping": True, "validation_fraction": None, "n_bags": n_bags, "n_jobs": 1}
        model = UnbiasedGBMClassifier(n_estimators=8, **options).fit(X, y)
        assert list(model.history_) == ["training"]
        assert model.ensemble_.cover[0] == len(y)
        loss = [log_loss(y, model.predict_proba(X, n_iterations=k)) for k in (1, 4, 8)]
        assert [model.history_["training"]["loss"][k - 1] for k in (1, 4, 8)] == pytest.approx(loss)
        # the loss falls by less than that in every iteration
        assert UnbiasedGBMClassifier(n_estimators=50, n_iter_no_change=3, tol=1.0, **options).fit(X, y).n_iter_ == 4

    def test_stops_by_the_training_rows_as_if_it_had_not_been_interrupted(self):
        X, _, y, _ = tables()
        options = {"early_stopping": True, "validation_fraction": None, "n_iter_no_change": 6, "tol": 1.0, "n_jobs": 1}
        whole = UnbiasedGBMClassifier(n_estimators=50, **options).fit(X, y)
        part = UnbiasedGBMClassifier(n_estimators=4, **options).fit(X, y)
        on = UnbiasedGBMClassifier(n_estimators=50, **options).fit(X, y, init_model=part)
        assert on.n_iter_ == whole.n_iter_ == 7

    def test_auto_means_only_with_rows_given(self):
        X, X_val, y, y_val = tables()
        plain = UnbiasedGBMClassifier(n_estimators=5, n_jobs=1).fit(X, y)
        assert plain.history_ == {}
        assert plain.ensemble_.cover[0] == len(y)
        off = UnbiasedGBMClassifier(**OVERFIT, early_stopping=False).fit(X, y, X_val=X_val, y_val=y_val)
        assert off.n_iter_ == off.best_iteration_ == 300
        assert len(off.history_["validation"]["loss"]) == 300

    def test_watching_does_not_change_the_model(self):
        X, X_val, y, y_val = tables()
        plain = UnbiasedGBMClassifier(n_estimators=10, n_jobs=1).fit(X, y)
        watched = UnbiasedGBMClassifier(n_estimators=10, early_stopping=False, n_jobs=1).fit(
            X, y, X_val=X_val, y_val=y_val
        )
        np.testing.assert_array_equal(plain.predict_proba(X_val), watched.predict_proba(X_val))

    def test_is_reproducible_and_stratified(self):
        X, _, _, _ = tables()
        y = np.zeros(len(X), int)
        y[:20] = 1
        models = [UnbiasedGBMClassifier(n_estimators=5, early_stopping=True, n_jobs=1).fit(X, y) for _ in range(2)]
        assert models[0].history_ == models[1].history_
        # 20 in 450: a tenth of both classes is held out, so that the base rate is kept
        assert models[0].predict_proba(X, n_iterations=0)[0, 1] == pytest.approx(20 / len(y), rel=0.15)

    def test_many_classes_and_few_rows(self):
        X, _, _, _ = tables()
        model = UnbiasedGBMClassifier(n_estimators=3, early_stopping=True, n_jobs=1).fit(X[:100], np.arange(100) % 30)
        assert len(model.classes_) == 30

    def test_regression(self):
        X, _, y, _ = tables()
        model = UnbiasedGBMRegressor(**OVERFIT, early_stopping=True).fit(X, y * 1.0)
        assert model.n_iter_ < 300


def test_in_a_pipeline_with_its_own_transform():
    X, X_val, y, y_val = tables()
    X, X_val = X * 100 + 5, X_val * 100 + 5
    with sklearn.config_context(enable_metadata_routing=True):
        model = UnbiasedGBMClassifier(**OVERFIT).set_fit_request(X_val=True, y_val=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)], transform_input=["X_val"])
        pipeline.fit(X, y, X_val=X_val, y_val=y_val)
        scaler = StandardScaler().fit(X)
        plain = UnbiasedGBMClassifier(**OVERFIT).fit(scaler.transform(X), y, X_val=scaler.transform(X_val), y_val=y_val)
        assert pipeline[-1].history_ == plain.history_
        np.testing.assert_array_equal(pipeline.predict_proba(X_val), plain.predict_proba(scaler.transform(X_val)))


class TestCallback:
    def run(self, values, n_iter_no_change=3, tol=0.0, greater=False):
        stopper = EarlyStopping(n_iter_no_change, tol)
        state = TrainingState(0, 100, {"validation": {"m": []}}, {"m": greater})
        for k, value in enumerate(values, 1):
            state.iteration = k
            state.history["validation"]["m"].append(value)
            if stopper.after_iteration(state):
                break
        return state.iteration, stopper.best_iteration

    def test_counts_iterations_without_progress(self):
        assert self.run([5, 4, 3, 3.5, 3.2, 3.1, 1]) == (6, 3)
        assert self.run([1, 2, 3, 2.5, 2.8, 2.9, 9], greater=True) == (6, 3)

    def test_small_progress_is_none(self):
        # slow progress does not stop the clock, but its best iteration is kept
        assert self.run([5, 4.99, 4.98, 4.97, 0], tol=0.1) == (4, 4)

    def test_progress_starts_the_clock_again(self):
        assert self.run([5, 6, 6, 4, 6, 6, 6, 6]) == (7, 4)

    def test_nan_is_no_progress(self):
        assert self.run([float("nan")] * 5) == (3, 0)


@pytest.mark.parametrize("estimator", [UnbiasedGBMClassifier, UnbiasedGBMRegressor])
def test_no_scoring_is_what_score_returns(estimator):
    """As in scikit-learn's own gradient boosting."""
    X, X_val, y, y_val = tables()
    model = estimator(n_estimators=4, scoring=None, early_stopping=False, n_jobs=1).fit(X, y, X_val=X_val, y_val=y_val)
    (recorded,) = model.history_["validation"].values()
    assert recorded[-1] == pytest.approx(model.score(X_val, y_val))


def test_a_callback_that_looks_at_the_training_rows():
    X, _, y, _ = tables()
    stop = EarlyStopping(n_iter_no_change=2, tol=1.0, rows="training")
    assert UnbiasedGBMClassifier(n_estimators=9, n_jobs=1).fit(X, y, callbacks=[stop]).n_iter_ == 3
    with pytest.raises(ValueError, match="rows must be 'validation' or 'training'; got 'test'"):
        EarlyStopping(rows="test")


class TestGoingOn:
    """From a model that has watched the same rows, training counts on; from any other, anew."""

    @pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson"])
    @pytest.mark.parametrize("fraction", [0.3, None])
    def test_with_any_loss(self, loss, fraction, tmp_path):
        X, _, _, _ = tables()
        y = np.abs(X[:, 0] + 0.5 * X[:, 1] ** 2 + np.random.default_rng(1).normal(size=len(X))) + 0.1
        tol = 1e-7 if fraction else 0.02
        options = {
            **{"split_rule": "standard", "learning_rate": 0.3, "n_iter_no_change": 6, "early_stopping": True},
            **{"loss": loss, "validation_fraction": fraction, "tol": tol, "n_jobs": 1},
        }
        whole = UnbiasedGBMRegressor(n_estimators=300, **options).fit(X, y)
        assert whole.n_iter_ < 300
        for cut in (whole.n_iter_ - 3, whole.n_iter_):
            part = UnbiasedGBMRegressor(n_estimators=cut, **options).fit(X, y)
            part.save_model(tmp_path / "model.json")
            on = UnbiasedGBMRegressor(n_estimators=300, **options)
            on.fit(X, y, init_model=load_model(tmp_path / "model.json"))
            assert (on.n_iter_, on.best_iteration_) == (whole.n_iter_, whole.best_iteration_)

    def test_other_rows_with_the_same_score(self):
        X, X_val, y, y_val = tables()
        options = {"scoring": "accuracy", "n_iter_no_change": 4, "n_jobs": 1}
        first = UnbiasedGBMClassifier(n_estimators=40, **options).fit(X, y, X_val=X_val, y_val=y_val)
        assert first.n_iter_ < 40
        # rows that no threshold lies between
        same = UnbiasedGBMClassifier(n_estimators=first.n_iter_ + 2, **options)
        same.fit(X, y, X_val=X_val + 1e-9, y_val=y_val, init_model=first)
        np.testing.assert_array_equal(same.predict_proba(X_val + 1e-9), same.predict_proba(X_val))
        assert same.n_iter_ == first.n_iter_ + 2

    def test_rows_in_another_order_are_the_same(self):
        X, X_val, y, y_val = tables()
        model = UnbiasedGBMClassifier(**OVERFIT, n_iter_no_change=5).fit(X, y, X_val=X_val, y_val=y_val)
        on = UnbiasedGBMClassifier(**OVERFIT, n_iter_no_change=5)
        on.fit(X, y, X_val=X_val[::-1], y_val=y_val[::-1], init_model=model)
        assert on.n_iter_ == model.n_iter_
        on.fit(X, y, X_val=X_val[1:], y_val=y_val[1:], init_model=model)
        assert on.n_iter_ > model.n_iter_

    def test_with_another_metric(self):
        X, X_val, y, y_val = tables()
        model = UnbiasedGBMClassifier(n_estimators=5, warm_start=True, n_jobs=1).fit(X, y, X_val=X_val, y_val=y_val)
        model.set_params(n_estimators=8, scoring=["roc_auc", "loss"]).fit(X, y, X_val=X_val, y_val=y_val)
        history = model.history_["validation"]
        assert (len(history["loss"]), len(history["roc_auc"])) == (8, 3)
        assert model.best_iteration_ == 6 + int(np.argmax(history["roc_auc"]))

    def test_without_a_further_iteration_predictions_stay(self):
        X, X_val, y, y_val = tables()
        model = UnbiasedGBMClassifier(**OVERFIT, warm_start=True).fit(X, y, X_val=X_val, y_val=y_val)
        best = model.best_iteration_
        model.set_params(n_estimators=model.n_iter_).fit(X, y, X_val=X_val[:50], y_val=y_val[:50])
        assert model.best_iteration_ == best < model.n_iter_


def test_all_rows_asked_for_are_held_out_where_classes_are_small():
    for sizes, wanted in (([2, 98], 98), ([2, 2, 96], 97), ([50, 50], 30), ([1, 99], 20)):
        counts = held_out_counts(np.array(sizes), wanted)
        assert counts.sum() == wanted
        assert len(counts) == 1 or (counts < sizes).all()


def test_a_target_without_a_start_after_rows_are_held_out():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = UnbiasedGBMRegressor(loss="poisson", early_stopping=True, validation_fraction=0.5)
    keys = np.empty(60, np.uint64)
    hash_rows(hold_out_key(0), np.uint64(0), keys)
    first, last = np.argsort(keys)[[0, -1]]
    assert np.isfinite(model.fit(X, np.arange(60) == last).predict(X)).all()
    with pytest.raises(ValueError, match="needs y >= 0 with at least one positive value"):
        model.fit(X, np.arange(60) == first)


def test_validation_rows_without_events():
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = np.ones(100)
    model = UnbiasedGBMRegressor(loss="poisson", n_estimators=3).fit(X, y, X_val=X[:5], y_val=np.zeros(5))
    assert len(model.history_["validation"]["loss"]) == 3
    with pytest.raises(ValueError, match="needs y_val >= 0 in every row"):
        UnbiasedGBMRegressor(loss="poisson").fit(X, y, X_val=X[:5], y_val=-np.ones(5))


def test_a_checkpoint_knows_the_best_iteration(tmp_path):
    """Wherever it stands among the callbacks."""
    X, _, y, _ = tables()
    path = tmp_path / "checkpoint.json"
    callbacks = [Checkpoint(path, every=1), EarlyStopping(50, rows="training")]
    model = UnbiasedGBMClassifier(n_estimators=12, n_jobs=1).fit(X, y, callbacks=callbacks)
    assert load_model(path).best_iteration_ == model.best_iteration_ == 12
