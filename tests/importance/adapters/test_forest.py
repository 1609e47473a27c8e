from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, check_additive, read_model
from unbiasedgbm.ensemble.adapters.objectives import IndicatorLoss
from unbiasedgbm.importance import cross_unbiased_gain, gain_importance, permutation_importance, unbiased_gain
from unbiasedgbm.losses import SquaredError

from ..helpers import load_validation, mixed_table, numeric
from .contract import AdapterContract

validation = load_validation()


class TestForest(AdapterContract):
    library = "scikit-learn"
    cases: ClassVar[dict[str, str]] = {
        "forest regression": "regression",
        "forest binary": "binary",
        "forest multiclass": "multiclass",
        "extra regression": "regression",
        "extra multiclass": "multiclass",
        "tree regression": "regression",
        "tree binary": "binary",
        "tree multiclass": "multiclass",
    }

    def build(self, case: str) -> Any:
        kind, target = case.split()
        number = target == "regression"
        if kind == "tree":
            return (DecisionTreeRegressor if number else DecisionTreeClassifier)(max_leaf_nodes=12, random_state=0)
        if kind == "extra":
            cls = ExtraTreesRegressor if number else ExtraTreesClassifier
        else:
            cls = RandomForestRegressor if number else RandomForestClassifier
        return cls(n_estimators=10, min_samples_leaf=5, random_state=0, n_jobs=1)

    def table(self, X: Any, case: str) -> Any:
        return numeric(X)


def halves(target: str = "regression") -> tuple[Any, Any, Any, Any]:
    X, targets = mixed_table(1000)
    table, y = numeric(X), targets[target]
    return table[:500], y[:500], table[500:], y[500:]


def test_a_tree_is_the_first_step_of_boosting() -> None:
    tables = halves()
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(*tables[:2])
    boosted = GradientBoostingRegressor(n_estimators=1, max_depth=3, random_state=0)
    expected = unbiased_gain(boosted.fit(*tables[:2]), *tables, paper_sums=True)
    result = unbiased_gain(tree, *tables)
    np.testing.assert_allclose(result.importance, expected.importance)
    np.testing.assert_allclose(result.se, expected.se)


def test_a_forest_of_one_tree_again_and_again_is_that_tree() -> None:
    for target, tree, cls in (
        ("regression", DecisionTreeRegressor(max_depth=4, random_state=0), RandomForestRegressor),
        ("multiclass", DecisionTreeClassifier(max_depth=4, random_state=0), RandomForestClassifier),
    ):
        tables = halves(target)
        forest = cls(7, max_depth=4, max_features=None, bootstrap=False, random_state=0).fit(*tables[:2])
        one, many = (unbiased_gain(model.fit(*tables[:2]), *tables) for model in (tree, forest))
        np.testing.assert_allclose(many.importance, one.importance, rtol=1e-9)
        np.testing.assert_allclose(many.se, one.se, rtol=1e-9)
        assert {t.share for t in read_model(forest).trees} == {1 / 7}
        assert {t.iteration for t in read_model(forest).trees} == {0}


def test_two_classes_are_a_number_and_its_complement() -> None:
    tables = halves("numbers")
    by_class = unbiased_gain(DecisionTreeClassifier(max_depth=3, random_state=0).fit(*tables[:2]), *tables)
    by_number = unbiased_gain(DecisionTreeRegressor(max_depth=3, random_state=0).fit(*tables[:2]), *tables)
    np.testing.assert_allclose(by_class.importance, 2 * by_number.importance)
    np.testing.assert_allclose(by_class.per_class, [by_number.importance, by_number.importance])


@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.gain.TrainingRowsWarning")
def test_judged_by_its_own_rows_it_is_half_the_decrease_of_impurity() -> None:
    for target, model in (
        ("regression", DecisionTreeRegressor(max_depth=3, random_state=0)),
        ("multiclass", DecisionTreeClassifier(max_depth=3, random_state=0)),
        ("multiclass", ExtraTreesClassifier(5, max_depth=3, min_samples_leaf=5, random_state=0)),
    ):
        X, y, *_ = halves(target)
        model.fit(X, y)
        same = unbiased_gain(model, X, y, X, y, min_rows=2)
        gain = gain_importance(model).importance
        n_trees = getattr(model, "n_estimators", 1)
        np.testing.assert_allclose(same.importance, gain / (2 * len(y) * n_trees), rtol=1e-6)
        if n_trees == 1:
            np.testing.assert_allclose(gain / gain.sum(), model.feature_importances_)


@pytest.mark.parametrize("kind", ["forest", "tree"])
@pytest.mark.parametrize("loss", validation.LOSSES)
@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.FewUsableSplitsWarning")
def test_noise_scores_zero_and_signal_does_not(loss: str, kind: str) -> None:
    squared = loss == "squared"
    # A z-score is nearly normal if it does not rest on a handful of rows.
    options = {"min_samples_leaf": 20, "random_state": 0}

    def model() -> Any:
        if kind == "tree":
            return (DecisionTreeRegressor if squared else DecisionTreeClassifier)(max_leaf_nodes=8, **options)
        cls = RandomForestRegressor if squared else RandomForestClassifier
        return cls(10, max_leaf_nodes=16, max_features=2, **options)

    table = validation.null_rates(lambda seed: validation.toy(seed, 1200, loss, strength=1.0), model, 60)
    useful, *noise = table.values()
    assert useful["rejected"] == 1.0
    for feature in noise:
        n = feature["repeats"]
        # Each bound is exceeded by a right method in one of 10,000 runs.
        assert abs(feature["mean_z"]) < stats.norm.isf(5e-5) / np.sqrt(n)
        assert feature["sd_z"] < np.sqrt(stats.chi2.isf(1e-4, n - 1) / (n - 1))
        assert feature["sd_z"] > np.sqrt(stats.chi2.ppf(1e-4, n - 1) / (n - 1))


def test_column_order_and_names() -> None:
    X, targets = mixed_table(1000)
    X, y = X[["a", "gaps"]].assign(flag=(X["few"] == "x").astype(float)), targets["regression"]
    model = DecisionTreeRegressor(max_depth=4, random_state=0)
    result, swapped = (
        unbiased_gain(model.fit(table[:500], y[:500]), table[:500], y[:500], table[500:], y[500:])
        for table in (X, X[["flag", "gaps", "a"]])
    )
    assert result.feature_names == ("a", "gaps", "flag")
    np.testing.assert_allclose(result.importance, swapped.importance[::-1])


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr"])
def test_sparse_tables_of_any_format(form: str) -> None:
    X_train, y_train, X_val, y_val = halves()
    for model in (
        DecisionTreeRegressor(max_depth=3, random_state=0),
        RandomForestRegressor(3, max_depth=3, random_state=0),
    ):
        model.fit(X_train, y_train)
        expected = unbiased_gain(model, X_train, y_train, X_val, y_val).importance
        for make in (sparse.coo_matrix, sparse.coo_array):
            tables = (make(X_train).asformat(form), y_train, make(X_val).asformat(form), y_val)
            np.testing.assert_array_equal(unbiased_gain(model, *tables).importance, expected)


def test_class_weights_are_those_of_the_model() -> None:
    X, y, *_ = halves("binary")
    for given, expected in (({"no": 1.0, "yes": 4.0}, 4.0), ("balanced", None), ("balanced_subsample", None)):
        model = RandomForestClassifier(3, class_weight=given, random_state=0).fit(X, y)
        number = (y == "yes").astype(float)
        weights = read_model(model).class_weight(number, None)
        assert weights[1] / weights[0] == pytest.approx(expected or (number == 0).sum() / (number == 1).sum())
        check_additive(read_model(model), X)


def test_the_other_importances_and_cross_fitting() -> None:
    X_train, y_train, X_val, y_val = halves("multiclass")
    forest = RandomForestClassifier(10, min_samples_leaf=10, random_state=0).fit(X_train, y_train)
    assert permutation_importance(forest, X_val, y_val).p_value[0] < 1e-6
    assert cross_unbiased_gain(forest, X_train, y_train, cv=2).p_value[0] < 1e-3


def test_the_indicator_loss() -> None:
    y, raw = np.array([0.0, 2.0]), np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    loss = IndicatorLoss(3)
    g, h = loss.gradients(y, raw)
    np.testing.assert_allclose(g, [[-0.8, 0.3, 0.5], [0.1, 0.1, -0.2]])
    np.testing.assert_array_equal(h, 1.0)
    np.testing.assert_allclose(loss.values(y, raw), [0.49, 0.03])
    # A forest that has seen one class only predicts one number.
    one = RandomForestClassifier(2).fit(np.zeros((9, 1)), np.zeros(9))
    np.testing.assert_array_equal(unbiased_gain(one, *(np.zeros((9, 1)), np.zeros(9)) * 2).importance, [0.0])


def test_what_cannot_be_read_is_refused() -> None:
    X, y, *_ = halves()
    for model, criterion in (
        (RandomForestRegressor(2, criterion="absolute_error", max_depth=2), "absolute_error"),
        (DecisionTreeRegressor(criterion="poisson", max_depth=2), "poisson"),
        (ExtraTreesClassifier(2, criterion="entropy", max_depth=2), "entropy"),
        (DecisionTreeClassifier(criterion="log_loss", max_depth=2), "log_loss"),
    ):
        target = y if "Regressor" in type(model).__name__ else y > 53.0
        with pytest.raises(UnsupportedModelError, match=f"'{criterion}'.*Pass loss="):
            read_model(model.fit(X, target))
    loose = ExtraTreeRegressor(criterion="absolute_error", max_depth=2, random_state=0).fit(X, y)
    assert unbiased_gain(loose, X, y, X[:100], y[:100], loss=SquaredError()).importance.shape == (4,)
    with pytest.raises(UnsupportedModelError, match="with 2 targets"):
        read_model(RandomForestRegressor(2).fit(X, np.column_stack([y, y])))
    with pytest.raises(UnsupportedModelError, match="RandomTreesEmbedding"):
        read_model(RandomTreesEmbedding(2).fit(X))
    with pytest.raises(NotFittedError):
        read_model(RandomForestRegressor())
