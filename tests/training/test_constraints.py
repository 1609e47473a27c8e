import itertools

import numpy as np
import pytest
from workbench import ALL_RULES, mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.training.constraints import interaction_groups, monotone_signs


def paths(ensemble):
    """Set of features on every path from a root to a leaf."""
    for t in range(ensemble.n_trees):
        first = ensemble.tree_start[t]
        stack = [(0, frozenset())]
        while stack:
            k, used = stack.pop()
            if ensemble.left[first + k] < 0:
                yield used
                continue
            used = used | {int(ensemble.feature[first + k])}
            stack += [(ensemble.left[first + k], used), (ensemble.left[first + k] + 1, used)]


def wavy_table(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 6, n)
    y = (
        np.sin(3 * X[:, 0])
        + X[:, 0]
        - 0.5 * X[:, 1]
        + np.cos(4 * X[:, 1]) * X[:, 2]
        + 0.3 * X[:, 3]
        + rng.normal(size=n)
    )
    return X, y


class TestMonotone:
    @pytest.mark.parametrize("rule", ALL_RULES)
    @pytest.mark.parametrize("role_draw", ["tree", "node"])
    def test_holds_everywhere(self, rule, role_draw):
        X, y = wavy_table()
        X[::9, 0] = np.nan
        model = UnbiasedGBMRegressor(
            split_rule=rule, role_draw=role_draw, monotonic_cst=[1, -1, 0, 0], n_estimators=30, learning_rate=0.3,
            min_split_gain=-1.0, min_samples_leaf=2, categorical_features=[3], n_jobs=1,
        ).fit(X, y)  # fmt: skip
        assert model.ensemble_.n_nodes > 100
        rng = np.random.default_rng(1)
        grid = np.linspace(-4, 4, 200)
        for j, sign in ((0, 1), (1, -1)):
            for _ in range(20):
                rows = np.tile(X[rng.integers(len(X))], (200, 1))
                rows[:, j] = grid
                assert (np.diff(model.predict(rows)) * sign >= 0).all()

    def test_without_it_does_not_hold(self):
        X, y = wavy_table()
        model = UnbiasedGBMRegressor(n_estimators=30, learning_rate=0.3, n_jobs=1).fit(X, y)
        rows = np.zeros((200, 4))
        rows[:, 0] = np.linspace(-4, 4, 200)
        assert (np.diff(model.predict(rows)) < 0).any()

    @pytest.mark.parametrize("loss", ["absolute_error", "quantile", "poisson"])
    def test_other_losses(self, loss):
        X, y = wavy_table()
        model = UnbiasedGBMRegressor(loss=loss, monotonic_cst={0: 1}, n_estimators=30, learning_rate=0.3, n_jobs=1)
        model.fit(X, np.exp(y / 3))
        rows = np.zeros((200, 4))
        rows[:, 0] = np.linspace(-4, 4, 200)
        assert (np.diff(model.predict(rows)) >= 0).all()
        assert np.ptp(model.predict(rows)) > 0

    @pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "quantile"])
    @pytest.mark.parametrize("scale", [1e-3, 1e3])
    def test_the_unit_of_the_target_does_not_matter(self, loss, scale):
        X, y = wavy_table()
        options = {"loss": loss, "monotonic_cst": [1, -1, 0, 0], "n_estimators": 30, "n_jobs": 1}
        plain = UnbiasedGBMRegressor(**options).fit(X, y)
        scaled = UnbiasedGBMRegressor(**options).fit(X, y * scale)
        assert plain.score(X, y) > 0.4
        assert scaled.score(X, y * scale) == pytest.approx(plain.score(X, y), abs=0.02)

    def test_classifier(self):
        X, y = wavy_table()
        model = UnbiasedGBMClassifier(monotonic_cst=[-1, 0, 0, 0], n_estimators=30, learning_rate=0.3, n_jobs=1)
        model.fit(X, (y > 0).astype(int))
        rows = np.tile(X[0], (200, 1))
        rows[:, 0] = np.linspace(-4, 4, 200)
        assert (np.diff(model.predict_proba(rows)[:, 1]) <= 0).all()

    def test_signs(self):
        none = np.zeros(3, bool)
        assert monotone_signs(None, 3, None, none).tolist() == [0, 0, 0]
        assert monotone_signs([1, 0, -1], 3, None, none).tolist() == [1, 0, -1]
        assert monotone_signs(np.array([1, 0, -1]), 3, None, none).tolist() == [1, 0, -1]
        assert monotone_signs({"b": -1}, 3, ("a", "b", "c"), none).tolist() == [0, -1, 0]
        assert monotone_signs({2: 1}, 3, None, none).tolist() == [0, 0, 1]


class TestInteraction:
    @pytest.mark.parametrize("rule", ["evidence", "separate", "standard"])
    @pytest.mark.parametrize(
        ("given", "allowed"),
        [
            ("no_interactions", [{0}, {1}, {2}, {3}, {4}, {5}]),
            ("pairwise", [set(pair) for pair in itertools.combinations(range(6), 2)]),
            ([[0, 1], [1, 2, 5]], [{0, 1}, {1, 2, 5}, {3, 4}]),
            ([{0, 1, 2, 3, 4}], [{0, 1, 2, 3, 4}, {5}]),
        ],
    )
    def test_holds_on_every_path(self, rule, given, allowed):
        X, y = mixed_table(500, 1)
        model = UnbiasedGBMRegressor(
            split_rule=rule, interaction_cst=given, n_estimators=15, min_split_gain=-2.0, categorical_features=[4, 5],
            n_jobs=1,
        ).fit(X, y)  # fmt: skip
        found = set(paths(model.ensemble_))
        assert all(any(path <= group for group in allowed) for path in found)
        # and the constraint bites: without it there are longer paths
        assert max(len(path) for path in found) >= (1 if given == "no_interactions" else 2)

    def test_together_with_column_samples(self):
        X, y = mixed_table(500, 1)
        model = UnbiasedGBMRegressor(
            interaction_cst=[[0, 5], [1, 2, 3, 4]],
            colsample_bynode=0.4,
            colsample_bytree=0.7,
            n_estimators=15,
            n_jobs=1,
        ).fit(X, y)
        assert all(path <= {0, 5} or path <= {1, 2, 3, 4} for path in paths(model.ensemble_))

    def test_groups(self):
        assert interaction_groups(None, 3, None).shape == (0, 3)
        assert interaction_groups([["b"], ["c", "a"]], 3, ("a", "b", "c")).tolist() == [[0, 1, 0], [1, 0, 1]]
        assert interaction_groups([[0]], 3, None).tolist() == [[1, 0, 0], [0, 1, 1]]
