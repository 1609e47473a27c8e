import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import goes_left
from workbench import mixed_table

from unbiasedgbm import UnbiasedGBMRegressor
from unbiasedgbm.ensemble.predict import leaves, prepare, raw_predict
from unbiasedgbm.ensemble.trees import TreeEnsemble, join
from unbiasedgbm.frames import learn_schema
from unbiasedgbm.threads import Pool


def random_ensemble(rng, n_features=4, n_trees=6, n_outputs=2):
    """Trees that no training would grow: any thresholds, any sets, any shape. Feature 3 is categorical."""
    trees = []
    for _ in range(n_trees):
        left, feature, threshold, missing, start, words, sets = [-1], [-1], [0.0], [False], [-1], [0], []
        for _ in range(rng.integers(0, 8)):
            k = int(rng.choice(np.flatnonzero(np.array(left) < 0)))
            left[k], feature[k] = len(left), int(rng.integers(n_features))
            if feature[k] == 3:
                start[k], words[k] = len(sets), int(rng.integers(1, 4))
                sets += [int(x) for x in rng.integers(0, 2**63, words[k])]
            else:
                threshold[k] = float(rng.choice([-np.inf, -1.0, 0.0, 0.5, 1e300, np.inf, rng.normal()]))
                missing[k] = bool(rng.integers(2))
            for _ in range(2):
                for array, value in zip(
                    (left, feature, threshold, missing, start, words), (-1, -1, 0.0, False, -1, 0), strict=True
                ):
                    array.append(value)
        m = len(left)
        value = np.where(np.array(left) < 0, rng.normal(size=m), 0.0)
        arrays = {
            "left": np.array(left, np.int32),
            "feature": np.array(feature, np.int32),
            "threshold": np.array(threshold),
            "missing_left": np.array(missing),
            "set_start": np.array(start, np.int64),
            "set_words": np.array(words, np.int32),
            "sets": np.array(sets, np.uint64),
        }
        output = int(rng.integers(n_outputs))
        trees.append(one_tree(n_features, output, arrays, value))
    return trees, join(rng.normal(size=n_outputs), trees).validate()


def one_tree(n_features, output, arrays, value):
    m = len(value)
    return TreeEnsemble(
        n_features, np.zeros(1), np.array([0, m]), np.array([output]), **arrays, value=value, cover=np.ones(m),
        score=np.zeros(m),
    )  # fmt: skip


def walk_twin(tree, x):
    """Leaf of one row, step by step, by the words of `TreeEnsemble`."""
    k = 0
    while tree.left[k] >= 0:
        k = int(tree.left[k]) + (0 if goes_left_or_unknown(tree, k, x) else 1)
    return k


def goes_left_or_unknown(tree, k, x):
    if tree.set_start[k] >= 0 and not np.isnan(x[3]) and x[3] + 1 >= 64 * tree.set_words[k]:
        return False  # a level beyond the set is not in it
    return bool(goes_left(tree, k, x[None])[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_any_ensemble_is_walked_as_its_words_say(seed):
    rng = np.random.default_rng(seed)
    trees, ensemble = random_ensemble(rng)
    n = 60
    X = rng.choice([-np.inf, -1.0, 0.0, 0.5, 1e300, np.inf, np.nan, 0.25], (n, 4))
    # levels that all sets of the feature have room for
    room = min([64 * int(w) for tree in trees for w in tree.set_words if w > 0], default=64)
    X[:, 3] = rng.integers(0, room - 1, n)
    X[::7, 3] = np.nan
    table = learn_schema(X, categorical_features=None)[1]
    walk = prepare(ensemble)
    expected = np.repeat(ensemble.base[None], n, axis=0)
    expected_leaves = np.zeros((n, len(trees)), int)
    for t, tree in enumerate(trees):
        for i in range(n):
            k = walk_twin(tree, X[i])
            expected_leaves[i, t] = k
            expected[i, tree.output[0]] += tree.value[k]
    for n_jobs in (1, 3):
        np.testing.assert_array_equal(raw_predict(walk, ensemble.base, table, 0, len(trees), Pool(n_jobs)), expected)
        np.testing.assert_array_equal(leaves(walk, table, len(trees), Pool(n_jobs)), expected_leaves)


def test_ranges_of_trees_add_up():
    X, y = mixed_table(300)
    model = UnbiasedGBMRegressor(n_estimators=10, n_bags=1, n_jobs=1).fit(X, y)
    ensemble, table = model.ensemble_, learn_schema(X, categorical_features=None)[1]
    walk = prepare(ensemble)
    part = raw_predict(walk, ensemble.base, table, 0, 4, Pool(1))
    whole = raw_predict(walk, part, table, 4, ensemble.n_trees, Pool(1))
    np.testing.assert_array_equal(whole[:, 0], model.predict(X))


def test_too_many_thresholds_are_refused():
    n = 65_002
    arrays = {
        "left": np.array([1, -1, -1], np.int32), "feature": np.array([0, -1, -1], np.int32),
        "missing_left": np.zeros(3, bool), "set_start": np.full(3, -1, np.int64), "set_words": np.zeros(3, np.int32),
        "sets": np.empty(0, np.uint64),
    }  # fmt: skip
    stumps = [one_tree(1, 0, {**arrays, "threshold": np.array([float(k), 0, 0])}, np.zeros(3)) for k in range(n)]
    with pytest.raises(ValueError, match="more than 65,000 different thresholds"):
        prepare(join(np.zeros(1), stumps))
