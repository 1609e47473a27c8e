"""Several visits of every patient. A model that is not told believes that it can tell new patients' levels."""

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.model_selection import GroupKFold

from unbiasedgbm import UnbiasedGBMRegressor

rng = np.random.default_rng(0)
n_patients, n_visits = 150, 12
patient = np.repeat(np.arange(n_patients), n_visits)
X = pd.DataFrame(
    {
        "dose": rng.normal(size=len(patient)),
        "hours of sleep": rng.normal(size=len(patient)),
        "age": rng.normal(size=n_patients)[patient],
        "height": rng.normal(size=n_patients)[patient],
    }
)
# every patient has a level of their own, and nothing in the table tells it
level = 2.0 * rng.normal(size=n_patients)[patient]
pressure = X["dose"] + 0.5 * X["hours of sleep"] ** 2 + level + rng.normal(size=len(patient))

folds = list(GroupKFold(5).split(X, pressure, patient))
models = {
    "LightGBM": (LGBMRegressor(verbose=-1), False),
    "UnbiasedGBM": (UnbiasedGBMRegressor(), False),
    "UnbiasedGBM by groups": (UnbiasedGBMRegressor(), True),
}
errors = {}
for name, (model, told) in models.items():
    residuals = []
    for train, test in folds:
        groups = {"groups": patient[train]} if told else {}
        model.fit(X.iloc[train], pressure.iloc[train], **groups)
        residuals.append(pressure.iloc[test] - model.predict(X.iloc[test]))
    errors[name] = np.sqrt(np.mean(np.concatenate(residuals) ** 2))
    print(f"{name}: error on new patients {errors[name]:.3f}")
print(f"the best that can be had: {np.sqrt(2.0**2 + 1.0):.3f}")
