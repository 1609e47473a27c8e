"""Histograms of nodes in memory that is used again."""

import numpy as np
import pytest

from unbiasedgbm.distributed.shelf import Shelf


@pytest.mark.parametrize("used", [slice(None), np.array([0, 1, 3])])
def test_children_take_the_place_of_their_parent(used):
    rng = np.random.default_rng(0)
    n_used = 4 if isinstance(used, slice) else 3
    shelf = Shelf(3, 4, used)
    parent, left = rng.integers(0, 9, (2, n_used))
    shelf.put(1, parent)
    place = shelf.places([1])
    shelf.put(2, left)
    shelf.subtract(1, 2, 3)
    assert shelf.paths() == [2, 3]
    assert shelf.places([3]) == place
    np.testing.assert_array_equal(shelf[2][used], left)
    np.testing.assert_array_equal(shelf[3][used], parent - left)


def test_what_is_dropped_makes_room():
    shelf = Shelf(2, 1, slice(None))
    for path in range(10):
        shelf.put(path, np.array([path]))
        shelf.drop(path - 1)
        shelf.drop(path - 1)
        assert shelf[path] == path
        assert path - 1 not in shelf
        assert len(shelf) == 1
    shelf.clear()
    assert len(shelf) == 0
    shelf.put(1, np.array([1]))
    shelf.put(2, np.array([2]))
    assert sorted(shelf.places([1, 2])) == [0, 1]
