"""Chains of trees on threads of their own: the same model, whoever grew which tree and in which order."""

import signal
import threading
import time

import numpy as np
import pytest
from workbench import booster, mixed_table, same_trees, trees_of

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.ensemble.predict import prepare, raw_predict
from unbiasedgbm.exceptions import InterruptedWarning
from unbiasedgbm.losses import HuberLoss, MulticlassLogLoss, SquaredError
from unbiasedgbm.threads import Pool
from unbiasedgbm.training import booster as booster_module
from unbiasedgbm.training import harvest, loop, workspace

X, y = mixed_table(500, 3, n_levels=40)


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Have a table of hundreds of rows grown like one of thousands."""
    monkeypatch.setattr(workspace, "_LEAST_LANE_CELLS", 0)


def grow(n_jobs, n_iterations, ahead, *, n_bags=3, loss=None, **options):
    target = np.digitize(y, [0.5, 2.0]).astype(float) if isinstance(loss, MulticlassLogLoss) else y
    boosted = booster(
        X, target, categorical=[4, 5], loss=loss, n_jobs=n_jobs, n_bags=n_bags, split_rule="evidence", **options
    )
    trees = []
    while boosted.progress.n_iterations < n_iterations and not boosted.exhausted:
        left = n_iterations - boosted.progress.n_iterations
        for grown in boosted.run_ahead(min(ahead, left)):
            boosted.rows.advance(boosted, grown)
            trees += grown
    return boosted, trees_of(boosted, trees)


def assert_same(one, other):
    assert same_trees(one[1], other[1])
    a, b = one[0].progress, other[0].progress
    assert (a.n_iterations, a.idle) == (b.n_iterations, b.idle)
    for first, second in [
        (a.importance, b.importance),
        (a.n_splits, b.n_splits),
        (a.start_squares, b.start_squares),
        *((m.mean, n.mean) for m, n in zip(a.memories, b.memories, strict=True)),
        *((m.square, n.square) for m, n in zip(a.memories, b.memories, strict=True)),
        *zip(one[0].rows.bags, other[0].rows.bags, strict=True),
        (one[0].rows.raw, other[0].rows.raw),
    ]:
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("ahead", [1, 3, 50])
def test_threads_and_how_far_chains_run_ahead(n_jobs, ahead):
    assert_same(grow(n_jobs, 11, ahead), grow(1, 11, 1))


@pytest.mark.parametrize("options", [
    {"n_bags": 5},
    {"loss": MulticlassLogLoss(3)},
    {"loss": HuberLoss()},
    {"subsample": 0.7, "colsample_bytree": 0.5},
    {"role_draw": "node"},
    {"weight": np.arange(500) % 4 + 0.5},
], ids=lambda options: "-".join(options))  # fmt: skip
def test_options(options):
    assert_same(grow(2, 6, 4, **options), grow(1, 6, 1, **options))


def test_a_lane_may_have_a_team(monkeypatch):
    alone = grow(1, 5, 1)
    monkeypatch.setattr(workspace, "_TEAM_ROWS", 10)
    many = grow(8, 5, 5)
    assert len(many[0]._lanes) == 3
    assert [lane.memory.n_members for lane in many[0]._lanes] == [3, 3, 2]
    assert_same(many, alone)


def test_a_small_and_a_large_table_have_one_lane(monkeypatch):
    assert len(grow(2, 2, 1)[0]._lanes) == 2
    monkeypatch.setattr(workspace, "_LEAST_LANE_CELLS", 500 * 6 + 1)
    assert len(grow(2, 2, 1)[0]._lanes) == 1
    monkeypatch.setattr(workspace, "_LEAST_LANE_CELLS", 500 * 6)
    assert len(grow(2, 2, 1)[0]._lanes) == 2
    monkeypatch.setattr(workspace, "_MOST_LANE_ROWS", 499)
    assert len(grow(2, 2, 1)[0]._lanes) == 1


def test_a_loss_that_learns_of_the_rows_has_one_lane():
    assert HuberLoss().prepares
    assert not SquaredError().prepares
    assert len(grow(3, 2, 2, loss=HuberLoss())[0]._lanes) == 1


def test_the_mean_of_the_bags_is_what_the_model_predicts():
    boosted, trees = grow(2, 9, 4)
    raw = raw_predict(prepare(trees), trees.base, boosted.table, 0, trees.n_trees, Pool(1))
    np.testing.assert_array_equal(raw, boosted.rows.raw)


def test_boosting_ends_after_the_same_iteration():
    rng = np.random.default_rng(0)
    noise, target = rng.normal(size=(150, 1)), rng.normal(size=150)
    models = [UnbiasedGBMRegressor(n_jobs=k, n_estimators=2000).fit(noise, target) for k in (1, 2, 3)]
    n_iterations = [model.n_iter_ for model in models]
    assert 10 < n_iterations[0] < 2000
    assert len(set(n_iterations)) == 1
    # idle chains are part of what is kept
    assert len({model._model.progress.idle for model in models}) == 1


def test_estimators():
    labels = np.digitize(y, [1.0])
    watched = {"X_val": X[:100], "y_val": labels[:100]}
    alone, pair = (UnbiasedGBMClassifier(n_estimators=20, n_jobs=k).fit(X, labels) for k in (1, 2))
    np.testing.assert_array_equal(alone.predict_proba(X), pair.predict_proba(X))
    alone, pair = (
        UnbiasedGBMClassifier(n_estimators=20, n_jobs=k, early_stopping=False, verbose=0).fit(X, labels, **watched)
        for k in (1, 2)
    )
    np.testing.assert_array_equal(alone.predict_proba(X), pair.predict_proba(X))
    assert alone.history_ == pair.history_


class Failing:
    """Gradients of the squared error, until one call fails."""

    def __init__(self, at, error):
        self.left, self.error = at, error
        self.lock = threading.Lock()

    def gradients(self, target, raw):
        with self.lock:
            self.left -= 1
            if self.left == 0:
                raise self.error
        return raw - target, np.ones_like(raw)

    def values(self, target, raw):
        return (raw - target) ** 2


def test_an_error_of_one_chain_ends_all():
    loss = Failing(80, ValueError("this is the end"))
    model = UnbiasedGBMRegressor(n_jobs=2, loss=(loss.gradients, loss.values))
    with pytest.raises(ValueError, match="this is the end"):
        model.fit(X, y)
    # no chain went on for long
    assert loss.left > -3


def test_ctrl_c_keeps_what_all_chains_have_done():
    # forty calls find the start
    loss = Failing(40 + 3 * 20, KeyboardInterrupt())
    model = UnbiasedGBMRegressor(n_jobs=2, loss=(loss.gradients, loss.values))
    with pytest.warns(InterruptedWarning, match=r"after (1?\d) iterations"):
        model.fit(X, y)
    assert 1 <= model.n_iter_ < 20
    whole, short = (
        UnbiasedGBMRegressor(n_jobs=1, n_estimators=n, loss=(loss.gradients, loss.values)).fit(X, y)
        for n in (30, model.n_iter_)
    )
    np.testing.assert_array_equal(model.predict(X), short.predict(X))
    np.testing.assert_array_equal(
        model.set_params(n_estimators=30, warm_start=True).fit(X, y).predict(X), whole.predict(X)
    )


def test_ctrl_c_while_another_chain_is_waited_for(monkeypatch):
    """What a thread does after that is no part of the model that is kept."""
    labels = np.digitize(y, [0.0, 1.0, 2.0])
    main, entered, grow_tree = threading.current_thread(), threading.Event(), booster_module.Booster._grow_tree

    def slow(self, lane, tops, bag, output, iteration, progress):
        helper = threading.current_thread() is not main
        if iteration == 5 and not helper:
            # on a busy machine main may have grown all chains before a helper wakes up
            entered.wait(10)
        if iteration == 5 and helper and not entered.is_set():
            entered.set()
            time.sleep(0.3)
            signal.pthread_kill(main.ident, signal.SIGINT)
            time.sleep(0.3)
        return grow_tree(self, lane, tops, bag, output, iteration, progress)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(booster_module.Booster, "_grow_tree", slow)
            # validation rows: main waits for the others in every iteration
            with pytest.warns(InterruptedWarning, match="after 5 iterations"):
                kept = UnbiasedGBMClassifier(n_jobs=2, n_estimators=9, early_stopping=False).fit(
                    X, labels, X_val=X[:50], y_val=labels[:50]
                )
            time.sleep(0.5)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [memory.n_trees for memory in kept._model.progress.memories] == [5] * 12
    whole = UnbiasedGBMClassifier(n_jobs=1, n_estimators=9).fit(X, labels)
    more = UnbiasedGBMClassifier(n_jobs=2, n_estimators=9).fit(X, labels, init_model=kept)
    np.testing.assert_array_equal(more.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("change", ["weights", "rule"])
def test_what_is_measured_once_is_measured_by_the_first_chain(change):
    """A model that goes on has chains that differ, of which any could come first."""
    labels = np.digitize(y, [1.0])
    rule = "merged" if change == "rule" else "evidence"
    before = UnbiasedGBMClassifier(n_estimators=15, n_bags=3, n_jobs=1, split_rule=rule).fit(X, labels)
    weight = np.arange(500) % 5 + 0.5 if change == "weights" else None
    found = set()
    for n_jobs in (1, 2, 2, 3, 3):
        model = UnbiasedGBMClassifier(n_estimators=18, n_bags=3, n_jobs=n_jobs)
        model.fit(X, labels, sample_weight=weight, init_model=before)
        progress = model._model.progress
        found.add((progress.start_dispersion if weight is not None else 0.0, *progress.start_squares))
    assert len(found) == 1


def test_trees_are_taken_back_together(monkeypatch):
    """Also where so many are pending that they become part of the model."""
    monkeypatch.setattr(harvest, "_HEAP_BYTES", 1)
    with monkeypatch.context() as patch:
        patch.setattr(loop._Done, "now", staged_interrupt(loop._Done.now.__func__, 4))
        with pytest.warns(InterruptedWarning):
            kept = UnbiasedGBMRegressor(n_jobs=2, linear_start=False).fit(X, y)
    assert kept.ensemble_.n_trees == 3 * kept.n_iter_
    short = UnbiasedGBMRegressor(n_jobs=1, n_estimators=kept.n_iter_, linear_start=False).fit(X, y)
    np.testing.assert_array_equal(kept.predict(X), short.predict(X))


def staged_interrupt(original, at):
    calls = iter(range(1, 1000))

    @classmethod
    def now(cls, *arguments):
        if next(calls) == at:
            raise KeyboardInterrupt
        return original(cls, *arguments)

    return now
