"""Groups of rows: those of a group have the same role, so none of them judges what another one chose."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_validate

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.callbacks import Checkpoint
from unbiasedgbm.targets import group_numbers, read_groups
from unbiasedgbm.training.setup import Rows, hold_out
from unbiasedgbm.training.shard import Shard


def grouped(seed, n_groups=100, size=20, spread=2.0):
    """Rows of groups that differ in what nobody can know of a new one, and features that tell groups apart."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    level = rng.normal(size=(n_groups, 6))[group]
    own = rng.normal(size=(len(group), 6))
    effect = spread * rng.normal(size=n_groups)[group]
    y = own[:, 0] + 0.5 * np.abs(own[:, 1]) + 0.5 * level[:, 0] + effect + rng.normal(size=len(group))
    return np.hstack([level, own]), y, group


def same(first, second):
    return np.array_equal(first.ensemble_.value, second.ensemble_.value) and np.array_equal(
        first.ensemble_.threshold, second.ensemble_.threshold
    )


@pytest.fixture
def roles(monkeypatch):
    """The roles of every tree."""
    seen = []
    begin = Shard.begin_tree

    def watched(self, *arguments):
        counts, sums = begin(self, *arguments)
        seen.append((self.roles.copy(), counts))
        return counts, sums

    monkeypatch.setattr(Shard, "begin_tree", watched)
    return seen


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("rule", ["evidence", "separate"])
def test_rows_of_a_group_have_one_role(roles, rule, n_jobs):
    size = 400 if n_jobs == 2 else 20  # more than one block of rows
    X, y, group = grouped(0, size=size)
    order = np.random.default_rng(1).permutation(len(y))
    X, y, group = X[order], y[order], group[order]
    UnbiasedGBMRegressor(n_estimators=6, split_rule=rule, n_bags=3, n_jobs=n_jobs).fit(X, y, groups=group)
    # a line is learned from a part of the rows
    roles = [(drawn, counts) for drawn, counts in roles if len(drawn) == len(y)]
    assert len(roles) >= 18
    for drawn, counts in roles:
        of_group = [np.unique(drawn[group == k]) for k in range(100)]
        assert all(len(own) == 1 for own in of_group)
        assert np.array_equal(np.bincount(drawn, minlength=4), counts)
    first = np.array([drawn[np.argsort(group, kind="stable")[::size]] for drawn, _ in roles])
    # each group is S1 in a third of the trees, as far as chance goes: every one has another role somewhere
    assert (first != first[0]).any(axis=0).all()
    assert abs((first == 0).mean() - 1 / 3) < 0.05


@pytest.mark.parametrize("n", [500, 25_000])
def test_rows_that_are_groups_are_as_without_groups(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + rng.normal(size=n)
    model = UnbiasedGBMRegressor(n_estimators=3)
    plain = model.fit(X, y).ensemble_
    other = model.fit(X, y, groups=[f"row {k}" for k in range(n)]).ensemble_
    assert np.array_equal(plain.value, other.value)
    assert np.array_equal(plain.threshold, other.threshold)


@pytest.mark.parametrize(
    "relabel",
    [
        lambda group: [f"patient {100 - k}" for k in group],
        lambda group: pd.Series(group + 0.5),
        lambda group: pd.Series(group, dtype="category"),
        lambda group: pl.Series(group),
        lambda group: pa.array([f"g{k}" for k in group]).dictionary_encode(),
        lambda group: pd.DataFrame({"group": group}),
        lambda group: np.array([(k, "a")[k % 2] if k % 2 == 0 else f"b{k}" for k in group], dtype=object),
    ],
    ids=["text", "numbers", "category", "polars", "arrow", "frame", "mixed"],
)
def test_labels_do_not_matter(relabel):
    X, y, group = grouped(1, n_groups=30)
    model = UnbiasedGBMRegressor(n_estimators=3)
    first = model.fit(X, y, groups=group).predict(X)
    assert np.array_equal(first, model.fit(X, y, groups=relabel(group)).predict(X))
    assert not np.array_equal(first, model.fit(X, y).predict(X))


def test_numbers_of_groups_are_in_the_order_of_their_first_rows():
    assert group_numbers(np.array(["b", "a", "b", "c", "a"])).tolist() == [0, 1, 0, 2, 1]
    assert group_numbers(np.array([3, "x", 3, None], dtype=object)).tolist() == [0, 1, 0, 2]
    assert group_numbers(read_groups([1, "1", 1], 3)).tolist() == [0, 1, 0]


def test_number_of_threads_does_not_matter():
    X, y, group = grouped(2, size=400)
    models = [UnbiasedGBMRegressor(n_estimators=2, n_jobs=k).fit(X, y, groups=group) for k in (1, 2, 3)]
    assert same(models[0], models[1])
    assert same(models[0], models[2])


def test_weight_zero_is_absence():
    X, y, group = grouped(3)
    weight = np.random.default_rng(0).integers(0, 2, len(y))
    there = weight > 0
    model = UnbiasedGBMRegressor(n_estimators=3)
    whole = model.fit(X, y, weight, groups=group).predict(X)
    assert np.array_equal(whole, model.fit(X[there], y[there], groups=group[there]).predict(X))


def test_ten_and_ten_are_twenty():
    X, y, group = grouped(4)
    twenty = UnbiasedGBMRegressor(n_estimators=20).fit(X, y, groups=group)
    ten = UnbiasedGBMRegressor(n_estimators=10).fit(X, y, groups=group)
    assert same(twenty, UnbiasedGBMRegressor(n_estimators=20).fit(X, y, groups=group, init_model=ten))


def held_out(y, group, fraction, seed=0, classify=False):
    """Labels of the groups that train, and of those held out; and their rows."""
    rows = Rows(_Columns(np.asarray(group)[:, None]), np.asarray(y, float), None, group_numbers(group))
    parts = hold_out(rows, fraction, classify, seed)
    return [set(part.table.values[:, 0].tolist()) for part in parts], parts


def test_groups_are_held_out_as_a_whole():
    _, y, group = grouped(5, n_groups=40)
    (inside, outside), (train, held) = held_out(y, group, 0.25)
    assert not inside & outside
    assert len(inside | outside) == 40
    assert len(held.y) == 0.25 * len(y)
    assert train.groups.max() == len(inside) - 1


def test_a_group_that_is_too_large_is_not_held_out():
    group = np.repeat(np.arange(11), [900, *[10] * 10])
    for seed in range(12):
        (inside, _), (_, held) = held_out(np.zeros(1000), group, 0.05, seed)
        assert 0 in inside
        assert len(held.y) == 50
    with pytest.raises(ValueError, match=r"validation_fraction=0.01: none of the 2 groups"):
        held_out(np.zeros(100), np.repeat([0, 1], 50), 0.01)


def test_two_groups_and_all_classes_are_left_to_train():
    group = np.repeat(np.arange(6), 10)
    for seed in range(12):
        (inside, _), _ = held_out(np.zeros(60), group, 0.9, seed)
        assert len(inside) == 2
        # the second class has rows in two groups
        y = np.isin(group, [1, 4])
        _, (train, held) = held_out(y, group, 0.5, seed, classify=True)
        assert set(train.y.tolist()) == {0.0, 1.0}
        assert len(held.y) == 30
    with pytest.raises(ValueError, match="validation_fraction"):
        UnbiasedGBMRegressor(early_stopping=True).fit(np.arange(60)[:, None], np.arange(60), groups=group > 2)


class _Columns:
    def __init__(self, values):
        self.values = values

    def take(self, rows):
        return _Columns(self.values[rows])


def test_early_stopping_watches_other_groups():
    X, y, group = grouped(6)
    model = UnbiasedGBMClassifier(n_estimators=20, early_stopping=True, random_state=0)
    with_groups, without = (
        next(iter(model.fit(X, y > 0, groups=groups).history_["validation"].values())) for groups in (group, None)
    )
    # the loss of rows of known groups is lower
    assert min(without) < min(with_groups)


def test_a_checkpoint_knows_its_groups(tmp_path):
    X, y, group = grouped(7)
    path = tmp_path / "model.json"
    UnbiasedGBMRegressor(n_estimators=4).fit(X, y, groups=group, callbacks=[Checkpoint(path, every=2)])
    with pytest.raises(ValueError, match="other"):
        UnbiasedGBMRegressor(n_estimators=8).fit(X, y, groups=group // 2, callbacks=[Checkpoint(path, every=2)])


def test_routing():
    X, y, group = grouped(8, n_groups=30)
    with sklearn.config_context(enable_metadata_routing=True):
        model = UnbiasedGBMRegressor(n_estimators=3).set_fit_request(groups=True)
        found = cross_validate(model, X, y, cv=GroupKFold(3), params={"groups": group}, return_estimator=True)
        train, _ = next(GroupKFold(3).split(X, y, group))
    direct = UnbiasedGBMRegressor(n_estimators=3).fit(X[train], y[train], groups=group[train])
    assert same(direct, found["estimator"][0])


def test_a_line_is_not_drawn_from_what_groups_have_in_common():
    """Noise that has groups: a line is drawn in at most 3 of 40 tables, of which chance would have less than one.

    Three standard errors are asked for. By rows it is drawn in most of them.
    """
    drawn = {True: 0, False: 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(60), 20)
        X, y = rng.normal(size=(60, 4))[group], 2.0 * rng.normal(size=60)[group] + rng.normal(size=1200)
        for told in drawn:
            model = UnbiasedGBMRegressor(n_estimators=1, random_state=0).fit(X, y, groups=group if told else None)
            drawn[told] += model._model.progress.n_line > 0
    assert drawn[True] <= 3
    assert drawn[False] > 20


def test_new_groups_are_foretold_better():
    """The squared error of new groups, as a share of the variance, is lower in at least 7 of 8 tables: if groups made
    no difference, that would happen by chance in 3.5 % of runs."""
    lower = 0
    for seed in range(8):
        X, y, group = grouped(seed)
        X_new, y_new, _ = grouped(seed + 100)
        model = UnbiasedGBMRegressor(random_state=0)
        plain, by_group = (
            np.mean((model.fit(X, y, groups=groups).predict(X_new) - y_new) ** 2) for groups in (None, group)
        )
        lower += by_group < plain
    assert lower >= 7


@pytest.mark.parametrize(
    ("groups", "parameters", "message"),
    [
        (np.zeros(60), {}, "groups holds one group only"),
        (np.zeros(59), {}, "groups has 59 entries, but X has 60 rows"),
        (np.r_[np.arange(59.0), np.nan], {}, "groups holds a missing value"),
        (["a"] * 59 + [None], {}, "groups holds a missing value"),
        (np.zeros((60, 2)), {}, "groups must be one-dimensional"),
        ([("a", 1)] * 60, {}, "groups must be one-dimensional"),
        (["a"] * 30 + [float("nan")] * 30, {}, "groups holds a missing value"),
        (np.arange(60) // 2, {"role_draw": "node"}, "groups cannot be used with role_draw"),
    ],
)
def test_errors_name_groups(groups, parameters, message):
    X, y, _ = grouped(0, n_groups=3)
    with pytest.raises(ValueError, match=message):
        UnbiasedGBMRegressor(**parameters).fit(X, y, groups=groups)
