"""The report: its content is right, and a real browser shows it."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from lifecycle.browser import Browser, chromium_is_here
from lifecycle.samples import mixed_table, target
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, write_report
from unbiasedgbm.importance import gain_importance, unbiased_gain
from unbiasedgbm.report.importances import verdict

NASTY = '<script>alert("x")</script>'


def content_of(path):
    page = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', page, re.S).group(1)), page


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Pages of a regressor, a binary and a multiclass classifier, with noise columns and a hostile name."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    table = mixed_table(700).rename(columns={'say "x"\\n': NASTY})
    y = target(mixed_table(700))
    for k in range(24):
        table[f"noise {k}"] = rng.normal(size=700)
    made = {}
    for name, labels in {
        "regression": y,
        "binary": np.where(y > 0.8, "ja", "nein"),
        "multiclass": np.digitize(y, [0.3, 1.2]),
    }.items():
        kind = UnbiasedGBMRegressor if name == "regression" else UnbiasedGBMClassifier
        model = kind(n_estimators=25, num_leaves=8, n_jobs=1).fit(table[:400], labels[:400])
        rows = table[:400], labels[:400], table[400:], labels[400:]
        path = folder / f"{name}.html"
        write_report(model, path, *rows, title=f"Test of {name} {NASTY}", n_jobs=1)
        made[name] = path, model, rows
    return made


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_numbers_are_those_of_the_model(reports, kind):
    path, model, rows = reports[kind]
    content, page = content_of(path)
    importance = unbiased_gain(model, *rows, n_jobs=1)
    gain = gain_importance(model, *rows[:2], n_jobs=1)
    shown = {f["name"]: f for f in content["importance"]["features"]}
    for j, name in enumerate(importance.feature_names):
        assert shown[name]["value"] == pytest.approx(importance.importance[j])
        assert shown[name]["gain"] == pytest.approx(gain.importance[j])
    assert [f["rank"] for f in content["importance"]["features"]] == list(range(1, 29))
    scores = {score["name"]: score for score in content["scores"]}
    if kind == "regression":
        assert scores["R²"]["val"] == pytest.approx(model.score(*rows[2:]))
    else:
        assert scores["Accuracy"]["val"] == pytest.approx(model.score(*rows[2:]))
    loss, table = model._make_loss(), model._model.read(rows[2], "")
    whole = np.asarray(model._raw(rows[2], None))
    assert content["curves"]["val"][-1] == pytest.approx(loss.mean(model._encode(np.asarray(rows[3]), "y"), whole))
    assert table.n_rows == content["table"]["n_val"]
    assert NASTY not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_effects_are_partial_dependence(reports):
    path, model, rows = reports["regression"]
    content, _ = content_of(path)
    effect = next(e for e in content["effects"] if e["name"] == "größe")
    k = len(effect["x"]) // 2
    table = rows[0].iloc[np.sort(np.random.default_rng(0).choice(400, 200, replace=False))]
    by_hand = model.predict(table.assign(**{"größe": effect["x"][k]})).mean()
    assert effect["curves"][0]["mean"][k] == pytest.approx(by_hand)
    missing = model.predict(table.assign(**{"größe": np.nan})).mean()
    assert effect["curves"][0]["mean"][-1] == pytest.approx(missing)
    levels = next(e for e in content["effects"] if e["name"] == "色")
    by_hand = model.predict(table.assign(**{"色": pd.Categorical(["c"] * 200, categories=list("abcdefgh"))})).mean()
    assert levels["curves"][0]["mean"][levels["x"].index("c")] == pytest.approx(by_hand)


def test_a_model_without_trees_has_a_page(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = UnbiasedGBMRegressor(n_estimators=1, min_split_gain=np.inf, linear_start=False).fit(X, X[:, 0])
    write_report(model, tmp_path / "r.html", X, X[:, 0], X, X[:, 0])
    content, _ = content_of(tmp_path / "r.html")
    assert {f["verdict"] for f in content["importance"]["features"]} == {"unused"}


def test_verdicts():
    assert verdict(0.01, 3) == "helps"
    assert verdict(0.2, 3) == "unclear"
    assert verdict(0.01, 0) == "unused"


# -- in a browser ----------------------------------------------------------------------------------------------------

in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not chromium_is_here(), reason="needs Chromium and chromedriver, which are not installed"),
]


def browser_test(function):
    for mark in in_browser:
        function = mark(function)
    return function


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


NAMES = "return [...document.querySelectorAll('#importance-table tbody .name')].map(cell => cell.textContent)"
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"
CLICK = "document.querySelector(arguments[0]).click()"


@browser_test
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_the_page_opens_without_errors_or_requests(browser, reports, kind):
    path, _, _ = reports[kind]
    browser.resize(1200, 900)
    browser.requests()
    browser.open(path)
    assert browser.run("return document.documentElement.dataset.ready") == "yes"
    assert browser.console() == []
    assert [address for address in browser.requests() if not address.startswith(("file:", "data:"))] == []
    assert browser.run("return document.title") == f"Test of {kind} {NASTY}"
    assert browser.run("return document.querySelectorAll('#plots svg').length") == 6
    assert browser.run("return document.querySelectorAll('#curve path').length") == 2
    assert browser.run("return document.querySelectorAll('.tree li').length") > 2
    text = browser.run("return document.body.innerText")
    assert "NaN" not in text
    assert "undefined" not in text


@browser_test
def test_sorting_filtering_and_showing_all(browser, reports):
    path, _, _ = reports["binary"]
    content, _ = content_of(path)
    features = content["importance"]["features"]
    browser.open(path)
    assert browser.run(NAMES) == [f["name"] for f in features[:20]]
    browser.run(CLICK, "#all")
    browser.run(CLICK, "th[data-key=gain] button")
    assert browser.run(NAMES) == [f["name"] for f in sorted(features, key=lambda f: (-f["gain"], -f["rank"]))]
    assert browser.run("return document.querySelector('th[data-key=gain]').ariaSort") == "descending"
    browser.run(CLICK, "th[data-key=gain] button")
    assert browser.run(NAMES)[-1] == max(features, key=lambda f: f["gain"])["name"]
    browser.run("const f = document.getElementById('filter'); f.value = 'noise 1'; f.dispatchEvent(new Event('input'))")
    assert set(browser.run(NAMES)) == {f["name"] for f in features if "noise 1" in f["name"]}
    assert browser.console() == []


@browser_test
def test_themes(browser, reports):
    path, _, _ = reports["binary"]
    seen = {}
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(path)
        seen[scheme] = browser.run(BACKGROUND)
        browser.run(CLICK, "#theme")
        seen[f"{scheme}, switched"] = browser.run(BACKGROUND)
    browser.prefer("light")
    assert seen["light"] == seen["dark, switched"] == "rgb(246, 246, 243)"
    assert seen["dark"] == seen["light, switched"] == "rgb(18, 21, 26)"


@browser_test
def test_paper_is_white_in_every_theme(browser, reports):
    path, _, _ = reports["binary"]
    dark = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.command("Emulation.setEmulatedMedia", dark)
    browser.open(path)
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    browser.run("document.documentElement.dataset.theme = 'dark'")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.command("Emulation.setEmulatedMedia", {"media": "", "features": []})


@browser_test
def test_trees_classes_and_curve_answer(browser, reports):
    path, model, _ = reports["multiclass"]
    browser.open(path)
    before = browser.run("return document.getElementById('tree').innerText")
    browser.run(CLICK, "#next")
    assert browser.run("return document.getElementById('tree-number').value") == "2"
    assert browser.run("return document.getElementById('tree').innerText") != before
    assert "class “1”" in browser.run("return document.getElementById('tree-words').textContent")
    browser.run(CLICK, "#open-all")
    assert browser.run("return [...document.querySelectorAll('#tree details')].every(part => part.open)")
    before = browser.run("return document.querySelector('#plots').innerHTML")
    browser.run("const s = document.getElementById('output'); s.value = 2; s.dispatchEvent(new Event('change'))")
    assert browser.run("return document.querySelector('#plots').innerHTML") != before
    assert browser.run("return document.querySelectorAll('#output option').length") == len(model.classes_)
    browser.run(
        "const s = document.querySelector('#curve svg');"
        "s.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))"
    )
    assert "held-out" in browser.run("return [...document.querySelectorAll('#curve text.ink')].pop().textContent")
    assert browser.console() == []


@browser_test
@pytest.mark.parametrize("kind", ["regression", "multiclass"])
def test_a_phone_does_not_scroll_sideways(browser, reports, kind):
    path, _, _ = reports[kind]
    browser.resize(360, 740)
    browser.open(path)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    browser.resize(1200, 900)


@browser_test
def test_everything_has_a_name_for_those_who_do_not_see_it(browser, reports):
    path, _, _ = reports["multiclass"]
    browser.open(path)
    nameless = browser.run(
        "return [...document.querySelectorAll('button, input, select, svg[role=img], a')].filter(e =>"
        "!(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length))).length"
    )
    assert nameless == 0
    # text against its background, light and dark: at least 4.5 to 1
    for theme in ("light", "dark"):
        browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
        colours = browser.run(
            "const s = getComputedStyle(document.documentElement);"
            "const names = ['--card', '--bg', '--ink', '--soft', '--main', '--harm', '--good'];"
            "return names.map(name => s.getPropertyValue(name).trim())"
        )
        for ink in colours[2:]:
            for paper in colours[:2]:
                assert _contrast(ink, paper) >= 4.5, (theme, ink, paper)


def _contrast(a, b):
    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)
