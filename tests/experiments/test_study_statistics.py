"""The statistics against hand-computed examples, the paper's own numbers, and scipy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.reports.critical_difference import cliques
from experiments.statistics import (
    average_ranks,
    critical_difference,
    geometric_mean_ratio,
    nemenyi,
    normalise,
    ranks,
    wilcoxon_against,
)
from experiments.statistics.ranks import nemenyi_p
from scipy import stats


def random_scores(tables: int = 25, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal([0.0, 0.3, 0.6, 1.0], size=(tables, 4)), columns=list("abcd"))


def test_ranks_by_hand():
    scores = pd.DataFrame({"a": [0.9, 0.5], "b": [0.8, 0.7], "c": [0.8, 0.6]}, index=["t", "u"])
    expected = pd.DataFrame({"a": [1.0, 3.0], "b": [2.5, 1.0], "c": [2.5, 2.0]}, index=["t", "u"])
    pd.testing.assert_frame_equal(ranks(scores, greater_is_better=True), expected)
    assert average_ranks(scores, greater_is_better=False).to_dict() == {"a": 2.0, "b": 2.25, "c": 1.75}


def test_a_missing_score_cannot_be_ranked():
    scores = random_scores()
    scores.loc[3, "b"] = np.nan
    with pytest.raises(ValueError, match=r"\['b'\]"):
        ranks(scores, greater_is_better=True)


def test_nemenyi_gives_the_papers_p_values():
    # The paper's tables: average ranks and p-values to three digits.
    assert nemenyi_p(2.43 - 1.72, methods=4, tables=60) == pytest.approx(0.013, abs=0.001)
    assert nemenyi_p(2.85 - 1.72, methods=4, tables=60) < 0.001
    assert nemenyi_p(3.14 - 1.43, methods=4, tables=14) == pytest.approx(0.003, abs=0.001)
    assert nemenyi_p(2.71 - 1.43, methods=4, tables=14) == pytest.approx(0.042, abs=0.002)


def test_nemenyi_of_scikit_posthocs_is_the_formula():
    scores = random_scores()
    average = average_ranks(scores, greater_is_better=True)
    p = nemenyi(scores, greater_is_better=True)
    for one in "abcd":
        for other in set("abcd") - {one}:
            expected = nemenyi_p(average[one] - average[other], 4, len(scores))
            assert p.loc[one, other] == pytest.approx(expected, abs=1e-6)


def test_critical_difference_is_demsars():
    # Demšar (2006), section 3.2.2: four classifiers, 14 data sets, q = 2.569.
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert nemenyi_p(critical_difference(5, 30), 5, 30) == pytest.approx(0.05, abs=1e-6)


def test_cliques_are_the_longest_runs_within_the_critical_difference():
    average = pd.Series({"a": 1.0, "b": 1.8, "c": 2.2, "d": 4.0, "e": 4.5})
    assert cliques(average, 1.0) == [("a", "b"), ("b", "c"), ("d", "e")]
    assert cliques(average, 0.1) == []
    assert cliques(average, 9.0) == [("a", "e")]


def test_wilcoxon_by_hand():
    # Differences 1, 2, 3, −4, 5: ranks against are {4}; of 32 signings 7 have a rank sum of at most 4; two-sided 14/32.
    scores = pd.DataFrame({"ours": [1.0, 2, 3, -4, 5, 0], "rival": np.zeros(6)})
    line = wilcoxon_against(scores, "ours", greater_is_better=True).loc["rival"]
    assert (line.won, line.lost, line.tied) == (4, 1, 1)
    assert line.p == pytest.approx(14 / 32)


def test_wilcoxon_is_scipys_and_knows_which_way_is_better():
    scores = random_scores()
    greater = wilcoxon_against(scores, "d", greater_is_better=True)
    smaller = wilcoxon_against(scores, "d", greater_is_better=False)
    for rival in "abc":
        assert greater.loc[rival, "p"] == pytest.approx(stats.wilcoxon(scores["d"], scores[rival]).pvalue)
        assert greater.loc[rival, "won"] == smaller.loc[rival, "lost"] == (scores["d"] > scores[rival]).sum()
    assert wilcoxon_against(scores.assign(a=scores["d"]), "d", greater_is_better=True).loc["a", "p"] == 1.0


def test_geometric_mean_ratio_by_hand():
    errors = pd.DataFrame({"ours": [1.0, 8.0], "rival": [2.0, 4.0]})
    assert geometric_mean_ratio(errors, "rival").to_dict() == {"ours": pytest.approx(1.0), "rival": 1.0}
    assert geometric_mean_ratio(errors.iloc[:1], "rival")["ours"] == pytest.approx(0.5)


def test_normalised_scores_lie_between_the_worst_and_the_best_model():
    scores = pd.DataFrame({"a": [0.6, 0.9], "b": [0.8, 0.9]}, index=["t", "u"])
    worst, best = pd.Series({"t": 0.5, "u": 0.9}), pd.Series({"t": 0.9, "u": 0.9})
    result = normalise(scores, worst, best)
    assert result.loc["t"].to_list() == pytest.approx([0.25, 0.75])
    assert result.loc["u"].to_list() == [0.5, 0.5]
