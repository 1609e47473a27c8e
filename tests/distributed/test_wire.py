"""Histograms on their way to another station."""

import numpy as np
import pytest

from unbiasedgbm.distributed.wire import Coder
from unbiasedgbm.training.gradients import G_SHIFT


def cells_of(g, h, count, bits):
    return (g << G_SHIFT) + (h << bits) + count


def random_cells(rng, shape, bits, g_most, h_most, count_most):
    g = rng.integers(-g_most, g_most, shape, endpoint=True)
    h, count = rng.integers(0, h_most, shape, endpoint=True), rng.integers(0, count_most, shape, endpoint=True)
    return cells_of(g, h, count, bits)


def n_words(cells, length, n_roles, bits):
    """The slow way: bits of every field of every run."""
    total = 0
    for one in cells:
        at = 0
        for n in np.tile(length, n_roles).tolist():
            run = one[at : at + n].tolist()
            low = [cell & ((1 << G_SHIFT) - 1) for cell in run]
            needed = (
                1 + max([(g if g >= 0 else ~g).bit_length() for g in (cell >> G_SHIFT for cell in run)], default=0)
                + max([(x >> bits).bit_length() for x in low], default=0)
                + max([(x & ((1 << bits) - 1)).bit_length() for x in low], default=0)
            )  # fmt: skip
            total += 1 + (n if needed <= 32 else 2 * n)
            at += n
    return total


@pytest.mark.parametrize("bits", [10, 16])
@pytest.mark.parametrize(
    "most", [(0, 0, 0), (1, 1, 1), (5_000, 200, 20), (2**20, 2**10, 3), (2**29 - 1, 2**18 - 1, 1023)]
)
def test_what_arrives_is_what_was_sent(bits, most):
    rng = np.random.default_rng(0)
    length, n_roles = np.array([3, 1, 255, 64]), 2
    cells = random_cells(rng, (3, n_roles * length.sum()), bits, *most)
    coder = Coder(length, n_roles)
    coded = coder.encode(cells, bits)
    np.testing.assert_array_equal(coded.plain(), cells)
    assert len(coded.words) == n_words(cells, length, n_roles, bits)
    other = random_cells(rng, cells.shape, bits, *most)
    total = other.copy()
    coded.add_to(total)
    np.testing.assert_array_equal(total, other + cells)


@pytest.mark.parametrize("field", range(3))
def test_every_field_has_its_last_bit(field):
    """32 bits with the sign are just enough; one more is not."""
    rng = np.random.default_rng(1)
    most = [2**14 - 1, 2**11 - 1, 2**6 - 1]
    coder = Coder(np.array([200]), 1)
    for more, narrow in ((0, True), (1, False)):
        limits = [m + (more if k == field else 0) for k, m in enumerate(most)]
        cells = random_cells(rng, (1, 200), 10, *most)
        for k, sign in ((3, 1), (77, -1)):
            cells[0, k] = cells_of(sign * limits[0] - (sign < 0 and field == 0), limits[1], limits[2], 10)
        coded = coder.encode(cells, 10)
        np.testing.assert_array_equal(coded.plain(), cells)
        assert len(coded.words) == (201 if narrow else 401)


def test_features_of_many_levels():
    """As many as a category may have, several times."""
    rng = np.random.default_rng(2)
    length = np.full(3, 65_536)
    cells = random_cells(rng, (1, length.sum()), 16, 9, 9, 9)
    cells[0, : length[0]] = random_cells(rng, length[0], 16, 2**29 - 1, 9, 9)
    coded = Coder(length, 1).encode(cells, 16)
    np.testing.assert_array_equal(coded.plain(), cells)
    assert len(coded.words) == 3 + 4 * 65_536


def test_what_is_damaged_is_refused():
    cells = np.arange(24).reshape(1, 24)
    coded = Coder(np.array([4, 20]), 1).encode(cells, 10)
    longer = coded.words.copy()
    longer[0] += 60
    for words in (coded.words[:-1], coded.words[:5], longer, np.append(coded.words, coded.words[:5])):
        with pytest.raises(ValueError, match="damaged"):
            coded._replace(words=words).plain()


def test_no_histograms():
    coded = Coder(np.array([4]), 2).encode(np.empty((0, 8), np.int64), 10)
    assert len(coded.words) == 0
    assert coded.plain().shape == (0, 8)


def test_room_is_used_again():
    coder = Coder(np.array([4]), 2)
    first = coder.encode(np.full((5, 8), 7), 10)
    second = coder.encode(np.full((2, 8), 9), 10)
    assert np.shares_memory(first.words, second.words)
    np.testing.assert_array_equal(second.plain(), np.full((2, 8), 9))
