"""Importance of an XGBoost model: gain ranks a column of random numbers high, unbiased gain does not."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

from unbiasedgbm import gain_importance, unbiased_gain

X, y = load_diabetes(return_X_y=True, as_frame=True)
X["random number"] = np.random.default_rng(0).normal(size=len(X))
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.4, random_state=0)
model = XGBRegressor(n_estimators=50, max_depth=3, learning_rate=0.1).fit(X_train, y_train)

gain = gain_importance(model)
honest = unbiased_gain(model, X_train, y_train, X_val, y_val)
print(gain, honest, sep="\n\n")
