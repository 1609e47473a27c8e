"""scikit-learn's HistGradientBoosting has no importances of its own. Every row is held out once (cross-fitting)."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from unbiasedgbm import cross_unbiased_gain

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X["random number"] = np.random.default_rng(0).normal(size=len(X))
result = cross_unbiased_gain(HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8), X, y, cv=5)
print(result)
print("Features with an adjusted p-value below 5 %:", int((result.p_adjusted < 0.05).sum()), "of", X.shape[1])
