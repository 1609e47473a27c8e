"""Callbacks: the protocol, limits, progress, tuning."""

from __future__ import annotations

import io
import logging
import time

import numpy as np
import optuna
import pytest
from rich.console import Console

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, suggest_params
from unbiasedgbm.callbacks import (
    BaseCallback,
    EarlyStopping,
    LogProgress,
    MemoryLimit,
    OptunaPruning,
    ProgressBar,
    TimeLimit,
)
from unbiasedgbm.memory import resident_bytes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X[:, 0] + 0.3 * RNG.normal(size=400)
VAL = {"X_val": X[:100], "y_val": Y[:100]}


def fit(*callbacks, n_estimators=20, **named):
    return UnbiasedGBMRegressor(n_estimators=n_estimators, n_jobs=1, min_split_gain=-np.inf).fit(
        X, Y, callbacks=callbacks, **named
    )


class Record(BaseCallback):
    def __init__(self):
        self.calls = []

    def begin(self, state):
        self.calls.append("begin")

    def before_iteration(self, state):
        self.calls.append(("before", state.iteration))

    def after_iteration(self, state):
        self.calls.append(("after", state.iteration))

    def end(self, state):
        self.calls.append("end")


def test_when_callbacks_are_called():
    record = Record()
    fit(record, n_estimators=2)
    assert record.calls == ["begin", ("before", 0), ("after", 1), ("before", 1), ("after", 2), "end"]


def test_end_is_called_when_training_fails():
    class Fail(BaseCallback):
        def after_iteration(self, state):
            raise RuntimeError("no")

    record = Record()
    with pytest.raises(RuntimeError, match="no"):
        fit(record, Fail())
    assert record.calls[-1] == "end"


def test_two_methods_are_enough_and_either_may_stop():
    class Plain:
        def __init__(self, when):
            self.when = when

        def before_iteration(self, state):
            return self.when == "before" and state.iteration == 3

        def after_iteration(self, state):
            return self.when == "after" and state.iteration == 3

    assert fit(Plain("before")).n_iter_ == 3
    assert fit(Plain("after")).n_iter_ == 3


class _LightGBMStyle:
    before_iteration = False
    order = 10

    def __call__(self, env):
        pass


@pytest.mark.parametrize(
    "callbacks",
    [
        [lambda state: None],
        [object()],
        [None],
        [EarlyStopping],
        [_LightGBMStyle()],
        [BaseCallback(), 3],
        BaseCallback(),
    ],
)
def test_what_is_no_callback_is_refused(callbacks):
    with pytest.raises(TypeError, match=r"^callbacks"):
        UnbiasedGBMRegressor(n_estimators=2, n_jobs=1).fit(X, Y, callbacks=callbacks)


def test_one_method_is_enough_and_any_sequence_will_do():
    class Stop:
        def after_iteration(self, state):
            return state.iteration == 2

    model = UnbiasedGBMRegressor(n_estimators=9, n_jobs=1)
    for callbacks in ((Stop(),), iter([Stop()])):
        assert model.fit(X, Y, callbacks=callbacks).n_iter_ == 2


def test_the_model_so_far_is_a_fitted_estimator_of_its_own():
    class Keep(BaseCallback):
        def after_iteration(self, state):
            if state.iteration == 4:
                self.model = state.model()

    keep = Keep()
    whole = fit(keep, **VAL)
    assert keep.model.n_iter_ == 4
    assert len(keep.model.history_["validation"]["loss"]) == 4
    np.testing.assert_array_equal(keep.model.predict(X), whole.predict(X, n_iterations=4))
    np.testing.assert_array_equal(keep.model.feature_importances_, fit(n_estimators=4).feature_importances_)


def test_time_limit_holds_and_starts_anew():
    class Slow(BaseCallback):
        def before_iteration(self, state):
            time.sleep(0.05)

    limit = TimeLimit(0.4)
    for _ in range(2):
        start = time.monotonic()
        model = fit(Slow(), limit, n_estimators=500)
        assert 2 <= model.n_iter_ <= 8
        assert time.monotonic() - start < 2.0
    with pytest.raises(ValueError, match="seconds"):
        TimeLimit(0)


def test_memory_limit(monkeypatch):
    assert fit(MemoryLimit(resident_bytes() + (1 << 30))).n_iter_ == 20
    assert fit(MemoryLimit(1 << 20)).n_iter_ == 0
    used = iter([100, 100, 300])
    monkeypatch.setattr("unbiasedgbm.callbacks.limits.resident_bytes", lambda: next(used))
    assert fit(MemoryLimit(200)).n_iter_ == 2


def test_resident_bytes_sees_an_allocation():
    before = resident_bytes()
    # more than an allocator ever keeps for later
    block = np.ones(100 << 17)
    assert resident_bytes() - before > 0.8 * block.nbytes


def test_early_stopping_as_a_callback_can_be_used_again():
    stopper = EarlyStopping(n_iter_no_change=3, tol=1e9)
    assert fit(stopper, **VAL).n_iter_ == 4
    assert fit(stopper, **VAL).n_iter_ == 4
    with pytest.raises(ValueError, match="X_val"):
        fit(stopper)


@pytest.mark.parametrize("first", [(), (LogProgress(),)])
def test_early_stopping_as_a_callback_is_that_of_the_estimator(first):
    rng = np.random.default_rng(1)
    rows = {"X_val": X[:100], "y_val": rng.permutation(Y[:100])}
    options = {"n_estimators": 40, "n_jobs": 1, "min_split_gain": -np.inf}
    own = UnbiasedGBMRegressor(early_stopping=True, n_iter_no_change=7, **options).fit(X[100:], Y[100:], **rows)
    assert own.best_iteration_ < own.n_iter_ < 40
    stop = EarlyStopping(n_iter_no_change=7)
    model = UnbiasedGBMRegressor(early_stopping=False, **options)
    model.fit(X[100:], Y[100:], **rows, callbacks=[*first, stop])
    assert (model.n_iter_, model.best_iteration_) == (own.n_iter_, own.best_iteration_)
    assert model.best_iteration_ == stop.best_iteration
    np.testing.assert_array_equal(model.predict(X), own.predict(X))


def test_log(caplog):
    with caplog.at_level(logging.INFO, "unbiasedgbm"):
        fit(LogProgress(every=8), **VAL)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in lines] == [f"iteration {k} of 20" for k in (8, 16, 20)]
    assert "validation loss" in lines[0]


def test_bar_draws_on_a_terminal_only(monkeypatch):
    # one that can move its cursor
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, pipe = io.StringIO(), io.StringIO()
    fit(ProgressBar(Console(file=terminal, force_terminal=True, width=100)), **VAL)
    assert "20/20" in terminal.getvalue()
    assert "validation loss" in terminal.getvalue()
    fit(ProgressBar(Console(file=pipe, force_terminal=False)), **VAL)
    assert pipe.getvalue() == ""


def test_bar_is_taken_away_when_training_fails():
    class Fail(BaseCallback):
        def after_iteration(self, state):
            raise RuntimeError("no")

    console = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(RuntimeError, match="no"):
        fit(ProgressBar(console), Fail())
    # a second live display would raise if the first were still there
    with console.status("free"):
        pass


# -- Optuna ----------------------------------------------------------------------------------------------------------


def test_pruning_ends_hopeless_trials():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", pruner=optuna.pruners.MedianPruner(1, 3))

    def objective(trial):
        rate = 0.2 if trial.number == 0 else 1e-4
        model = UnbiasedGBMRegressor(n_estimators=15, learning_rate=rate, n_jobs=1)
        model.fit(X, Y, **VAL, callbacks=[OptunaPruning(trial)])
        return model.history_["validation"]["loss"][-1]

    study.optimize(objective, n_trials=2)
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "PRUNED"]
    assert len(study.trials[0].intermediate_values) == 15


def test_pruning_needs_a_study_of_the_right_direction():
    trial = optuna.create_study(direction="minimize").ask()
    model = UnbiasedGBMClassifier(n_estimators=3, scoring=["loss", "roc_auc"], n_jobs=1)
    rows = {"X_val": X[:100], "y_val": Y[:100] > 0}
    with pytest.raises(ValueError, match="direction='maximize'"):
        model.fit(X, Y > 0, **rows, callbacks=[OptunaPruning(trial, "roc_auc")])
    model.fit(X, Y > 0, **rows, callbacks=[OptunaPruning(trial)])
    with pytest.raises(ValueError, match="X_val"):
        model.fit(X, Y > 0, callbacks=[OptunaPruning(trial)])


@pytest.mark.parametrize(("size", "most"), [("small", 3000), ("medium", 6000)])
def test_the_search_space_is_the_paper_s(size, most):
    trial = optuna.create_study().ask()
    params = suggest_params(trial, size)
    UnbiasedGBMRegressor(**{**params, "n_estimators": 2}).fit(X, Y)
    found = {name: (d.low, d.high, getattr(d, "log", False)) for name, d in trial.distributions.items()}
    assert found == {
        "n_estimators": (200, most, True),
        "learning_rate": (0.005, 0.05, True),
        "min_samples_leaf": (2, 20, True),
        "min_split_gain": (-0.1, 0.1, False),
    }
    with pytest.raises(ValueError, match="size"):
        suggest_params(trial, "huge")
