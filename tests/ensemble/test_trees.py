import dataclasses
import pickle

import numpy as np
import pytest
from workbench import mixed_table, same_trees

from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.ensemble.trees import join


@pytest.fixture(scope="module")
def ensemble():
    X, y = mixed_table(400)
    model = UnbiasedGBMClassifier(
        n_estimators=6, num_leaves=31, n_bags=1, min_split_gain=-10.0, categorical_features=[4, 5], n_jobs=1
    )
    return model.fit(X, np.digitize(y, [0, 2])).ensemble_


def test_what_training_grows_is_valid(ensemble):
    assert ensemble.validate() is ensemble
    assert ensemble.n_outputs == 3
    # all six features have a line
    assert ensemble.output.tolist() == [0, 1, 2] * (6 + 6)
    assert (ensemble.set_start >= 0).any()


def test_cover_adds_up(ensemble):
    for t in range(ensemble.n_trees):
        first = ensemble.tree_start[t]
        assert ensemble.cover[first] == 400
        for k in range(first, ensemble.tree_start[t + 1]):
            if ensemble.left[k] >= 0:
                child = first + ensemble.left[k]
                assert ensemble.cover[k] == ensemble.cover[child] + ensemble.cover[child + 1]


def test_depth(ensemble):
    for t in range(ensemble.n_trees):
        first = ensemble.tree_start[t]
        assert ensemble.depth[first] == 0
        for k in range(first, ensemble.tree_start[t + 1]):
            if ensemble.left[k] >= 0:
                assert ensemble.depth[first + ensemble.left[k]] == ensemble.depth[k] + 1


def test_immutable_also_after_a_pickle(ensemble):
    for other in (ensemble, pickle.loads(pickle.dumps(ensemble)), ensemble.head(4)):
        for field in dataclasses.fields(other):
            array = getattr(other, field.name)
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        ensemble.n_features = 3


def test_head_and_join(ensemble):
    assert same_trees(ensemble.head(36), ensemble)
    head = ensemble.head(5).validate()
    assert head.n_trees == 5
    assert same_trees(join(ensemble.base, [head]), head)
    both = join(ensemble.base, [head, ensemble]).validate()
    assert both.n_trees == 41
    first = head.n_nodes
    np.testing.assert_array_equal(both.threshold[first:], ensemble.threshold)
    for node in np.flatnonzero(ensemble.set_start >= 0):
        sets = [
            trees.sets[trees.set_start[k] :][: trees.set_words[k]]
            for trees, k in ((both, first + node), (ensemble, node))
        ]
        np.testing.assert_array_equal(*sets)


BROKEN = {
    "'threshold' must have one entry": lambda e: {"threshold": e.threshold[:-1]},
    "'tree_start' must have one entry more": lambda e: {"tree_start": e.tree_start[:-1]},
    "'tree_start' must cover": lambda e: {"tree_start": e.tree_start + 1},
    "'n_features' is out of range": lambda e: {"n_features": 0},
    "'base' must hold": lambda e: {"base": np.empty(0)},
    "'value' holds a number that is not finite": lambda e: {"value": changed(e.value, 0, np.inf)},
    "'threshold' holds a NaN": lambda e: {"threshold": changed(e.threshold, 0, np.nan)},
    "'output' names no": lambda e: {"output": changed(e.output, 0, 3)},
    "'left' of a leaf must be -1": lambda e: {"left": changed(e.left, leaf_of(e), -2)},
    "a child lies outside": lambda e: {"left": changed(e.left, 0, 100_000)},
    "before its parent": lambda e: {"left": changed(e.left, 0, 0)},
    "must be the child of one node": lambda e: {"left": changed(e.left, 0, 2)},
    "'feature' of a leaf": lambda e: {"feature": changed(e.feature, leaf_of(e), 0)},
    "'feature' names no feature": lambda e: {"feature": changed(e.feature, 0, 6)},
    "a leaf has a set": lambda e: {"set_start": changed(e.set_start, leaf_of(e), 0)},
    "'set_words' is out of range": lambda e: {"set_words": changed(e.set_words, set_of(e), 2000)},
    "a set of levels is cut off": lambda e: {"sets": e.sets[:-1]},
    "both as a number and as a category": lambda e: {"feature": changed(e.feature, set_of(e), numeric_of(e))},
}


def changed(array, k, value):
    array = array.copy()
    array[k] = value
    return array


def leaf_of(e):
    return int(np.flatnonzero(e.left < 0)[0])


def set_of(e):
    return int(np.flatnonzero(e.set_start >= 0)[-1])


def numeric_of(e):
    return int(e.feature[(e.left >= 0) & (e.set_start < 0)][0])


@pytest.mark.parametrize("message", BROKEN)
def test_broken_ensembles_are_refused(ensemble, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ensemble, **BROKEN[message](ensemble)).validate()
