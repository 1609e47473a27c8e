"""Trainings that are stopped, killed or interrupted, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lifecycle.samples import mixed_table, target
from lifecycle.test_files import assert_equal_models
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.callbacks import BaseCallback, Checkpoint
from unbiasedgbm.exceptions import CheckpointError, InterruptedWarning

TABLE = mixed_table(500)
Y = target(TABLE)
CASES = {
    "regression": (UnbiasedGBMRegressor, Y, {}),
    "renewed leaves": (UnbiasedGBMRegressor, Y, {"loss": "absolute_error"}),
    "huber": (UnbiasedGBMRegressor, Y, {"loss": "huber"}),
    "multiclass": (UnbiasedGBMClassifier, np.digitize(Y, [0.3, 1.2]), {}),
    "weighted classes": (UnbiasedGBMClassifier, np.where(Y > 0.8, "ja", "nein"), {"class_weight": "balanced"}),
    "drawn rows": (UnbiasedGBMRegressor, Y, {"subsample": 0.7}),
    "drawn columns": (UnbiasedGBMRegressor, Y, {"colsample_bytree": 0.5, "colsample_bynode": 0.7}),
    "paper's rule": (UnbiasedGBMRegressor, Y, {"split_rule": "separate", "role_draw": "node"}),
    "early stopping": (UnbiasedGBMRegressor, Y, {"early_stopping": True, "n_iter_no_change": 6, "learning_rate": 0.3}),
    "random seed": (UnbiasedGBMRegressor, Y, {"random_state": None}),
}  # fmt: skip


class StopAfter(BaseCallback):
    """Fails in the middle of an iteration's end, as a crash would."""

    def __init__(self, iteration):
        self.iteration = iteration

    def after_iteration(self, state):
        if state.iteration == self.iteration:
            raise RuntimeError("killed")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("crash", [7, 10])
def test_resuming_ends_with_the_same_bits(case, crash, tmp_path):
    kind, y, params = CASES[case]
    params = {"n_estimators": 30, "num_leaves": 8, "n_jobs": 1, **params}
    path = tmp_path / "checkpoint.json"
    with pytest.raises(RuntimeError, match="killed"):
        kind(**params).fit(TABLE, y, callbacks=[Checkpoint(path, every=5), StopAfter(crash)])
    assert load_model(path).n_iter_ == crash // 5 * 5
    resumed = kind(**params).fit(TABLE, y, callbacks=[Checkpoint(path, every=5)])
    if case == "random seed":
        params["random_state"] = resumed._model.seed
    whole = kind(**params).fit(TABLE, y)
    assert_equal_models(whole, resumed, TABLE)


def test_resuming_with_validation_rows_stops_at_the_same_place(tmp_path):
    params = {"n_estimators": 200, "learning_rate": 0.5, "n_iter_no_change": 5, "num_leaves": 8, "n_jobs": 1}
    rows = {"X_val": TABLE[:150], "y_val": Y[:150]}
    train, y = TABLE[150:], Y[150:]
    whole = UnbiasedGBMRegressor(**params).fit(train, y, **rows)
    assert whole.n_iter_ < 200
    for every in (3, whole.n_iter_):
        path = tmp_path / f"{every}.json"
        UnbiasedGBMRegressor(**params).fit(train, y, **rows, callbacks=[Checkpoint(path, every)])
        # the training is over, and a fit that finds its last checkpoint ends where it ended
        again = UnbiasedGBMRegressor(**params).fit(train, y, **rows, callbacks=[Checkpoint(path, every)])
        assert_equal_models(whole, again, TABLE)


def test_resuming_keeps_the_model_that_training_began_with(tmp_path):
    params = {"num_leaves": 8, "n_jobs": 1}
    start = UnbiasedGBMRegressor(n_estimators=5, **params).fit(TABLE, Y)
    other = UnbiasedGBMRegressor(n_estimators=6, **params).fit(TABLE, Y)
    path = tmp_path / "c.json"
    whole = UnbiasedGBMRegressor(n_estimators=20, **params).fit(TABLE, Y, init_model=start)
    callbacks = [Checkpoint(path, every=4), StopAfter(13)]
    with pytest.raises(RuntimeError, match="killed"):
        UnbiasedGBMRegressor(n_estimators=20, **params).fit(TABLE, Y, init_model=start, callbacks=callbacks)
    with pytest.raises(CheckpointError, match="another model"):
        UnbiasedGBMRegressor(n_estimators=20, **params).fit(
            TABLE, Y, init_model=other, callbacks=[Checkpoint(path, every=4)]
        )
    again = UnbiasedGBMRegressor(n_estimators=20, **params).fit(
        TABLE, Y, init_model=start, callbacks=[Checkpoint(path, every=4)]
    )
    assert_equal_models(whole, again, TABLE)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "c.json"
    UnbiasedGBMRegressor(n_estimators=5, n_jobs=1).fit(TABLE, Y, callbacks=[Checkpoint(path, every=5)])
    return Checkpoint(path, every=5)


def test_a_checkpoint_of_other_parameters_is_refused(checkpoint):
    with pytest.raises(CheckpointError, match=r"learning_rate=None.*learning_rate=0\.2.*Delete"):
        UnbiasedGBMRegressor(n_estimators=5, learning_rate=0.2).fit(TABLE, Y, callbacks=[checkpoint])
    with pytest.raises(CheckpointError, match="UnbiasedGBMRegressor, not of this UnbiasedGBMClassifier"):
        UnbiasedGBMClassifier(n_estimators=5).fit(TABLE, Y > 1, callbacks=[checkpoint])


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: ((X, y + (np.arange(len(y)) == 17)), {}),
        lambda X, y: ((X.assign(**{"größe": X["größe"].where(X.index != 3, 9.0)}), y), {}),
        lambda X, y: ((X, y, np.where(np.arange(len(y)) == 5, 2.0, 1.0)), {}),
        lambda X, y: ((X, y), {"X_val": X[:50], "y_val": y[:50]}),
        lambda X, y: ((X[:-1], y[:-1]), {}),
    ],
)
def test_a_checkpoint_of_other_rows_is_refused(checkpoint, change):
    arguments, named = change(TABLE, Y)
    with pytest.raises(CheckpointError, match="other rows"):
        UnbiasedGBMRegressor(n_estimators=5).fit(*arguments, **named, callbacks=[checkpoint])


def test_more_iterations_and_other_threads_may_go_on(checkpoint):
    more = UnbiasedGBMRegressor(n_estimators=9, n_jobs=2, verbose=0).fit(TABLE, Y, callbacks=[checkpoint])
    assert_equal_models(UnbiasedGBMRegressor(n_estimators=9).fit(TABLE, Y), more, TABLE)
    with pytest.raises(ValueError, match="n_estimators=3"):
        UnbiasedGBMRegressor(n_estimators=3).fit(TABLE, Y, callbacks=[checkpoint])


# -- real processes --------------------------------------------------------------------------------------------------

SCRIPT = """
import signal, sys, warnings
import numpy as np
from lifecycle.samples import mixed_table, target
from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.callbacks import BaseCallback, Checkpoint

class Say(BaseCallback):
    def after_iteration(self, state):
        print(state.iteration, flush=True)

# also where the tests run in the background of a shell, which ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)
X = mixed_table(3000)
y = np.digitize(target(X), [0.3, 1.2])
model = UnbiasedGBMClassifier(n_estimators=int(sys.argv[2]), n_jobs=1, min_split_gain=-np.inf)
warnings.simplefilter("always")
callbacks = [Say(), *(Checkpoint(path, every=3) for path in sys.argv[3:])]
model.fit(X, y, X_val=X[:100], y_val=y[:100], callbacks=callbacks)
model.save_model(sys.argv[1])
"""


def start(*arguments):
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def wait_for(process, iteration):
    for line in process.stdout:
        if line.strip() == str(iteration):
            return
    raise AssertionError(process.stderr.read())


def test_kill_9_and_resume(tmp_path):
    path, checkpoint = tmp_path / "model.json", tmp_path / "checkpoint.json"
    process = start(path, 15, checkpoint)
    wait_for(process, 7)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not path.exists()
    assert load_model(checkpoint).n_iter_ >= 6
    _, errors = start(path, 15, checkpoint).communicate()
    assert path.exists(), errors
    assert "going on from" in errors
    X = mixed_table(3000)
    y = np.digitize(target(X), [0.3, 1.2])
    whole = UnbiasedGBMClassifier(n_estimators=15, n_jobs=1, min_split_gain=-np.inf).fit(
        X, y, X_val=X[:100], y_val=y[:100]
    )
    assert_equal_models(whole, load_model(path), X)
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] in ([], os.listdir(tmp_path)[:0])


def test_two_processes_may_train_and_save_to_the_same_file(tmp_path):
    path = tmp_path / "model.json"
    processes = [start(path, 6), start(path, 6)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert os.listdir(tmp_path) == ["model.json"]
    assert load_model(path).n_iter_ == 6


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.013])
def test_ctrl_c_keeps_whole_iterations(pause, tmp_path):
    """The signal comes at some moment within an iteration; what is kept must go on as if it had never come."""
    path = tmp_path / "model.json"
    process = start(path, 2000)
    wait_for(process, 5)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "InterruptedWarning: Training was interrupted after" in errors
    kept = load_model(path)
    n = kept.n_iter_
    assert 5 <= n < 2000
    assert len(kept.history_["validation"]["loss"]) == n
    X = mixed_table(3000)
    y = np.digitize(target(X), [0.3, 1.2])
    rows = {"X_val": X[:100], "y_val": y[:100]}
    params = {"n_jobs": 1, "min_split_gain": -np.inf}
    exact = UnbiasedGBMClassifier(n_estimators=n, **params).fit(X, y, **rows)
    np.testing.assert_array_equal(exact.feature_importances_, kept.feature_importances_)
    np.testing.assert_array_equal(exact._model.ensemble.value, kept._model.ensemble.value)
    more = UnbiasedGBMClassifier(n_estimators=n + 3, **params)
    whole = UnbiasedGBMClassifier(n_estimators=n + 3, **params).fit(X, y)
    np.testing.assert_array_equal(more.fit(X, y, init_model=kept)._model.ensemble.value, whole._model.ensemble.value)


class InterruptIn(BaseCallback):
    """Ctrl-C at a certain step of a certain iteration."""

    def __init__(self, monkeypatch, where, iteration):
        from unbiasedgbm.training import loop
        from unbiasedgbm.training.booster import Booster

        owner, name = {"grow": (Booster, "_finish"), "end": (Booster, "run_ahead"), "record": (loop, "_record")}[where]
        original = getattr(owner, name)

        def interrupted(*arguments):
            answer = original(*arguments)
            if self.iteration == iteration:
                raise KeyboardInterrupt
            return answer

        self.iteration = 0
        monkeypatch.setattr(owner, name, interrupted)

    def before_iteration(self, state):
        self.iteration = state.iteration + 1


@pytest.mark.parametrize("where", ["grow", "end", "record"])
def test_an_interrupt_anywhere_forgets_the_iteration_under_way(where, monkeypatch):
    y = np.digitize(Y, [0.3, 1.2])
    rows = {"X_val": TABLE[:100], "y_val": y[:100]}
    exact = UnbiasedGBMClassifier(n_estimators=4, n_jobs=1).fit(TABLE, y, **rows)
    with monkeypatch.context() as patch, pytest.warns(InterruptedWarning, match="after 4 iterations"):
        kept = UnbiasedGBMClassifier(n_estimators=20, n_jobs=1).fit(
            TABLE, y, **rows, callbacks=[InterruptIn(patch, where, 5)]
        )
    assert_equal_models(exact, kept, TABLE)


def test_an_interrupt_before_the_first_iteration_ends_is_an_interrupt(monkeypatch):
    model = UnbiasedGBMRegressor(n_estimators=20, n_jobs=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        model.fit(TABLE, Y, callbacks=[InterruptIn(patch, "end", 1)])
    assert not hasattr(model, "_model")


@pytest.mark.filterwarnings("ignore::unbiasedgbm.exceptions.SmallTableWarning")
def test_a_warm_start_with_a_checkpoint_keeps_its_chains(tmp_path):
    """A table too small for the default rule has one chain, and what goes on from it, too."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    small = UnbiasedGBMRegressor(n_estimators=3, warm_start=True, n_jobs=1).fit(X[:12], y[:12])
    small.save_model(tmp_path / "small.json")
    fits = []
    for n_estimators in (5, 8):
        model = load_model(tmp_path / "small.json").set_params(n_estimators=n_estimators)
        fits.append(model.fit(X, y, callbacks=[Checkpoint(tmp_path / "checkpoint.json", every=1)]))
    whole = load_model(tmp_path / "small.json").set_params(n_estimators=8).fit(X, y)
    np.testing.assert_array_equal(fits[1].predict(X), whole.predict(X))
    assert (fits[0].n_iter_, fits[1].n_iter_) == (5, 8)
