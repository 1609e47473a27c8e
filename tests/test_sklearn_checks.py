"""scikit-learn's own checks, all of them: no skips, no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


@parametrize_with_checks([UnbiasedGBMClassifier(), UnbiasedGBMRegressor()])
def test_sklearn_check(estimator, check):
    check(estimator)
