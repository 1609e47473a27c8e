import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss
from workbench import ALL_RULES, booster, mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.exceptions import SmallTableWarning
from unbiasedgbm.training.roles import DEFAULT_RATIO, role_ends, role_shares, usable_rule


@pytest.mark.parametrize(
    ("rule", "ratio", "expected"),
    [
        ("evidence", None, [1 / 3, 2 / 3, 0]),
        ("merged", None, [1 / 3, 2 / 3, 0]),
        ("without_ub", None, [1 / 3, 2 / 3, 0]),
        ("separate", None, [1 / 3, 1 / 3, 1 / 3]),
        ("without_se", None, [2 / 3, 1 / 3, 0]),
        ("standard", None, [1, 0, 0]),
        ("separate", (4, 1, 1), [4 / 6, 1 / 6, 1 / 6]),
        ("merged", (1, 1), [1 / 2, 1 / 2, 0]),
        ("merged", (1, 1, 1), [1 / 3, 2 / 3, 0]),
        ("without_se", (1, 1, 2), [1 / 2, 1 / 2, 0]),
        ("standard", (1, 1), [1, 0, 0]),
    ],
)
def test_shares(rule, ratio, expected):
    np.testing.assert_allclose(role_shares(rule, ratio), expected)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_ends(rule):
    shares = role_shares(rule, None)
    ends = role_ends(shares)
    np.testing.assert_allclose(np.diff(ends, prepend=0.0), shares, atol=1e-15)
    assert ends[2] == 1.0


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_drawn_roles_have_their_shares(rule, subsample):
    n = 20_000
    X = np.zeros((n, 1))
    boosted = booster(X, np.arange(n), split_rule=rule, subsample=subsample)
    previous = None
    for _ in range(3):
        boosted.iterate()
        roles = boosted.roles()
        got = np.bincount(roles, minlength=4) / n
        # binomial: four standard deviations are at most 0.0142
        np.testing.assert_allclose(got, [*role_shares(rule, None) * subsample, 1 - subsample], atol=0.0142)
        if previous is not None and rule != "standard":
            # drawn anew: no closer to the last draw than chance has it
            assert np.mean(roles == previous) == pytest.approx((got**2).sum(), abs=0.02)
        previous = roles


def test_role_draw_fit_keeps_the_roles():
    X, y = mixed_table(500)
    boosted = booster(X, y, split_rule="merged", role_draw="fit")
    boosted.iterate()
    first = boosted.roles()
    boosted.iterate()
    np.testing.assert_array_equal(boosted.roles(), first)


def test_role_draw_node_changes_the_trees_below_the_root_only():
    X, y = mixed_table(500)
    by_tree = booster(X, y, split_rule="merged").iterate()[0]
    by_node = booster(X, y, split_rule="merged", role_draw="node").iterate()[0]
    for field in ("feature", "bin", "score"):
        assert by_tree.node[0][field] == by_node.node[0][field]
    assert not np.array_equal(by_tree.node["score"], by_node.node["score"])


class TestSmallTables:
    @pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule != "standard"])
    def test_fall_back_to_standard(self, rule):
        smallest = min(share for share in role_shares(rule, None) if share > 0)
        enough = int(np.ceil(4 * 5 / smallest))
        assert usable_rule(rule, None, enough, 5) == rule
        assert usable_rule(rule, None, enough - 1, 5) == "standard"
        X, y = mixed_table(enough - 1)
        with pytest.warns(SmallTableWarning, match=f"too few rows for split_rule='{rule}' with leaves of at least 5"):
            model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=5, min_samples_leaf=5, n_jobs=1).fit(X, y)
        assert model.split_rule_ == "standard"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same = UnbiasedGBMRegressor(split_rule="standard", n_estimators=5, min_samples_leaf=5, n_jobs=1).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), same.predict(X))

    def test_smaller_leaves_need_fewer_rows(self):
        assert usable_rule("evidence", None, 12, 1) == "evidence"

    def test_tiny_tables_keep_the_default_rule(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1040, 10))
        y = (X[:, 0] + 0.5 * rng.normal(size=1040) > 0).astype(int)
        model = UnbiasedGBMClassifier(n_jobs=1).fit(X[:40], y[:40])
        assert model.split_rule_ == "evidence"
        assert UnbiasedGBMClassifier(n_estimators=1, n_jobs=1).fit(X[:29], y[:29]).split_rule_ == "standard"
        # without judging rows the probabilities are as sure as those of 200 trees on forty rows
        plain = UnbiasedGBMClassifier(min_samples_leaf=5, n_jobs=1).fit(X[:40], y[:40])
        assert plain.split_rule_ == "standard"
        losses = [log_loss(y[40:], one.predict_proba(X[40:])) for one in (model, plain)]
        assert losses[0] < 0.8 * losses[1]

    def test_weights_count_as_rows(self):
        X, y = mixed_table(40)
        options = {"n_estimators": 2, "min_samples_leaf": 5, "n_jobs": 1}
        assert UnbiasedGBMRegressor(**options).fit(X, y).split_rule_ == "standard"
        assert UnbiasedGBMRegressor(**options).fit(X, y, np.full(40, 2.0)).split_rule_ == "evidence"

    def test_a_ratio_that_was_asked_for_is_not_dropped(self):
        with pytest.raises(ValueError, match="role_ratio=\\(1, 1\\) leaves a role with about 20 of 40 rows"):
            usable_rule("merged", (1, 1), 40, 6)


def test_every_rule_has_a_ratio():
    assert set(DEFAULT_RATIO) == set(ALL_RULES)


def test_rows_are_left_out_anew_for_every_tree_also_where_roles_are_not():
    X, y = mixed_table(500)
    boosted = booster(X, y, split_rule="merged", role_draw="fit", subsample=0.5)
    used = np.zeros(len(y), bool)
    for _ in range(20):
        boosted.iterate()
        used |= boosted.roles() < 3
    # a row is left out of all twenty trees with a probability of 2 ** -20
    assert used.all()


def test_subsample_counts_against_small_tables():
    X, y = mixed_table(300)
    options = {"n_estimators": 2, "min_samples_leaf": 3, "n_jobs": 1}
    assert UnbiasedGBMRegressor(subsample=0.1, **options).fit(X, y).split_rule_ == "standard"
    assert UnbiasedGBMRegressor(subsample=0.09, n_estimators=2, n_jobs=1).fit(X, y).split_rule_ == "standard"
    assert UnbiasedGBMRegressor(subsample=0.1, n_estimators=2, n_jobs=1).fit(X, y).split_rule_ == "evidence"
