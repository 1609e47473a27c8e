import numpy as np
import pytest
from workbench import booster

from unbiasedgbm.training.evidence import MEMORY, N_BUCKETS, WARM_UP, EvidenceMemory, bonus_weight


def learned(found):
    """A memory of these trees' evidence, shape (n_trees, p)."""
    memory = EvidenceMemory.empty(found.shape[1])
    for row in found:
        memory.learn(np.concatenate([row, np.zeros(N_BUCKETS)]))
    return memory


def test_mean_and_square_are_plain_until_the_memory_is_full():
    found = np.random.default_rng(0).normal(size=(MEMORY, 3))
    memory = learned(found)
    np.testing.assert_allclose(memory.mean[:3], found.mean(axis=0))
    np.testing.assert_allclose(memory.square[:3], (found**2).mean(axis=0))


def test_old_trees_fade():
    found = np.vstack([np.full((100, 1), 5.0), np.full((200, 1), -5.0)])
    assert learned(found).mean[0] == pytest.approx(-5.0, abs=0.05)


def test_bonus_is_a_clipped_z_score():
    found = np.random.default_rng(0).normal(size=(20, 50)) + np.linspace(-1, 1, 50)
    z = found.mean(axis=0) / (found.std(axis=0) / np.sqrt(20))
    np.testing.assert_allclose(learned(found).bonus(1.0)[:50], np.clip(z, -2, 2))
    assert np.abs(z).max() > 2


def test_no_bonus_before_the_warm_up():
    found = np.random.default_rng(0).normal(size=(WARM_UP, 3)) + 10
    assert not learned(found[:-1]).bonus(1.0).any()
    assert learned(found).bonus(1.0)[:3].all()


def test_node_sizes_count_twice():
    memory = EvidenceMemory.empty(1)
    for x in (1.0, 2.0, 3.0, 2.0, 1.5, 2.5):
        memory.learn(np.full(1 + N_BUCKETS, x) * 0.3)
    bonus = memory.bonus(1.0)
    assert bonus[0] == 2.0
    np.testing.assert_array_equal(bonus[1:], 12.0)
    memory = EvidenceMemory.empty(1)
    for x in (1.0, -2.0, 3.0, 2.0, -1.5, 2.5):
        memory.learn(np.full(1 + N_BUCKETS, x))
    bonus = memory.bonus(1.0)
    assert 0.5 < bonus[0] < 2.0
    np.testing.assert_allclose(bonus[1:], 2.0 * bonus[0])


def test_features_count_by_the_rows_and_node_sizes_do_not():
    found = np.random.default_rng(0).normal(size=(20, 5))
    memory = EvidenceMemory.empty(5)
    for row in found:
        memory.learn(np.concatenate([row, np.full(N_BUCKETS, row[0])]))
    plain, weighted = memory.bonus(1.0), memory.bonus(0.25)
    np.testing.assert_array_equal(weighted[:5], plain[:5] / 4)
    np.testing.assert_array_equal(weighted[5:], plain[5:])
    assert plain[:5].all()


@pytest.mark.parametrize(("n_rows", "weight"), [(40, 1), (4000, 1), (16_000, 2), (256_000, 8), (1e9, 8)])
def test_weight_of_a_bonus(n_rows, weight):
    assert bonus_weight(n_rows, 1) == pytest.approx(weight)
    assert bonus_weight(n_rows, 3) == 1.0


@pytest.mark.parametrize(("n", "weight"), [(500, 1.0), (9_000, 1.5)])
def test_a_booster_weighs_bonuses(n, weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    boosted = booster(X, X[:, 0] + rng.normal(size=n), split_rule="evidence", num_leaves=4)
    bonuses, evidence_of = [], boosted._evidence

    def record(memory, *arguments):
        bonuses.append((memory.bonus(1.0)[:3], evidence_of(memory, *arguments)))
        return bonuses[-1][1]

    boosted._evidence = record
    for _ in range(WARM_UP + 1):
        boosted.iterate()
    z, evidence = bonuses[-1]
    np.testing.assert_allclose(evidence.bonus[:3], weight * z)
    assert z.any()


@pytest.mark.parametrize("x", [0.0, 3.0, 1e-200, 1e150])
def test_evidence_without_spread_gives_no_bonus(x):
    bonus = learned(np.full((10, 2), x)).bonus(1.0)
    np.testing.assert_array_equal(bonus, 0.0)


def test_a_copy_is_its_own():
    memory = learned(np.ones((6, 2)))
    other = memory.copy()
    other.learn(np.ones(2 + N_BUCKETS))
    assert memory.n_trees == 6
    assert other.n_trees == 7
