"""Distributed estimators: parameters, lazy predictions, local copies, and what they refuse."""

import asyncio
import inspect

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from cluster_data import CUTS, UGLY, N, as_array, assert_nothing_left, assert_same_file, cut, frame, numbers, pair
from distributed import Client, LocalCluster
from sklearn.base import clone

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.callbacks import Checkpoint
from unbiasedgbm.distributed import DaskUnbiasedGBMClassifier, DaskUnbiasedGBMRegressor, unbiased_gain


@pytest.mark.parametrize(
    ("local", "remote"),
    [(UnbiasedGBMClassifier, DaskUnbiasedGBMClassifier), (UnbiasedGBMRegressor, DaskUnbiasedGBMRegressor)],
)
def test_signatures(local, remote):
    assert inspect.signature(local) == inspect.signature(remote)
    assert local().get_params() == remote().get_params()
    ours, theirs = inspect.signature(remote.fit).parameters, inspect.signature(local.fit).parameters
    assert list(ours) == [*theirs, "client"]
    for name in ("predict", "predict_proba", "decision_function", "apply", "score"):
        if hasattr(local, name):
            assert (
                inspect.signature(getattr(local, name)).parameters.keys()
                == inspect.signature(getattr(remote, name)).parameters.keys()
            )


def test_predictions_are_lazy_and_equal(client):
    X, y = numbers()
    local, remote = pair("classifier")
    local.fit(X, np.digitize(y, [-1, 1]))
    remote.fit(cut(X, UGLY), cut(np.digitize(y, [-1, 1]), UGLY))
    for table in (as_array(X, UGLY), cut(X, UGLY), X):
        for name in ("predict", "predict_proba", "decision_function", "apply"):
            found = getattr(remote, name)(table)
            assert isinstance(found, da.Array) == (table is not X)
            expected = getattr(local, name)(X)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.compute() if table is not X else found, expected)
    lazy = remote.predict_proba(as_array(X, UGLY))
    assert lazy.shape == (N, 3)
    np.testing.assert_array_equal(
        remote.predict(as_array(X, UGLY), n_iterations=2).compute(), local.predict(X, n_iterations=2)
    )


def test_predictions_of_frames(client):
    table, y = frame()
    local, remote = pair("regressor")
    collection = dd.from_pandas(table, npartitions=3)
    local.fit(table, y)
    remote.fit(collection, cut(y, [len(part) for part in collection.partitions]))
    np.testing.assert_array_equal(remote.predict(collection).compute(), local.predict(table))


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_scores(client, kind):
    """Those of the local estimator, on whatever can be predicted."""
    table, y = frame()
    target = np.where(y > 1, "high", "low") if kind == "classifier" else y
    weight = np.random.default_rng(0).random(N)
    local, remote = pair(kind)
    local.fit(table, target)
    remote.fit(cut(table, UGLY), cut(target, UGLY))
    whole = dd.from_pandas(table.assign(y=target, weight=weight), npartitions=3)
    tables = whole[list(table)], whole["y"], whole["weight"]
    plain, weighted = local.score(table, target), local.score(table, target, weight)
    assert plain != weighted
    for X, y, w in (
        tables,
        (cut(table, UGLY), cut(target, UGLY), cut(weight, UGLY)),
        (cut(table, UGLY), as_array(target, CUTS["two"]), weight),
        (table, target, weight),
    ):
        assert remote.score(X, y) == plain
        assert remote.score(X, y, sample_weight=w) == weighted
    X, y = numbers()
    target = y > 0 if kind == "classifier" else y
    remote.fit(as_array(X, UGLY), as_array(target, UGLY))
    assert remote.score(as_array(X, UGLY), as_array(target, UGLY)) == local.fit(X, target).score(X, target)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        remote.score(as_array(X, UGLY), target[:-1])


def test_to_local(client, tmp_path):
    X, y = numbers()
    remote = pair("classifier")[1].fit(cut(X, UGLY), cut(y > 0, UGLY))
    local = remote.to_local()
    assert type(local) is UnbiasedGBMClassifier
    np.testing.assert_array_equal(local.predict_proba(X), remote.predict_proba(X))
    remote.save_model(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert type(loaded) is UnbiasedGBMClassifier
    np.testing.assert_array_equal(loaded.predict_proba(X), local.predict_proba(X))
    assert not hasattr(clone(remote), "_model")
    with pytest.raises(TypeError, match="to_local"):
        next(iter(remote.staged_predict(X)))


def test_the_loss_of_a_model_is_the_one_that_it_was_trained_with(client):
    X, y = numbers()
    remote = pair("regressor")[1].set_params(loss="poisson").fit(cut(X, UGLY), cut(np.exp(y / 4), UGLY))
    before = remote.to_local().predict(X)
    np.testing.assert_array_equal(remote.set_params(loss="squared_error").to_local().predict(X), before)


REFUSED = [
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(y, CUTS["two"])), "X has 7 partitions, but y has 2"),
    (lambda m, X, y: m.fit(cut(X, UGLY), None), "requires y"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), cut(y * 0, UGLY)), "sample_weight is zero in every row"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), cut(y - 99, UGLY)), "sample_weight holds a negative value"),
    (lambda m, X, y: m.fit(cut(X, CUTS["two"]), cut(y, (299, 121))), "inconsistent numbers of samples"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(np.where(y > 1, np.nan, y), UGLY)), "y contains NaN"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(np.where(y > 1, np.inf, y), UGLY)), "infinite"),
    (lambda m, X, y: m.set_params(loss="gamma").fit(cut(X, UGLY), cut(y, UGLY)), "gamma"),
    (lambda m, X, y: m.set_params(max_bins=1).fit(cut(X, UGLY), cut(y, UGLY)), "max_bins"),
    (
        lambda m, X, y: m.fit([*cut(X[:300], (300,)), *cut(X[300:, 1:], (120,))], cut(y, (300, 120))),
        "different columns",
    ),
    (lambda m, X, y: m.fit(cut(X[:0], (0, 0)), cut(y[:0], (0, 0))), r"0 sample"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), X_val=X), "y_val is None"),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), callbacks=[Checkpoint("nowhere.json")]), "Checkpoint"),
    (lambda m, X, y: m.fit(da.from_array(X).sum(), cut(y, UGLY)), "Expected 2D array"),
    (
        lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), X_val=as_array(X[:0], (0,)), y_val=as_array(y[:0], (0,))),
        r"X_val: Found array with 0 sample\(s\) \(shape=\(0, 5\)\)",
    ),
    (
        lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), X_val=X, y_val=y, sample_weight_val=0 * y),
        "sample_weight_val is zero in every row",
    ),
    (
        lambda m, X, y: m.fit(cut(X[:0], (0,)), cut(y[:0], (0,)), init_model=pair("regressor")[0].fit(X, y)),
        r"X: Found array with 0 sample\(s\)",
    ),
    (lambda m, X, y: m.fit(cut(X, UGLY), cut(np.where(y > 0, "high", "low"), UGLY)), "^y must hold numbers"),
    (
        lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), cut(np.full(N, "heavy"), UGLY)),
        "^sample_weight must hold numbers",
    ),
    (
        lambda m, X, y: m.fit(cut(X, UGLY), cut(y, UGLY), X_val=X, y_val=y, sample_weight_val=np.full(N, "heavy")),
        "^sample_weight_val must hold numbers",
    ),
    (lambda m, X, y: m.fit(*_words(X, np.where(y > 1, None, "0.5"))), "^Input y contains NaN"),
]


def test_what_is_no_callback_is_refused(client):
    X, y = numbers()
    with pytest.raises(TypeError, match=r"^callbacks"):
        pair("regressor")[1].fit(cut(X, UGLY), cut(y, UGLY), callbacks=[lambda state: None])
    assert_nothing_left(client)


def _words(X, y):
    """A table and a target of text, as a data frame has them."""
    collection = dd.from_pandas(pd.DataFrame(X, columns=list("abcde")).assign(y=pd.Series(y, dtype=object)), 3)
    return collection[list("abcde")], collection["y"]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(client, call, message):
    X, y = numbers()
    with pytest.raises(ValueError, match=message):
        call(pair("regressor")[1], X, y)
    assert_nothing_left(client)


SHORT = [
    (lambda m, X, y: m.fit(X, y[:400]), "X has 420 rows, but y has 400"),
    (lambda m, X, y: m.fit(X, y.tolist()[:400]), "X has 420 rows, but y has 400"),
    (lambda m, X, y: m.fit(X, da.from_array(y[:400])), "X has 420 rows, but y has 400"),
    (lambda m, X, y: m.fit(X, y, y[:1]), "X has 420 rows, but sample_weight has 1"),
    (lambda m, X, y: m.fit(X, y, X_val=X, y_val=y[:3]), "X_val has 420 rows, but y_val has 3"),
    (lambda m, X, y: m.fit(X, da.from_array(y).sum()), "y must have a value for each row of X, got a single one"),
    (lambda m, X, y: m.fit(X, y, 1.0), "sample_weight must have a value for each row of X, got a single one"),
]


@pytest.mark.parametrize(("call", "message"), SHORT)
def test_columns_of_other_lengths(client, call, message):
    """The lengths are those of all rows, not of partitions."""
    X, y = numbers()
    with pytest.raises(ValueError, match=message):
        call(pair("regressor")[1], as_array(X, CUTS["seven"]), y)


def test_a_scalar_is_no_column(client):
    collection, target = _words(*numbers())
    with pytest.raises(TypeError, match="got Scalar"):
        pair("regressor")[1].fit(collection, target.count())


def test_columns_of_this_process(client, tmp_path):
    """They are cut as X is, whatever they are."""
    X, y = numbers()
    weight = np.arange(N) % 4
    local, remote = pair("regressor")
    local.fit(X, y, weight)
    for kind in (list, pd.Series, pl.Series, np.asarray):
        remote.fit(as_array(X, UGLY), kind(y), kind(weight))
        assert_same_file(local, remote, tmp_path)


async def _in_an_event_loop(call):
    async with (
        LocalCluster(n_workers=1, processes=False, asynchronous=True, dashboard_address=":0") as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        call(client)


def test_an_asynchronous_client():
    X, y = numbers()
    rows = as_array(X, UGLY), as_array(y, UGLY)
    local, remote = pair("regressor")
    local.fit(X, y)
    calls = (
        lambda client: remote.fit(*rows),
        lambda client: remote.fit(*rows, client=client),
        lambda client: unbiased_gain(local, *rows, *rows, client=client),
    )
    for call in calls:
        with pytest.raises(TypeError, match="client is asynchronous"):
            asyncio.run(_in_an_event_loop(call))


def test_numbers_as_text(client, tmp_path):
    X, y = numbers()
    words = y.astype("U")
    local, remote = pair("regressor")
    local.fit(X, words)
    assert_same_file(local, remote.fit(as_array(X, UGLY), as_array(words, UGLY)), tmp_path)


MIXED = [
    np.array([1, "a"] * (N // 2), dtype=object),
    np.array(["a", 1] * (N // 2), dtype=object),
    [np.zeros(300, np.int64), np.full(120, "a")],
    [np.full(300, "a"), np.zeros(120, np.int64)],
]


@pytest.mark.parametrize("y", MIXED, ids=["number first", "text first", "number in the first part", "text in it"])
def test_classes_of_several_types(client, y):
    X, _ = numbers()
    parts = [dask.delayed(part) for part in y] if isinstance(y, list) else cut(y, (300, 120))
    local, remote = pair("classifier")
    with pytest.raises(ValueError, match="Unknown label type: y holds labels of several types, int and str"):
        remote.fit(cut(X, (300, 120)), parts)
    if not isinstance(y, list):
        with pytest.raises(ValueError, match="Unknown label type"):
            local.fit(X, y)
    assert_nothing_left(client)


@pytest.mark.parametrize(("rows", "targets"), [((300, 120), (300, 0)), ((300, 0), (300, 120))])
def test_targets_of_other_lengths_in_a_partition(client, rows, targets):
    """None of the rows is left out without a word, wherever they are."""
    X, y = numbers()
    tables, columns = cut(X[: sum(rows)], rows), cut(y[: sum(targets)], targets)
    message = f"inconsistent numbers of samples: X has {rows[1]} rows, but y.* has {targets[1]}"
    local, remote = pair("regressor")
    with pytest.raises(ValueError, match=message):
        remote.fit(tables, columns)
    with pytest.raises(ValueError, match=message):
        remote.fit(tables, columns, init_model=local.fit(X, y))
    with pytest.raises(ValueError, match=message.replace("X has", "X_val has")):
        remote.fit(cut(X, UGLY), cut(y, UGLY), X_val=tables, y_val=columns)
    with pytest.raises(ValueError, match="sample_weight has 5 entries, but X has 0 rows"):
        remote.fit(cut(X, (420, 0)), cut(y, (420, 0)), cut(np.ones(425), (420, 5)))
