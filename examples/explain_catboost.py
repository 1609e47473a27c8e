"""A CatBoost model with a category of 300 levels that says nothing."""

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier

from unbiasedgbm import unbiased_gain

rng = np.random.default_rng(1)
n = 3000
X = pd.DataFrame(
    {
        "product": rng.choice(["car", "house", "travel"], n),
        "income": rng.lognormal(10, 0.5, n),
        "branch": rng.integers(0, 300, n).astype(str),  # says nothing
    }
)
late = rng.random(n) < np.where(X["product"] == "travel", 0.6, 0.2) + 0.2 * (X["income"] < 20_000)
model = CatBoostClassifier(
    iterations=50, cat_features=["product", "branch"], verbose=False, allow_writing_files=False, random_seed=0
)
model.fit(X[:2000], late[:2000])

result = unbiased_gain(model, X[:2000], late[:2000], X[2000:], late[2000:])
print(result)
