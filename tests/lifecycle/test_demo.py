"""The demo and the warm-up run; what the demo claims is checked by the study, not here."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
from rich.console import Console

from unbiasedgbm import demo


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_TOY_REPEATS", 3)
    monkeypatch.setattr(demo, "_SPLITS", 1)
    output = io.StringIO()
    demo.run(Console(file=output, width=120), tmp_path / "page.html", seed=0)
    text = output.getvalue()
    for words in (
        "The paper's example",
        "weak signal",
        "are noise. By unbiased gain",
        "UnbiasedGBM",
        str(tmp_path / "page.html"),
    ):
        assert words in text
    assert (tmp_path / "page.html").stat().st_size > 50_000


def test_demo_without_lightgbm(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_TOY_REPEATS", 2)
    monkeypatch.setattr(demo, "_SPLITS", 1)
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    output = io.StringIO()
    demo.run(Console(file=output, width=120), tmp_path / "page.html", seed=0)
    assert "HistGradientBoosting" in output.getvalue()


def test_the_paper_s_example_is_as_described():
    X, y = demo.toy_sample(20_000, np.random.default_rng(0))
    assert sorted(X["X2"].cat.categories) == list("abcdef")
    assert set(X["X1"]) == {0, 1}
    effect = y[X["X1"] == 1].mean() - y[X["X1"] == 0].mean()
    assert abs(effect - 0.1) < 4 * 2 / np.sqrt(20_000)


SCRIPT = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, warmup
from unbiasedgbm.importance import unbiased_gain

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("unbiasedgbm")]
    kernels = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
    return {(kernel.__module__, kernel.__name__, str(s)) for kernel in kernels for s in kernel.signatures}

warmup()
before = compiled()
X = np.random.default_rng(0).normal(size=(9000, 4))
X[:, 3] = np.arange(9000) % 300
for n_jobs in (1, 2):
    for kind, y in ((UnbiasedGBMRegressor, X[:, 0]), (UnbiasedGBMClassifier, np.digitize(X[:, 0], [-1, 1]))):
        for rule in ("evidence", "merged", "standard"):
            for categories in ([3], None):
                model = kind(n_estimators=2, split_rule=rule, categorical_features=categories, n_jobs=n_jobs)
                model.fit(X, y, np.ones(9000), X_val=X, y_val=y).predict(X)
                model.predict(X[:1])
                model.apply(X)
unbiased_gain(model, X, y, X, y)
print(sorted(compiled() - before))
"""


def test_warmup_compiles_what_later_calls_need():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
