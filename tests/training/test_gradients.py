import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench import booster, mixed_table

from unbiasedgbm import UnbiasedGBMRegressor
from unbiasedgbm.losses import LogLoss, QuantileLoss
from unbiasedgbm.training import defaults
from unbiasedgbm.training.gradients import (
    G_SHIFT,
    STOCHASTIC_ROWS,
    begin_rows,
    choose_packing,
    coarse,
    count_bits,
    draw_roles,
    exponential_table,
    largest_weight,
    search_weights,
)


def test_exponential_table_has_the_moments_of_exp_1():
    table = exponential_table()
    assert table.mean() == pytest.approx(1.0, abs=1e-8)
    assert (table**2).mean() == pytest.approx(2.0, abs=1e-8)
    assert (table >= 0).all()
    assert (np.diff(table) > 0).all()
    # third and fourth moments of Exp(1) are 6 and 24; a table of 4096 slices cuts off the tail
    assert (table**3).mean() == pytest.approx(6.0, rel=0.02)
    assert (table**4).mean() == pytest.approx(24.0, rel=0.1)


@settings(max_examples=300, deadline=None)
@given(
    st.floats(1e-30, 1e30),
    st.floats(1e-30, 1e30),
    st.integers(1, 2_000_000),
    st.integers(1, 2000),
)
def test_scales_leave_room_for_all_rows(sum_g, sum_h, n_rows, min_samples):
    bits = count_bits(min_samples, 1.0)
    assert 2**bits > 2 * min_samples
    packing = choose_packing(sum_g, sum_h, n_rows, bits, 0.0, math.inf)
    assert math.frexp(packing.g_scale)[0] == 0.5
    assert math.frexp(packing.h_scale)[0] == 0.5
    rounding = 0.5 * n_rows if not packing.stochastic else 8 * math.sqrt(n_rows)
    assert sum_g * packing.g_scale + rounding < 2 ** (63 - G_SHIFT)
    assert sum_h * packing.h_scale + rounding + n_rows / 2**bits < 2 ** (G_SHIFT - bits)
    # and not much room is wasted
    assert sum_g * packing.g_scale > 2 ** (63 - G_SHIFT - 2) - 2 * rounding


def gradients_of(boosted):
    """True g and h at the start of the first iteration."""
    return boosted.loss.gradients(boosted.rows.data.y, boosted.rows.raw[:, 0].copy())


@pytest.mark.parametrize("rule", ["standard", "merged"])
def test_packed_gradients_are_the_gradients(rule):
    X, y = mixed_table()
    boosted = booster(X, (y > 1).astype(float), loss=LogLoss(), split_rule=rule)
    g, h = gradients_of(boosted)
    boosted.iterate()
    got_g, got_h, count = boosted.search_gradients()
    # to nearest, and float32 before
    np.testing.assert_allclose(got_g, g, atol=0.6 / boosted.packing.g_scale + 1e-7)
    np.testing.assert_allclose(got_h, h, atol=0.6 / boosted.packing.h_scale + 1e-7)
    np.testing.assert_array_equal(count, 1)


def test_evidence_draws_weights_of_mean_one():
    X, y = mixed_table(20_000)
    boosted = booster(X, (y > 1).astype(float), loss=LogLoss(), split_rule="evidence", num_leaves=2)
    g, h = gradients_of(boosted)
    boosted.iterate()
    got_g, got_h, _ = boosted.search_gradients()
    w = got_g / g
    # g and h carry the same weight
    np.testing.assert_allclose(got_h, w * h, atol=3e-3)
    # Exp(1): standard errors at 20,000 rows are 0.007 for the mean, 0.032 for the mean square
    assert w.mean() == pytest.approx(1, abs=0.04)
    assert (w**2).mean() == pytest.approx(2, abs=0.16)
    roles = boosted.roles()
    assert w[roles == 0].mean() == pytest.approx(1, abs=0.07)


@pytest.mark.parametrize("spread", [0.0, 0.25, 1.0])
def test_search_weights_have_the_spread_they_are_said_to_have(spread):
    weight = search_weights(spread)
    assert weight.mean() == pytest.approx(1.0, abs=1e-8)
    assert weight.std() == pytest.approx(spread, abs=1e-8)
    assert weight.max() == largest_weight(spread)
    assert weight.min() >= 0.0


def test_weights_become_alike_as_the_target_is_explained():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    boosted = booster(X, np.sign(X[:, 0]), split_rule="evidence", num_leaves=4, learning_rate=0.5)
    spreads = []
    for _ in range(8):
        g, _ = gradients_of(boosted)
        boosted.iterate()
        got, _, _ = boosted.search_gradients()
        spreads.append((got / g).std())
        # half of it is explained by every tree, three quarters of its square
        share = (g**2).mean() / np.var(np.sign(X[:, 0]))
        # a sixteenth, and four standard errors of a standard deviation of 2,000 draws of Exp(1), which is 0.032
        assert spreads[-1] == pytest.approx(share, abs=1 / 32 + 4 * 0.032 * share + 1e-3)
    assert spreads[0] > 0.8
    assert spreads[-1] < 0.1


@given(st.floats(1e-300, 1e300))
def test_coarse_numbers(x):
    assert coarse(x) <= x < 1.25 * coarse(x)
    # three binary digits
    assert (math.frexp(coarse(x))[0] * 8).is_integer()
    assert coarse(math.inf) == math.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_a_gradient_counts_so_many_root_mean_squares_at_most(weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.standard_t(2, 3000)
    weight = rng.uniform(0.5, 2.0, 3000) if weighted else None
    boosted = booster(X, y, weight=weight, split_rule="evidence", clip=3.0)
    g, _ = gradients_of(boosted)
    w = np.ones(3000) if weight is None else weight
    boosted.iterate()
    got_g, got_h, _ = boosted.search_gradients()
    top = coarse(3.0 * math.sqrt((w * g**2).sum() / w.sum()))
    assert (np.abs(g) > top).sum() > 10
    # h is one, so that the packed one is the weight of the search
    np.testing.assert_allclose(got_g, np.clip(g, -top, top) * got_h, atol=top / boosted.packing.h_scale + 1e-5)


def test_leaves_take_gradients_as_they_are():
    # ten rows far away, among others of their leaf
    rng = np.random.default_rng(0)
    X, y = np.repeat([[0.0], [1.0]], 500, axis=0), rng.normal(size=1000)
    y[500:] += 100.0
    y[990:] = 1000.0
    boosted = booster(X, y, split_rule="evidence", clip=3.0, num_leaves=2, learning_rate=1.0, reg_lambda=0.0)
    g, _ = gradients_of(boosted)
    tree = boosted.iterate()[0]
    assert len(tree.node) == 3
    judges = boosted.roles() == 1
    assert np.abs(g[judges]).max() > 2 * boosted.packing.g_limit
    for leaf, rows in ((1, X[:, 0] == 0), (2, X[:, 0] == 1)):
        assert tree.value[leaf] == pytest.approx(-g[judges & rows].mean(), rel=1e-5)


def test_bounds_of_monotone_features_are_means():
    """They would be those of gradients that count less than they are, so there all of them count."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = X[:, 0] + rng.standard_t(2, 1000)
    limits = {}
    for monotone in ((0, 0), (0, 1)):
        boosted = booster(X, y, split_rule="evidence", clip=3.0, monotone=monotone)
        g, _ = gradients_of(boosted)
        boosted.iterate()
        limits[monotone] = boosted.packing.g_limit
    assert limits[0, 0] < np.abs(g).max() < limits[0, 1] == math.inf


def test_predictions_of_monotone_models_have_the_mean_of_a_skewed_target():
    rng = np.random.default_rng(0)
    means = []
    for seed in range(3):
        X = rng.normal(size=(1500, 2))
        y = X[:, 0] + rng.lognormal(0.0, 1.5, 1500)
        model = UnbiasedGBMRegressor(monotonic_cst=[1, 0], random_state=seed, n_jobs=1).fit(X, y)
        means.append(model.predict(X).mean() / y.mean())
    assert np.mean(means) == pytest.approx(1.0, abs=0.03)


def test_a_few_rows_far_away_do_not_choose_the_splits(monkeypatch):
    """What a few rows have by chance is believed by none of the others, so that models are nearer to the truth."""
    worse = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1200, 6))
        truth = np.sin(2 * X[:, 0]) + (X[:, 1] > 0) * X[:, 2]
        y = truth[:600] + rng.standard_t(1.5, 600)
        error = {}
        for clipped in (True, False):
            with monkeypatch.context() as patched:
                if not clipped:
                    patched.setattr("unbiasedgbm.estimators.clip", lambda *_: math.inf)
                model = UnbiasedGBMRegressor(random_state=seed, n_jobs=1).fit(X[:600], y)
            error[clipped] = np.mean((model.predict(X[600:]) - truth[600:]) ** 2)
        worse += error[True] >= error[False]
    # of 20 flips of a coin, 5 or fewer fall so with probability 0.02
    assert worse <= 5


def test_only_means_are_clipped():
    rule = "evidence"
    assert defaults.clip(rule, "squared_error") == 3.0
    assert defaults.clip(rule, "log_loss") == defaults.clip("standard", "squared_error") == math.inf


def test_stochastic_rounding_is_unbiased():
    n = STOCHASTIC_ROWS * 2
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 1)), np.full(n, 0.3)
    y[0] = 5e3  # one heavy row: the others have few bits left
    boosted = booster(X, y, num_leaves=2)
    g, _ = gradients_of(boosted)
    boosted.iterate()
    got_g, _, _ = boosted.search_gradients()
    assert boosted.packing.stochastic
    error = (got_g - g) * boosted.packing.g_scale
    assert np.abs(error[1:]).max() <= 1.001
    # uniform rounding errors: a mean has a standard deviation of at most 0.5/sqrt(n)
    assert abs(error[1:].mean()) < 5 * 0.5 / math.sqrt(n)


@pytest.mark.parametrize("weight", [1000.5, 1e5 + 0.5, 1e7 + 0.5])
def test_large_weights_keep_their_precision(weight):
    X, y = mixed_table()
    boosted = booster(X, y, weight=np.full(len(y), weight))
    g, _ = gradients_of(boosted)
    boosted.iterate()
    got, _, _ = boosted.search_gradients()
    np.testing.assert_allclose(got / weight, g, atol=1e-4)


def test_whole_weights_are_counts_and_multiples():
    X, y = mixed_table()
    weight = np.random.default_rng(0).integers(1, 6, len(y)).astype(float)
    plain, weighted = booster(X, y), booster(X, y, weight=weight)
    weighted.rows.raw[:] = plain.rows.raw
    weighted.iterate()
    g, h, count = weighted.search_gradients()
    np.testing.assert_array_equal(count, weight)
    # exact multiples of what one row has
    units = g * weighted.packing.g_scale / weight
    np.testing.assert_array_equal(units, np.round(units))
    np.testing.assert_array_equal(h, weight)


@pytest.mark.parametrize("rule", ["standard", "evidence", "separate"])
@pytest.mark.parametrize("kind", ["one sign", "heavy", "tiny", "huge"])
def test_no_field_overflows(rule, kind):
    rng = np.random.default_rng(0)
    n = 2000
    X = rng.normal(size=(n, 2))
    y = {
        "one sign": rng.random(n),
        "heavy": rng.standard_cauchy(n) * 1e3,
        "tiny": rng.normal(size=n) * 1e-30,
        "huge": rng.normal(size=n) * 1e30,
    }[kind]
    loss = QuantileLoss(0.999) if kind == "one sign" else None
    boosted = booster(X, y, loss=loss, split_rule=rule, num_leaves=2)
    boosted.iterate()
    g, h, _ = boosted.search_gradients()
    assert np.abs(g * boosted.packing.g_scale).sum() < 2 ** (63 - G_SHIFT)
    total = int(boosted.rows.packed.sum())
    bits = boosted.packing.count_bits
    # the word's fields are the sums of the fields
    assert total >> G_SHIFT == int((boosted.rows.packed >> G_SHIFT).sum())
    low = boosted.rows.packed & ((1 << G_SHIFT) - 1)
    assert (total & ((1 << G_SHIFT) - 1)) == int(low.sum())
    assert int((low >> bits).sum()) == pytest.approx(h.sum() * boosted.packing.h_scale)


@pytest.mark.parametrize("subsample", [1.0, 0.6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_rows_of_a_tree_in_one_call(subsample, weighted):
    rng = np.random.default_rng(3)
    n, share, offset = 1000, np.array([0.3, 0.8, 1.0]), np.uint64(70)
    g, h = (rng.normal(size=(2, n)) ** 2).astype(np.float32) - np.float32([[0.5], [0.0]])
    weight = rng.uniform(1, 2, n) if weighted else np.empty(0)
    roles, rows, (counts, place) = np.empty(n, np.uint8), np.empty(n, np.uint32), np.zeros((2, 4), np.int64)
    sums = np.zeros(5, np.int64)
    keys = np.uint64(5), share, np.uint64(6), subsample
    units = 1e6, 2e6, 3e6, 4e6, 5e6
    begin_rows(*keys, n, offset, None, roles, counts, place, rows, g, h, weight, *units, sums)
    expected_roles, expected_counts = np.empty(n, np.uint8), np.zeros(4, np.int64)
    draw_roles(*keys, 0, n, offset, None, expected_roles, expected_counts)
    np.testing.assert_array_equal(roles, expected_roles)
    np.testing.assert_array_equal(counts, expected_counts)
    np.testing.assert_array_equal(counts, np.bincount(roles, minlength=4))
    np.testing.assert_array_equal(rows, np.argsort(roles, kind="stable"))
    x, y = (values.astype(np.float64) * (weight if weighted else 1.0) for values in (g, h))
    square = g.astype(np.float64) ** 2 * (weight if weighted else 1.0)
    parts = (np.abs(x), y, x * x, y * y, square)
    # each row is cut off at a whole number
    exact = [(part * unit).astype(np.int64).sum() for part, unit in zip(parts, units, strict=True)]
    np.testing.assert_array_equal(sums, exact)
