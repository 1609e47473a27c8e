"""Histograms of nodes in memory that is used again."""

import numpy as np
import pytest

from unbiasedgbm.distributed.shelf import Shelf


@pytest.mark.parametrize("used", [slice(None), np.array([0, 1, 3, 4, 5, 7])], ids=["all", "some"])
def test_children_take_the_place_of_their_parent(used):
    rng = np.random.default_rng(0)
    n_used = 8 if isinstance(used, slice) else 6
    shelf = Shelf(4, 8, 2, used)
    parent, left, other = rng.integers(0, 9, (3, n_used))
    shelf.put(1, parent)
    place = shelf.places([1])
    known = shelf.reserve(2)
    shelf.inherit(1, 3)
    shelf.reserve(8)
    shelf.take_in([2, 3, 8], shelf.arrivals(np.concatenate([left, other]), [0, -1, 1], [-1, known, -1]))
    assert shelf.paths() == [2, 3, 8]
    assert shelf.places([3]) == place
    np.testing.assert_array_equal(shelf[2][used], left)
    np.testing.assert_array_equal(shelf[3][used], parent - left)
    np.testing.assert_array_equal(shelf[8][used], other)


@pytest.mark.parametrize(
    ("used", "start", "length"),
    [(slice(None), [0], [4]), (np.array([0, 1, 3, 4, 5, 7]), [0, 3], [2, 1]), (np.array([1, 5]), [1], [1])],
)
def test_runs_of_used_cells(used, start, length):
    """Of one of the two roles."""
    arrivals = Shelf(1, 8, 2, used).arrivals(np.empty(0, np.int64), [-1], [-1])
    assert arrivals.start.tolist() == start
    assert arrivals.length.tolist() == length


def test_what_is_dropped_makes_room():
    shelf = Shelf(2, 1, 1, slice(None))
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
