"""A loss of your own: being too low costs three times as much as being too high. Used in training and in importance."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from unbiasedgbm import UnbiasedGBMRegressor, unbiased_gain


def cost(y, raw):
    """Price of a unit of squared error in each row."""
    return np.where(raw < y, 3.0, 1.0)


def gradients(y, raw):
    """First and second derivative of the loss by the raw prediction."""
    return cost(y, raw) * (raw - y), cost(y, raw)


def values(y, raw):
    """Loss of each row."""
    return 0.5 * cost(y, raw) * (raw - y) ** 2


X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.4, random_state=0)
careful = UnbiasedGBMRegressor(loss=(gradients, values)).fit(X_train, y_train)
# a loss of your own begins from a constant, so let squared error do the same
plain = UnbiasedGBMRegressor(linear_start=False).fit(X_train, y_train)
too_low = {name: float(np.mean(model.predict(X_val) < y_val)) for name, model in (("ours", careful), ("plain", plain))}
price = {name: values(y_val, model.predict(X_val)).mean() for name, model in (("ours", careful), ("plain", plain))}
print(f"Too low: {too_low['plain']:.0%} of the rows by squared error, {too_low['ours']:.0%} by our loss.")
print(f"Price on unseen rows: {price['plain']:.0f} and {price['ours']:.0f}.")
result = unbiased_gain(careful, X_train, y_train, X_val, y_val)
print(result)
