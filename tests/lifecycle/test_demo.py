"""The demo and the warm-up run; what the demo claims is checked by the study, not here."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from unbiasedgbm import demo, warmup


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_TOY_REPEATS", 3)
    monkeypatch.setattr(demo, "_SPLITS", 1)
    output = io.StringIO()
    demo.run(Console(file=output, width=120), tmp_path / "page.html", seed=0)
    text = output.getvalue()
    for words in ("The paper's example", "weak signal", "of 10 are noise", "UnbiasedGBM", str(tmp_path / "page.html")):
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


def test_warmup_compiles_what_a_fit_needs():
    from unbiasedgbm import UnbiasedGBMClassifier
    from unbiasedgbm.ensemble import predict
    from unbiasedgbm.training import grower

    warmup()
    before = len(grower.grow.signatures), len(predict._walk_rows.signatures)
    X = np.random.default_rng(0).normal(size=(300, 4))
    UnbiasedGBMClassifier(n_estimators=2).fit(X, X[:, 0] > 0).predict(X)
    assert (len(grower.grow.signatures), len(predict._walk_rows.signatures)) == before
