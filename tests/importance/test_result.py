from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from unbiasedgbm.importance import Importance
from unbiasedgbm.importance.result import SMALLEST_P, benjamini_hochberg, effective_df

mpl.use("Agg")


def example(**options: Any) -> Importance:
    return Importance(
        method="unbiased gain",
        feature_names=("small", "unused", "large", "harmful"),
        importance=np.array([0.1, 0.0, 5.0, -0.4]),
        se=np.array([0.1, 0.0, 0.05, 0.2]),
        n_splits=np.array([3, 0, 10, 4]),
        **options,
    )


def test_scores_and_tests() -> None:
    result = example()
    np.testing.assert_allclose(result.z, [1.0, 0.0, 100.0, -2.0])
    np.testing.assert_allclose(result.p_value, [stats.norm.sf(1.0), 1.0, SMALLEST_P, stats.norm.sf(-2.0)])
    assert (result.p_value > 0.0).all()
    np.testing.assert_allclose(result.p_adjusted, stats.false_discovery_control(result.p_value))
    np.testing.assert_allclose(result.ci_high - result.ci_low, 2 * 1.959964 * result.se, rtol=1e-6)
    np.testing.assert_allclose(example(level=0.5).ci_high[0], 0.1 + 0.1 * stats.norm.isf(0.25))
    # By the lower end of the interval; what is not split comes last.
    np.testing.assert_array_equal(result.ranking(), [2, 0, 3, 1])
    uncertain = replace(result, se=np.array([0.1, 0.0, 5.0, 0.2]))
    np.testing.assert_array_equal(uncertain.ranking(), [0, 3, 2, 1])
    np.testing.assert_array_equal(example(tested=False).ranking(), [2, 0, 1, 3])
    assert result.importances_mean is result.importance
    assert result.importances_std is result.se


def test_few_degrees_of_freedom_widen() -> None:
    few = example(df=np.array([4.0, np.inf, 4.0, 1.0]))
    np.testing.assert_allclose(few.p_value[[0, 3]], [stats.t.sf(1.0, 4), stats.t.sf(-2.0, 1)])
    np.testing.assert_allclose(few.ci_high[0], 0.1 + 0.1 * stats.t.isf(0.025, 4))
    many = example(df=np.full(4, np.inf))
    np.testing.assert_allclose(many.p_value, example().p_value)


def test_effective_degrees_of_freedom() -> None:
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(3000, 3))
    psi[5:, 1] = 0.0
    psi[:, 2] = 0.0
    df = effective_df(psi)
    assert df[0] == pytest.approx(2000, rel=0.1)
    assert 1.0 <= df[1] < 10.0
    assert df[2] == np.inf


def test_no_spread_at_all() -> None:
    certain = Importance("x", ("a", "b"), np.array([1.0, -1.0]), np.zeros(2), np.array([1, 1]))
    np.testing.assert_array_equal(certain.z, [np.inf, -np.inf])
    np.testing.assert_array_equal(certain.p_value, [SMALLEST_P, 1.0])


def test_untested_methods_have_no_p_values() -> None:
    result = example(tested=False)
    assert np.isnan(result.z).all()
    assert np.isnan(result.p_value).all()
    assert np.isnan(result.p_adjusted).all()


def test_benjamini_hochberg_ignores_what_is_missing() -> None:
    p = np.array([0.01, np.nan, 0.04, 0.03])
    adjusted = benjamini_hochberg(p)
    assert np.isnan(adjusted[1])
    np.testing.assert_allclose(adjusted[[0, 2, 3]], stats.false_discovery_control([0.01, 0.04, 0.03]))


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend: str) -> None:
    frame = example().to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    columns = list(frame.column_names if backend == "pyarrow" else frame.columns)
    assert columns == [
        "feature", "importance", "se", "z", "p_value", "ci_low", "ci_high", "n_splits", "p_adjusted"
    ]  # fmt: skip
    assert [str(name) for name in frame["feature"]] == ["large", "small", "harmful", "unused"]


def test_a_missing_frame_library_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="pip install modin"):
        example().to_frame("modin")


def test_plot() -> None:
    ax = example().plot(max_features=3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["large", "small", "harmful"]
    widths = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in ax.patches}
    assert widths == {0: 5.0, 1: 0.1, 2: -0.4}
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["adjusted p ≤ 0.05", "not significant", "95% interval"]
    assert any(np.ptp(line.get_xdata()) == 0.0 and line.get_xdata()[0] == 0.0 for line in ax.lines)
    # Whiskers are the confidence intervals.
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[0][:, 0], [example().ci_low[2], example().ci_high[2]])
    assert example(tested=False).plot(ax) is ax


def test_plot_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"unbiasedgbm\[plot\]"):
        example().plot()


def test_text() -> None:
    lines = repr(example()).splitlines()
    assert lines[0] == "unbiased gain: 4 features"
    assert lines[1].split() == ["feature", "importance", "±", "95%", "z", "p", "(adjusted)"]
    assert [line.split()[0] for line in lines[2:]] == ["large", "small", "harmful", "unused"]
    assert lines[3].split() == ["small", "0.1", "0.2", "1.00", f"{example().p_adjusted[0]:.2g}"]
    assert lines[5].endswith("no split")
    # Columns are aligned, and names are never cut.
    assert len({len(line) for line in lines[1:]}) == 1
    long = replace(example(), feature_names=("a_column_with_a_very_long_name_indeed", *example().feature_names[1:]))
    assert "a_column_with_a_very_long_name_indeed " in repr(long)
    many = Importance("x", tuple(map(str, range(40))), np.arange(40.0), np.ones(40), np.ones(40, np.int64))
    assert repr(many).endswith("and 30 more: to_frame() has all")
    assert "p (adjusted)" not in repr(example(tested=False))


def test_notebooks_show_a_table() -> None:
    odd = replace(example(), feature_names=("<b>", "unused", "large", "harmful"))
    page = odd._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>unbiased gain: 4 features</b>" in page
    assert page.count("<tr>") == 5


def test_one_feature() -> None:
    result = example()
    large = result["large"]
    assert large == result[2]
    assert (large.feature, large.importance, large.se, large.n_splits) == ("large", 5.0, 0.05, 10)
    assert large.p_adjusted == result.p_adjusted[2]
    assert [one.feature for one in result] == list(result.feature_names)
    assert len(result) == 4
    assert repr(large.importance) == "5.0"
    with pytest.raises(KeyError, match="no feature 'larg'; did you mean 'large'"):
        result["larg"]
    with pytest.raises(IndexError):
        result[4]


def test_significant_features() -> None:
    assert example().significant() == ("large",)
    assert example().significant(0.5) == ("large", "small")
    with pytest.raises(ValueError, match="no p-values"):
        example(tested=False).significant()
