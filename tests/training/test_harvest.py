import numpy as np
import pytest
from workbench import booster, mixed_table, same_trees, trees_of

from unbiasedgbm.training import harvest as module
from unbiasedgbm.training.harvest import Harvest


@pytest.fixture(params=[16 << 20, 0], ids=["kept", "converted at once"])
def heap_bytes(request, monkeypatch):
    monkeypatch.setattr(module, "_HEAP_BYTES", request.param)


def grown_trees(n_iterations=5):
    X, y = mixed_table(400, 3, n_levels=300)
    boosted = booster(X, y, categorical=[4, 5], split_rule="merged", min_split_gain=-1.0)
    return boosted, [boosted.iterate() for _ in range(n_iterations)]


def test_when_trees_are_converted_makes_no_difference(heap_bytes):
    boosted, iterations = grown_trees()
    whole = trees_of(boosted, [tree for grown in iterations for tree in grown])
    assert (whole.set_start >= 0).any()
    harvest = Harvest(boosted.mapper, boosted.base, None)
    for k, grown in enumerate(iterations):
        harvest.add(grown)
        assert harvest.n_trees == k + 1
    assert same_trees(harvest.ensemble(), whole)
    assert same_trees(harvest.ensemble(), whole)
    after = Harvest(boosted.mapper, boosted.base, trees_of(boosted, iterations[0]))
    for grown in iterations[1:]:
        after.add(grown)
    assert same_trees(after.ensemble(), whole)


def test_trees_are_taken_back(heap_bytes):
    boosted, iterations = grown_trees(3)
    harvest = Harvest(boosted.mapper, boosted.base, None)
    for grown in iterations:
        harvest.add(grown)
    harvest.take_back(2)
    assert same_trees(harvest.ensemble(), trees_of(boosted, [*iterations[0], *iterations[1]]))
    harvest.take_back(2)
    assert harvest.n_trees == 2


def test_no_trees_are_a_model():
    boosted, _ = grown_trees(0)
    ensemble = Harvest(boosted.mapper, boosted.base, None).ensemble().validate()
    assert ensemble.n_trees == 0
    np.testing.assert_array_equal(ensemble.base, boosted.base)
