import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, make_scorer, mean_absolute_error, roc_auc_score

from unbiasedgbm.losses import LogLoss, MulticlassLogLoss, PoissonLoss, SquaredError
from unbiasedgbm.metrics import make_metrics


def test_loss():
    y, raw, weight = np.array([0.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 2.0])
    (metric,) = make_metrics("loss", SquaredError(), None)
    assert not metric.greater_is_better
    assert metric.compute(y, raw, None) == pytest.approx((0.5 + 0 + 2) / 3)
    assert metric.compute(y, raw, weight) == pytest.approx((0.5 + 0 + 4) / 4)


def test_scorers_see_labels_and_probabilities():
    rng = np.random.default_rng(0)
    number, raw = rng.integers(0, 2, 50).astype(float), rng.normal(size=50)
    classes = np.array(["a", "b"])
    auc, accuracy = make_metrics(["roc_auc", "accuracy"], LogLoss(), classes)
    (brier,) = make_metrics("neg_brier_score", LogLoss(), np.array([0, 1]))
    p = 1 / (1 + np.exp(-raw))
    assert auc.greater_is_better
    assert auc.compute(number, raw, None) == pytest.approx(roc_auc_score(number, raw))
    assert accuracy.compute(number, raw, None) == np.mean((raw > 0) == (number == 1))
    assert brier.compute(number, raw, None) == pytest.approx(-brier_score_loss(number, p))


def test_multiclass():
    rng = np.random.default_rng(0)
    number, raw = rng.integers(0, 3, 60).astype(float), rng.normal(size=(60, 3))
    accuracy, auc = make_metrics(["accuracy", "roc_auc_ovr"], MulticlassLogLoss(3), np.array([3, 5, 7]))
    assert accuracy.compute(number, raw, None) == np.mean(raw.argmax(axis=1) == number)
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    assert auc.compute(number, raw, None) == pytest.approx(roc_auc_score(number, p, multi_class="ovr"))


def test_regression_scorers_see_the_mean_not_the_raw_prediction():
    y, raw = np.array([1.0, 2.0]), np.log([1.5, 1.0])
    (metric,) = make_metrics([make_scorer(mean_absolute_error, greater_is_better=False)], PoissonLoss(), None)
    assert metric.compute(y, raw, None) == pytest.approx(-0.75)


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (3, "scoring must be"),
        ([], "scoring must be"),
        ("nonsense", "scoring: 'nonsense'"),
        (["loss", "loss"], "scoring has a metric twice"),
    ],
)
def test_bad_scoring(scoring, message):
    with pytest.raises(ValueError, match=message):
        make_metrics(scoring, SquaredError(), None)
