import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, make_classification, make_regression
from sklearn.ensemble import VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor

FAST = {"n_estimators": 10, "n_jobs": 1}


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True, as_frame=True)


def test_pipeline_with_frames(cancer):
    X, y = cancer
    for output in ("pandas", "polars", "default"):
        pipeline = make_pipeline(StandardScaler(), UnbiasedGBMClassifier(**FAST)).set_output(transform=output)
        assert pipeline.fit(X, y).score(X, y) > 0.9
        if output != "default":
            assert pipeline[-1].feature_names_in_.tolist() == X.columns.tolist()


def test_column_transformer():
    frame = pd.DataFrame({"t": ["a", "b"] * 100, "x": np.arange(200.0)})
    y = (frame["t"] == "a").astype(int)
    transformer = make_column_transformer((OrdinalEncoder(), ["t"]), remainder="passthrough")
    assert make_pipeline(transformer, UnbiasedGBMClassifier(**FAST)).fit(frame, y).score(frame, y) == 1.0


def test_grid_search(cancer):
    X, y = cancer
    grid = {"num_leaves": [2, 8], "split_rule": ["evidence", "standard"]}
    search = GridSearchCV(UnbiasedGBMClassifier(**FAST), grid, cv=2, scoring="roc_auc").fit(X, y)
    assert search.best_score_ > 0.95
    check_is_fitted(search.best_estimator_)


def test_cross_val_score_in_two_processes(cancer):
    X, y = cancer
    model = UnbiasedGBMClassifier(n_estimators=10)
    np.testing.assert_array_equal(
        cross_val_score(model, X, y, cv=3, n_jobs=2), cross_val_score(model, X, y, cv=3, n_jobs=1)
    )


def test_clone_is_unfitted_and_equal():
    model = UnbiasedGBMRegressor(num_leaves=7, monotonic_cst=[1, 0], role_ratio=(1, 1), random_state=3)
    model.fit(np.random.default_rng(0).normal(size=(200, 2)), np.arange(200.0))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "_model")


def test_parameters_come_back():
    for cls in (UnbiasedGBMClassifier, UnbiasedGBMRegressor):
        model = cls()
        assert cls(**model.get_params()).get_params() == model.get_params()


def test_voting_and_permutation_importance(cancer):
    X, y = cancer
    votes = VotingClassifier(
        [("a", UnbiasedGBMClassifier(**FAST)), ("b", UnbiasedGBMClassifier(**FAST, random_state=1))], voting="soft"
    )
    assert votes.fit(X, y).score(X, y) > 0.9
    model = UnbiasedGBMClassifier(**FAST).fit(X, y)
    assert permutation_importance(model, X, y, n_repeats=1, random_state=0).importances_mean.max() > 0


class TestMetadataRouting:
    def test_sample_weight_through_cross_validate(self):
        X, y = make_classification(300, random_state=0)
        weight = np.where(y == 1, 5.0, 1.0)
        with sklearn.config_context(enable_metadata_routing=True):
            model = (
                UnbiasedGBMClassifier(**FAST).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            )
            scores = cross_validate(model, X, y, params={"sample_weight": weight}, cv=3)["test_score"]
            ignored = UnbiasedGBMClassifier(**FAST).set_fit_request(sample_weight=False)
            ignored.set_score_request(sample_weight=True)
            other = cross_validate(ignored, X, y, params={"sample_weight": weight}, cv=3)["test_score"]
        assert not np.array_equal(scores, other)

    def test_scorers_inside_training(self):
        X, y = make_regression(300, 5, random_state=0)
        weight = np.random.default_rng(0).exponential(size=300) + 0.1
        with sklearn.config_context(enable_metadata_routing=True):
            model = UnbiasedGBMRegressor(**FAST, scoring=["r2", "loss"], early_stopping=True).fit(
                X, y, sample_weight=weight
            )
        assert len(model.history_["validation"]["r2"]) == model.n_iter_

    def test_requests(self):
        model = UnbiasedGBMClassifier()
        with sklearn.config_context(enable_metadata_routing=True):
            model.set_fit_request(sample_weight=True, X_val=True, y_val=True, sample_weight_val=True, init_model=False)
            model.set_predict_request(n_iterations=True)


class TestFeatureNames:
    def test_other_names_are_refused(self, cancer):
        X, y = cancer
        model = UnbiasedGBMClassifier(**FAST).fit(X, y)
        assert model.feature_names_in_.tolist() == X.columns.tolist()
        assert model.n_features_in_ == 30
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X.rename(columns={"mean radius": "other"}))
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X[X.columns[::-1]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(X.to_numpy())
        np.testing.assert_array_equal(model.predict(pl.from_pandas(X)), model.predict(X))

    def test_names_of_validation_rows_are_checked(self, cancer):
        X, y = cancer
        with pytest.raises(ValueError, match="feature names should match"):
            UnbiasedGBMClassifier(**FAST).fit(X, y, X_val=X[X.columns[::-1]], y_val=y)

    def test_constraints_by_name(self, cancer):
        X, y = cancer
        by_name = UnbiasedGBMClassifier(
            monotonic_cst={"mean radius": -1}, interaction_cst=[["mean radius", "mean area"]], **FAST
        )
        by_place = UnbiasedGBMClassifier(monotonic_cst=[-1] + [0] * 29, interaction_cst=[[0, 3]], **FAST)
        np.testing.assert_array_equal(by_name.fit(X, y).predict_proba(X), by_place.fit(X, y).predict_proba(X))

    def test_any_text(self):
        frame = pd.DataFrame({'{"a": [1]}': np.arange(100.0), "naïve ☃": np.arange(100.0) % 7, "": np.ones(100)})
        model = UnbiasedGBMRegressor(**FAST).fit(frame, np.arange(100.0))
        assert model.feature_names_in_.tolist() == list(frame.columns)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [0.0, 2.0], [10**6, 10**6 + 1]])
def test_labels_come_back_as_they_are(labels):
    X, c = make_classification(200, random_state=0)
    y = np.array(labels)[c]
    model = UnbiasedGBMClassifier(**FAST).fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.8
    for target in (pd.Series(y), pl.Series(y), y.tolist(), pd.Series(y).astype("category")):
        np.testing.assert_array_equal(
            UnbiasedGBMClassifier(**FAST).fit(X, target).predict_proba(X), model.predict_proba(X)
        )
