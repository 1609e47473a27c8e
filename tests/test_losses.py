import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbiasedgbm import UnbiasedGBMRegressor
from unbiasedgbm.exact import exact_mean, exact_sum, weighted_quantile
from unbiasedgbm.losses import (
    REGRESSION_LOSSES,
    AbsoluteError,
    CustomLoss,
    GammaLoss,
    HuberLoss,
    LogLoss,
    MulticlassLogLoss,
    PoissonLoss,
    QuantileLoss,
    SquaredError,
    TweedieLoss,
    regression_loss,
)

SMOOTH = {
    "log_loss": (LogLoss(), lambda rng, n: rng.integers(0, 2, n).astype(float)),
    "squared_error": (SquaredError(), lambda rng, n: rng.normal(size=n)),
    "poisson": (PoissonLoss(), lambda rng, n: rng.poisson(2, n).astype(float)),
    "gamma": (GammaLoss(), lambda rng, n: rng.gamma(2, size=n) + 0.01),
    "tweedie": (TweedieLoss(1.3), lambda rng, n: rng.gamma(2, size=n) * rng.integers(0, 2, n)),
}
ALL = {
    **SMOOTH,
    "absolute_error": (AbsoluteError(), lambda rng, n: rng.normal(size=n)),
    "quantile": (QuantileLoss(0.8), lambda rng, n: rng.normal(size=n)),
    "huber": (HuberLoss(0.7), lambda rng, n: rng.normal(size=n)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_those_of_the_values(name):
    loss, draw = SMOOTH[name]
    rng = np.random.default_rng(0)
    y, raw, step = draw(rng, 50), rng.normal(size=50), 1e-4
    g, h = loss.gradients(y, raw)
    up, here, down = loss.values(y, raw + step), loss.values(y, raw), loss.values(y, raw - step)
    np.testing.assert_allclose(g, (up - down) / (2 * step), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, (up - 2 * here + down) / step**2, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["absolute_error", "quantile"])
def test_first_derivative_where_there_is_no_second(name):
    loss, draw = ALL[name]
    rng = np.random.default_rng(0)
    y, raw = draw(rng, 50), rng.normal(size=50)
    g, h = loss.gradients(y, raw)
    np.testing.assert_allclose(g, (loss.values(y, raw + 1e-6) - loss.values(y, raw - 1e-6)) / 2e-6, rtol=1e-6)
    np.testing.assert_array_equal(h, 1.0)
    assert (loss.gradients(y, y.copy())[0] == 0).all()


def test_huber_squares_its_share_of_the_residuals():
    rng = np.random.default_rng(0)
    y, raw = rng.normal(size=400), np.zeros(400)
    loss = HuberLoss(0.75)
    loss.prepare(y, raw, None)
    g, _ = loss.gradients(y, raw)
    assert (np.abs(g) < loss.delta).mean() == pytest.approx(0.75, abs=0.01)
    values = (loss.values(y, raw + 1e-6) - loss.values(y, raw - 1e-6)) / 2e-6
    np.testing.assert_allclose(g, values, atol=1e-5)


def test_multiclass_derivatives():
    rng = np.random.default_rng(0)
    loss, y, raw, step = MulticlassLogLoss(4), rng.integers(0, 4, 30).astype(float), rng.normal(size=(30, 4)), 1e-4
    g, h = loss.gradients(y, raw)
    for k in range(4):
        shift = step * (np.arange(4) == k)
        up, here, down = loss.values(y, raw + shift), loss.values(y, raw), loss.values(y, raw - shift)
        np.testing.assert_allclose(g[:, k], (up - down) / (2 * step), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(h[:, k], (up - 2 * here + down) / step**2, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(loss.predict(raw).sum(axis=1), 1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_start_is_the_best_constant(name, weighted):
    loss, draw = ALL[name]
    rng = np.random.default_rng(3)
    y = draw(rng, 101)
    weight = rng.integers(1, 5, 101).astype(float) if weighted else None
    start = float(loss.start(y, weight)[0])
    if name == "huber":
        assert start == weighted_quantile(y, weight, 0.5)
        return
    best = loss.mean(y, np.full(101, start), weight)
    for other in start + np.array([-0.3, -0.01, 0.01, 0.3]):
        assert best <= loss.mean(y, np.full(101, other), weight) + 1e-12


def test_start_of_multiclass_gives_the_shares():
    y = np.repeat([0.0, 1.0, 2.0], [10, 30, 60])
    np.testing.assert_allclose(
        MulticlassLogLoss(3).predict(MulticlassLogLoss(3).start(y, None)[None])[0], [0.1, 0.3, 0.6]
    )


@pytest.mark.parametrize("name", ALL)
def test_extreme_raw_predictions_stay_finite(name):
    loss, draw = ALL[name]
    y = draw(np.random.default_rng(0), 6)
    raw = np.array([-1e4, -800.0, -30.0, 30.0, 800.0, 1e4])
    g, h = loss.gradients(y, raw)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h > 0).all()
    assert np.isfinite(loss.values(y, raw)).all()
    assert np.isfinite(loss.predict(raw)).all()


@pytest.mark.parametrize("name", REGRESSION_LOSSES)
def test_losses_by_name(name):
    loss = regression_loss(name, quantile=0.3, huber_quantile=0.6, tweedie_power=1.7)
    assert loss.name == name
    assert getattr(loss, "level", 0.3) == {"quantile": 0.3, "huber": 0.6, "absolute_error": 0.5}.get(name, 0.3)
    assert getattr(loss, "power", 1.7) == 1.7


class TestExactSums:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50), st.randoms())
    def test_order_does_not_matter(self, values, random):
        shuffled = values.copy()
        random.shuffle(shuffled)
        assert exact_sum(np.array(values)) == exact_sum(np.array(shuffled))

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(1, 9)), min_size=1, max_size=40))
    def test_close_to_the_true_sum(self, pairs):
        values, weights = np.array([v for v, _ in pairs]), np.array([float(w) for _, w in pairs])
        true = float(np.sum(values.astype(np.longdouble) * weights))
        scale = np.abs(values).max() * weights.sum()
        assert abs(exact_sum(values, weights) - true) <= 1e-14 * scale + 1e-300

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(1, 300)), min_size=1, max_size=60))
    def test_weights_are_repetitions(self, pairs):
        values, weights = np.array([v for v, _ in pairs]), np.array([float(w) for _, w in pairs])
        repeated = np.repeat(values, weights.astype(int))
        assert exact_sum(values, weights) == exact_sum(repeated)
        assert exact_mean(values, weights) == exact_mean(repeated, None)

    @pytest.mark.parametrize("weight", [2.0**29, 2.0**40, 1e-300, 1e300, 0.1])
    def test_any_size_of_values_and_weights(self, weight):
        for size in (1e-290 if weight > 1 else 1e-3, 1.0, 1e300 if weight < 1 else 1e3):
            values = np.array([3.0, -1.0, 2.0]) * size
            assert exact_mean(values, np.full(3, weight)) == pytest.approx(4 / 3 * size, rel=1e-13)

    def test_many_rows_do_not_overflow(self):
        values = np.full(3_000_000, 1e9)
        assert exact_sum(values) == 3e15
        assert exact_sum(values, np.full(3_000_000, 65_535.0)) == 3e15 * 65_535

    def test_mean(self):
        values, weights = np.array([1.0, 2.0, 7.0]), np.array([1.0, 0.5, 3.0])
        assert exact_mean(values, weights) == pytest.approx(np.average(values, weights=weights), rel=1e-15)
        assert exact_mean(values, None) == pytest.approx(10 / 3, rel=1e-15)
        assert exact_mean(np.zeros(3), None) == 0.0


class TestWeightedQuantile:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), min_size=1, max_size=30), st.floats(0, 1))
    def test_weights_are_repetitions(self, pairs, level):
        values, weights = np.array([float(v) for v, _ in pairs]), np.array([float(w) for _, w in pairs])
        assert weighted_quantile(values, weights, level) == weighted_quantile(
            np.repeat(values, weights.astype(int)), None, level
        )

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0.01, 0.99))
    def test_equals_numpys(self, values, level):
        expected = np.quantile(values, level, method="averaged_inverted_cdf")
        got = weighted_quantile(np.array(values), None, level)
        # where level * n is a whole number up to rounding, either neighbour will do
        if abs(level * len(values) - round(level * len(values))) > 1e-9:
            assert got == expected
        else:
            assert min(values) <= got <= max(values)

    def test_median(self):
        assert weighted_quantile(np.array([3.0, 1.0, 2.0, 10.0]), None, 0.5) == 2.5


class TestCustom:
    def test_start_by_newton_steps(self):
        y = np.random.default_rng(0).poisson(3, 100).astype(float)
        loss = CustomLoss(PoissonLoss().gradients, PoissonLoss().values)
        np.testing.assert_allclose(loss.start(y, None), PoissonLoss().start(y, None), rtol=1e-10)

    @pytest.mark.parametrize("mean", [0.05, 100, 1e4])
    def test_start_far_from_zero(self, mean):
        y = np.random.default_rng(0).poisson(mean, 200).astype(float)
        # not bounded as our own is
        loss = CustomLoss(lambda y, raw: (np.exp(raw) - y, np.exp(raw)), lambda y, raw: np.exp(raw) - y * raw)
        np.testing.assert_allclose(loss.start(y, None), [np.log(y.mean())], rtol=1e-8)

    def test_start_where_no_step_lowers_the_loss(self):
        loss = CustomLoss(lambda y, raw: (raw - y, np.ones_like(raw)), lambda y, raw: -((raw - y) ** 2))
        np.testing.assert_array_equal(loss.start(np.array([1.0, 2.0]), None), [0.0])

    def test_wrong_shape(self):
        loss = CustomLoss(lambda y, raw: (raw[:-1], raw), lambda y, raw: raw)
        with pytest.raises(ValueError, match="loss: the gradient function must return g and h of shape"):
            loss.gradients(np.zeros(3), np.zeros(3))

    def test_not_finite(self):
        loss = CustomLoss(lambda y, raw: (raw * np.nan, raw), lambda y, raw: raw)
        with pytest.raises(ValueError, match="not finite"):
            loss.gradients(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize(
    ("loss", "bad", "good"),
    [
        (PoissonLoss(), [[-1.0, 2.0], [0.0, 0.0]], [0.0, 1.0]),
        (GammaLoss(), [[0.0, 1.0]], [0.1, 1.0]),
        (TweedieLoss(), [[-1.0, 2.0], [0.0, 0.0]], [0.0, 1.0]),
    ],
)
def test_domains(loss, bad, good):
    for y in bad:
        with pytest.raises(ValueError, match=f"loss='{loss.name}' needs y"):
            loss.check_target(np.array(y))
    loss.check_target(np.array(good))


def test_a_leaf_of_one_large_value_does_not_overshoot():
    """Newton's step for an exponential, from far below, was so long that predictions reached 1e19."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 6))
    claim = rng.random(4000) < 1 / (1 + np.exp(4 - X[:, 0]))
    y = np.where(claim, np.exp(6 + X[:, 1] + 0.5 * rng.normal(size=4000)), 0)
    found = UnbiasedGBMRegressor(loss="poisson", n_jobs=1).fit(X[:2000], y[:2000]).predict(X[2000:])
    assert 0.5 * y.mean() < found.mean() < 2 * y.mean()
    assert found.max() < y.max()
