from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from unbiasedgbm.ensemble.adapters import ModelMismatchError, read_model
from unbiasedgbm.ensemble.adapters import lightgbm as lightgbm_reader
from unbiasedgbm.ensemble.adapters.objectives import IndicatorLoss
from unbiasedgbm.importance import FewUsableSplitsWarning, unbiased_gain
from unbiasedgbm.importance.leaks import TrainingRowsWarning
from unbiasedgbm.losses import LogLoss, MulticlassLogLoss

from .helpers import load_validation, mixed_table, twin_unbiased_gain

validation = load_validation()


def toy_model(loss: str = "log", n_trees: int = 20, leaves: int = 8) -> tuple[Any, tuple[Any, Any, Any, Any]]:
    X, y = validation.toy(3, 2000, loss, strength=1.0)
    model = validation.model_of("lightgbm", loss, n_trees, leaves=leaves).fit(X[:1000], y[:1000])
    return model, (X[:1000], y[:1000], X[1000:], y[1000:])


def test_the_same_tree_has_the_same_importance_whoever_grew_it() -> None:
    rng = np.random.default_rng(0)
    # Two binary features, symmetric signal: every library grows x0, then x1 on both sides.
    X = rng.integers(0, 2, (3000, 2)).astype(np.float64)
    for loss in ("squared", "log"):
        signal = 2.0 * X[:, 0] + 0.7 * X[:, 1]
        y = signal + rng.normal(size=3000) if loss == "squared" else (signal + rng.logistic(size=3000) > 1.3) * 1
        squared = loss == "squared"
        rate, quiet = 0.3, {"n_jobs": 1}
        models = {
            "lightgbm": (lightgbm.LGBMRegressor if squared else lightgbm.LGBMClassifier)(
                n_estimators=1, num_leaves=4, learning_rate=rate, verbose=-1, **quiet
            ),
            "xgboost": (xgboost.XGBRegressor if squared else xgboost.XGBClassifier)(
                n_estimators=1, max_depth=2, learning_rate=rate, reg_lambda=0.0, **quiet
            ),
            "catboost": (catboost.CatBoostRegressor if squared else catboost.CatBoostClassifier)(
                iterations=1, depth=2, learning_rate=rate, boost_from_average=True, random_strength=0,
                bootstrap_type="No", thread_count=1, verbose=0, allow_writing_files=False, l2_leaf_reg=0.0,
            ),
            "classic": (GradientBoostingRegressor if squared else GradientBoostingClassifier)(
                n_estimators=1, max_depth=2, learning_rate=rate
            ),
            "histogram": (HistGradientBoostingRegressor if squared else HistGradientBoostingClassifier)(
                max_iter=1, max_leaf_nodes=4, learning_rate=rate
            ),
        }  # fmt: skip
        results = {}
        for name, model in models.items():
            model.fit(X[:1500], y[:1500])
            results[name] = unbiased_gain(model, X[:1500], y[:1500], X[1500:], y[1500:])
            assert read_model(model).trees[0].is_split.sum() == 3
        for name, result in results.items():
            # XGBoost stores its base score in single precision.
            np.testing.assert_allclose(result.importance, results["classic"].importance, rtol=1e-5, err_msg=name)
            np.testing.assert_allclose(result.se, results["classic"].se, rtol=1e-5, err_msg=name)
            np.testing.assert_array_equal(result.n_splits, [1, 2])


def test_closed_form_agrees_with_draws() -> None:
    model, tables = toy_model("log", 20, 16)
    exact = unbiased_gain(model, *tables, paper_sums=True)

    def drawn_by(draws: int, seed: int = 0) -> Any:
        return unbiased_gain(model, *tables, paper_sums=True, draws=draws, random_state=seed)

    batches = np.array([drawn_by(200, seed).importance for seed in range(10)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(10)
    assert (np.abs(batches.mean(axis=0) - exact.importance) < 4 * error).all()
    # Draws change the values, never the standard errors, and differ by seed.
    drawn = drawn_by(5)
    np.testing.assert_array_equal(drawn.se, exact.se)
    assert (drawn.importance != exact.importance).any()
    np.testing.assert_array_equal(drawn.importance, drawn_by(5).importance)
    with pytest.raises(ValueError, match="set paper_sums=True"):
        unbiased_gain(model, *tables, draws=5)


def test_column_order_does_not_matter() -> None:
    X, targets = mixed_table(1000)
    y = targets["regression"]
    result, swapped = (
        unbiased_gain(
            lightgbm.LGBMRegressor(n_estimators=10, num_leaves=8, n_jobs=1, verbose=-1).fit(table[:500], y[:500]),
            table[:500],
            y[:500],
            table[500:],
            y[500:],
        )
        for table in (X, X[["gaps", "few", "a", "many"]])
    )
    order = [swapped.feature_names.index(name) for name in result.feature_names]
    np.testing.assert_array_equal(result.importance, swapped.importance[order])
    np.testing.assert_array_equal(result.se, swapped.se[order])


def test_weights() -> None:
    model, tables = toy_model()
    rng = np.random.default_rng(0)
    w_train, w_val = rng.uniform(0.5, 2.0, 1000), rng.uniform(0.5, 2.0, 1000)
    w_val[:300] = 0.0
    weighted = unbiased_gain(model, *tables, sample_weight_train=w_train, sample_weight_val=w_val)
    importance, se = twin_unbiased_gain(read_model(model), tables, weights=(w_train, w_val))
    np.testing.assert_allclose(weighted.importance, importance, rtol=1e-5)
    np.testing.assert_allclose(weighted.se, se, rtol=1e-5)
    # Rows of weight zero are rows that are not there; the scale of the weights says nothing.
    X_train, y_train, X_val, y_val = tables
    without = unbiased_gain(
        model,
        X_train,
        y_train,
        X_val[300:],
        y_val[300:],
        sample_weight_train=7 * w_train,
        sample_weight_val=w_val[300:],
    )
    np.testing.assert_allclose(without.importance, weighted.importance)
    np.testing.assert_allclose(without.se, weighted.se)


def test_class_weights_of_the_model_are_sample_weights() -> None:
    _, tables = toy_model()
    y_train, y_val = tables[1], tables[3]
    # LightGBM finds its start value without class weights, so there must be none.
    options = {"n_estimators": 5, "boost_from_average": False, "n_jobs": 1, "verbose": -1}
    balanced = lightgbm.LGBMClassifier(scale_pos_weight=3.0, **options).fit(*tables[:2])
    by_model = unbiased_gain(balanced, *tables)
    plain = read_model(balanced)
    assert plain.class_weight is not None
    importance, _ = twin_unbiased_gain(plain, tables)
    np.testing.assert_allclose(by_model.importance, importance, rtol=1e-5)
    unweighted = lightgbm.LGBMClassifier(**options).fit(*tables[:2], sample_weight=1.0 + 2.0 * y_train)
    by_rows = unbiased_gain(
        unweighted, *tables, sample_weight_train=1.0 + 2.0 * y_train, sample_weight_val=1.0 + 2.0 * y_val
    )
    np.testing.assert_allclose(by_model.importance, by_rows.importance, rtol=1e-6)


@pytest.mark.parametrize("draws", [None, 20])
def test_rounding_errors_are_no_evidence(draws: int | None) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 5))
        y = (X[:, 0] > 0.5).astype(int)
        tables = (X[:500], y[:500], X[500:], y[500:])
        # once the first feature has told the classes apart, all rows of a node want the same step
        model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(*tables[:2])
        assert sum((tree.source[tree.is_split] > 0).sum() for tree in read_model(model).trees) >= 2
        result = unbiased_gain(model, *tables, draws=draws, paper_sums=True)
        assert result.p_value[0] < 1e-3
        tiny = np.abs(result.importance) < 1e-12
        assert tiny[1:].sum() >= 2
        assert (result.p_value[tiny] > 1e-3).all(), (seed, result.importance, result.p_value)
        np.testing.assert_array_equal(result.importance[tiny], 0.0)


def test_groups_are_taken_out_together() -> None:
    model, tables = toy_model()
    groups = {"noise": [1, 2], "all": [0, 1, 2], "one": [1]}
    result = unbiased_gain(model, *tables, groups=groups)
    importance, se = twin_unbiased_gain(read_model(model), tables, groups=groups)
    assert result.groups is not None
    np.testing.assert_allclose(result.groups.importance, importance[3:], rtol=1e-5)
    np.testing.assert_allclose(result.groups.se, se[3:], rtol=1e-5)
    np.testing.assert_allclose([result.groups.importance[2], result.groups.se[2]], [result.importance[1], result.se[1]])
    # Each member is judged with the other one in the prediction.
    assert result.groups.importance[0] != pytest.approx(result.importance[1:].sum(), rel=1e-3)


def test_groups_of_the_papers_sums_are_sums_of_their_members() -> None:
    model, tables = toy_model()
    named = {"noise": ["Column_1", 2], "all": [0, 1, 2], "one": [1]}
    result = unbiased_gain(model, *tables, groups=named, paper_sums=True)
    assert result.groups is not None
    assert result.groups.feature_names == ("noise", "all", "one")
    np.testing.assert_allclose(result.groups.importance[:2], [result.importance[1:].sum(), result.importance.sum()])
    np.testing.assert_allclose([result.groups.importance[2], result.groups.se[2]], [result.importance[1], result.se[1]])
    # Not the sum of independent errors: the same rows contribute to all members.
    assert result.groups.se[0] != pytest.approx(np.hypot(*result.se[1:]), rel=1e-6)
    assert result.groups.per_tree is not None
    np.testing.assert_allclose(result.groups.per_tree.sum(axis=0), result.groups.importance)


@pytest.mark.parametrize(
    "members",
    [
        np.array([1, 2]), np.array(["Column_1", "Column_2"]), np.array([False, True, True]), [np.int64(1), np.int32(2)],
        ["Column_1", 2], [False, True, True], (1, 2), {1, 2}, range(1, 3), pd.Series([1, 2], index=[7, 9]),
        pd.Index(["Column_1", "Column_2"]), pd.Series([False, True, True]), pl.Series([1, 2]),
    ],
    ids=lambda members: f"{type(members).__module__} {type(members).__name__} {next(iter(members))!r}",
)  # fmt: skip
def test_a_group_is_any_list_of_features(members: Any) -> None:
    model, tables = toy_model(n_trees=3)
    result = unbiased_gain(model, *tables, groups={"noise": members})
    assert result.groups is not None
    expected = unbiased_gain(model, *tables, groups={"noise": [1, 2]}).groups
    assert expected is not None
    np.testing.assert_array_equal(result.groups.importance, expected.importance)


def test_what_is_no_group_is_refused() -> None:
    model, tables = toy_model(n_trees=3)
    for members, message in (
        (np.array([0, 3]), r"groups\['g'\] names .*3.*, which is not a feature"),
        ([-1], "names -1"),
        ([1.0], r"names 1\.0"),
        ([np.float32(1.0)], r"groups\['g'\] names .*1\.0"),
        ([[0, 1]], r"groups\['g'\] names \[0, 1\], which is not a feature"),
        ([([0, 1],)], r"groups\['g'\] names \(\[0, 1\],\)"),
        (np.array([[0, 1]]), r"groups\['g'\] names array\(\[0, 1\]\)"),
        (np.array(0), r"groups\['g'\] must be a list with at least one feature, got array\(0\)"),
        ([None], r"groups\['g'\] names None"),
        ([True, "Column_1"], "names True"),
        ([True, False], "mask of length 2, but the model has 3 features"),
        (np.zeros(3, dtype=bool), "mask without a feature"),
        (np.array([], dtype=int), "must be a list with at least one feature"),
        (1, "must be a list with at least one feature, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            unbiased_gain(model, *tables, groups={"g": members})
    for groups in ([[0, 1]], np.array(["a", "a", "b"])):
        with pytest.raises(TypeError, match="groups must be a mapping"):
            unbiased_gain(model, *tables, groups=groups)


def test_a_callable_loss_is_the_loss() -> None:
    model, tables = toy_model()
    expected = unbiased_gain(model, *tables)
    for loss in (LogLoss(), LogLoss().gradients):
        np.testing.assert_allclose(unbiased_gain(model, *tables, loss=loss).importance, expected.importance)
    # Further columns of y are handed through.
    with_query = [np.column_stack([y, np.zeros(len(y))]) for y in (tables[1], tables[3])]
    given = unbiased_gain(
        model.booster_,
        tables[0],
        with_query[0],
        tables[2],
        with_query[1],
        loss=lambda y, raw: LogLoss().gradients(y[:, 0], raw),
    )
    np.testing.assert_allclose(given.importance, expected.importance)


def test_a_loss_has_the_outputs_of_the_model() -> None:
    model, tables = toy_model(n_trees=3)
    with pytest.raises(
        ValueError, match=r"loss: MulticlassLogLoss is for 2 raw predictions a row, .* one raw prediction"
    ):
        unbiased_gain(model, *tables, loss=MulticlassLogLoss(2))
    # A forest has a column for each class, also of two.
    forest = RandomForestClassifier(3, criterion="entropy", max_depth=2, random_state=0).fit(*tables[:2])
    with pytest.raises(ValueError, match=r"loss: LogLoss is for one raw prediction a row, .* 2 raw predictions"):
        unbiased_gain(forest, *tables, loss=LogLoss())
    expected = unbiased_gain(forest, *tables, loss=IndicatorLoss(2)).importance
    given = unbiased_gain(forest, *tables, loss=lambda y, raw: IndicatorLoss(2).gradients(y, raw))
    np.testing.assert_array_equal(given.importance, expected)


def test_few_held_out_rows_are_said_aloud() -> None:
    model, (X_train, y_train, X_val, y_val) = toy_model(leaves=31)
    with pytest.warns(FewUsableSplitsWarning, match=r"of what the model's splits do cannot be judged") as caught:
        result = unbiased_gain(model, X_train, y_train, X_val[:20], y_val[:20])
    assert caught[0].filename == __file__
    assert result.n_splits.sum() < 300
    with pytest.warns(FewUsableSplitsWarning):
        few = unbiased_gain(model, X_train, y_train, X_val[:8], y_val[:8])
    np.testing.assert_array_equal(few.importance, 0.0)
    np.testing.assert_array_equal(few.p_value, 1.0)


def trained(seed: int = 0, n_rows: int = 400) -> tuple[Any, Any, Any]:
    """A model of noise, and the rows that it was trained on."""
    X, y = np.random.default_rng(seed).normal(size=(2, n_rows, 3))
    y = (y[:, 0] > 0).astype(int)
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1).fit(X, y), X, y


def test_training_rows_are_no_held_out_rows() -> None:
    model, X, y = trained()
    with pytest.warns(TrainingRowsWarning, match="X_val and y_val are the training rows") as caught:
        result = unbiased_gain(model, X, y, X, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert (result.p_value < 1e-3).all(), "noise is not significant after all"
    # a copy, another type, other weights and other groups are the same rows
    ones = np.ones(len(y))
    for same, options in (
        ((X.copy(), y.copy()), {}),
        ((pd.DataFrame(X), y.tolist()), {}),
        ((X, y), {"sample_weight_val": 2 * ones, "row_groups_val": np.arange(len(y)) // 2}),
        ((X, y), {"sample_weight_val": ones * (np.arange(len(y)) < 300)}),
    ):
        with pytest.warns(TrainingRowsWarning):
            unbiased_gain(model, X, y, *same, **options)
    matrices = [xgboost.DMatrix(X), xgboost.DMatrix(X)]
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y), 5)
    with pytest.warns(TrainingRowsWarning):
        unbiased_gain(booster, matrices[0], y, matrices[1], y)
    # a tree of two leaves tells no more than classes apart, but the table is the same object
    stump = DecisionTreeClassifier(max_depth=1).fit(X, y)
    with pytest.warns(TrainingRowsWarning):
        unbiased_gain(stump, X, y, X, y)


@pytest.mark.filterwarnings("error::unbiasedgbm.TrainingRowsWarning")
def test_other_rows_are_not_taken_for_training_rows() -> None:
    model, X, y = trained()
    rng = np.random.default_rng(1)
    unbiased_gain(model, X, y, rng.normal(size=X.shape), y)
    # one table whose parts are told by weights
    part = rng.random(len(y)) < 0.5
    by_weight = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1)
    by_weight.fit(X, y, sample_weight=part * 1.0)
    unbiased_gain(by_weight, X, y, X, y, sample_weight_train=part * 1.0, sample_weight_val=~part * 1.0)
    # sorted classes that a model tells apart without fail
    labels = np.repeat([0, 1, 2], 100)
    sides = [labels[:, None] + 0.1 * rng.normal(size=(300, 2)) for _ in range(2)]
    forest = RandomForestClassifier(20, max_depth=3, random_state=0).fit(sides[0], labels)
    tree = DecisionTreeClassifier(random_state=0).fit(sides[0], labels)
    assert (tree.predict(sides[1]) == labels).all()
    for one in (tree, forest):
        unbiased_gain(one, sides[0], labels, sides[1], labels)
    # a model that predicts the same for all
    constant = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=400, verbose=-1).fit(X, X[:, 0])
    unbiased_gain(constant, X, X[:, 0], rng.normal(size=X.shape), X[:, 0])


def test_a_model_without_splits() -> None:
    X, y = np.zeros((50, 2)), np.arange(50.0)
    for model in (lightgbm.LGBMRegressor(n_estimators=3, verbose=-1), HistGradientBoostingRegressor(max_iter=3)):
        result = unbiased_gain(model.fit(X, y), X, y, X, y)
        np.testing.assert_array_equal(result.importance, [0.0, 0.0])
        np.testing.assert_array_equal(result.p_value, [1.0, 1.0])


def test_min_rows() -> None:
    model, tables = toy_model(leaves=31)
    loose, strict = (unbiased_gain(model, *tables, min_rows=m) for m in (2, 200))
    assert loose.n_splits.sum() > strict.n_splits.sum() > 0
    importance, se = twin_unbiased_gain(read_model(model), tables, min_rows=200)
    np.testing.assert_allclose(strict.importance, importance, rtol=1e-5)
    np.testing.assert_allclose(strict.se, se, rtol=1e-5)
    # What is not judged is said, feature by feature.
    assert (loose.unjudged < 0.1).all()
    assert (strict.unjudged >= loose.unjudged).all()
    assert strict.unjudged[2] > 0.5
    assert (strict.unjudged <= 1.0).all()


def test_errors_name_the_argument() -> None:
    model, (X_train, y_train, X_val, y_val) = toy_model()
    good = (X_train, y_train, X_val, y_val)
    with pytest.raises(ValueError, match="X_val has 1000 rows but y_val has 10"):
        unbiased_gain(model, X_train, y_train, X_val, y_val[:10])
    with pytest.raises(ValueError, match="label 7"):
        unbiased_gain(model, X_train, np.full(1000, 7), X_val, y_val)
    with pytest.raises(ValueError, match="y_val holds a value that is missing"):
        unbiased_gain(model.booster_, X_train, y_train, X_val, np.where(y_val == 1, np.nan, 0.0))
    with pytest.raises(ValueError, match="sample_weight_val must have shape"):
        unbiased_gain(model, *good, sample_weight_val=[1.0])
    with pytest.raises(ValueError, match="sample_weight_train must be finite"):
        unbiased_gain(model, *good, sample_weight_train=-np.ones(1000))
    with pytest.raises(ValueError, match="level must lie"):
        unbiased_gain(model, *good, level=95)
    with pytest.raises(ValueError, match="min_rows must be at least 2"):
        unbiased_gain(model, *good, min_rows=1)
    with pytest.raises(ValueError, match="draws must be"):
        unbiased_gain(model, *good, draws=0)
    with pytest.raises(ValueError, match=r"groups\['g'\] names 'zip'"):
        unbiased_gain(model, *good, groups={"g": ["zip"]})
    with pytest.raises(ValueError, match=r"groups\['g'\] must be a list"):
        unbiased_gain(model, *good, groups={"g": "Column_1"})
    with pytest.raises(TypeError, match="loss must be"):
        unbiased_gain(model, *good, loss="log_loss")
    with pytest.raises(TypeError, match=r"cannot read a builtins\.int"):
        unbiased_gain(3, *good)


def test_a_misread_model_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tables = toy_model()
    monkeypatch.setattr(lightgbm_reader, "_constant_part", lambda block: 0.0)
    unbiased_gain(model, *tables)  # another start value is another decomposition of the same prediction
    numbers = lightgbm_reader._numbers
    monkeypatch.setattr(lightgbm_reader, "_numbers", lambda text, dtype: numbers(text, dtype)[::-1])
    with pytest.raises(ModelMismatchError, match="lightgbm"):
        unbiased_gain(model, *tables)


def test_memory_grows_with_rows_not_with_splits() -> None:
    X, y = validation.toy(0, 40_000, "squared")
    peaks = []
    for n_trees in (100, 400):
        model = validation.model_of("lightgbm", "squared", n_trees, leaves=31).fit(X[:2000], y[:2000])
        unbiased_gain(model, X[:500], y[:500], X[500:1000], y[500:1000])
        tracemalloc.start()
        unbiased_gain(model, X[:20_000], y[:20_000], X[20_000:], y[20_000:], n_jobs=1)
        peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    # A table of rows × splits would have 20,000 × 12,000 entries: 1,800 MiB.
    assert peaks[1] < 400


def test_importing_loads_no_optional_package() -> None:
    code = (
        "import sys, unbiasedgbm.importance, unbiasedgbm.ensemble.adapters;"
        "optional = {'xgboost', 'lightgbm', 'catboost', 'shap', 'matplotlib', 'polars'};"
        "sys.exit(', '.join(optional & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
