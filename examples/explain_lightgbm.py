"""A LightGBM model with categories and a row id: unbiased gain beside gain, split count, permutation and SHAP."""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier

from unbiasedgbm import compare_importances

rng = np.random.default_rng(0)
n = 3000
X = pd.DataFrame(
    {
        "channel": pd.Categorical(rng.choice(["web", "shop", "phone"], n)),
        "over_50": rng.integers(0, 2, n),
        "zip_code": pd.Categorical(rng.integers(0, 300, n).astype(str)),  # says nothing
        "row_id": rng.permutation(n),  # says nothing
    }
)
bought = rng.random(n) < np.where(X["channel"] == "web", 0.6, 0.35) + 0.15 * X["over_50"]
model = LGBMClassifier(n_estimators=50, verbose=-1).fit(X[:2000], bought[:2000])

comparison = compare_importances(model, X[:2000], bought[:2000], X[2000:], bought[2000:])
ranks = comparison.to_frame().set_index("feature").filter(like="_rank")
print(ranks.to_string())
