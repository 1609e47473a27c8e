"""Credit scoring on a table with a customer number in it. Who overfits it, and how one finds out."""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from unbiasedgbm import UnbiasedGBMClassifier, gain_importance, unbiased_gain

rng = np.random.default_rng(0)
n = 4000
X = pd.DataFrame(
    {
        "customer number": rng.permutation(n),
        "income": rng.lognormal(10, 0.6, n),
        "debt": rng.lognormal(9, 1.0, n),
        "late payments": rng.poisson(0.4, n),
        "owns a home": rng.integers(0, 2, n),
    }
)
risk = -2.5 + 0.8 * np.log(X["debt"] / X["income"] + 0.1) + 0.9 * X["late payments"] - 0.4 * X["owns a home"]
defaulted = rng.random(n) < 1 / (1 + np.exp(-risk))
X_train, X_val, y_train, y_val = train_test_split(X, defaulted, test_size=0.4, random_state=0)

models = {"LightGBM": LGBMClassifier(verbose=-1), "UnbiasedGBM": UnbiasedGBMClassifier()}
places = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    auc = roc_auc_score(y_val, model.predict_proba(X_val)[:, 1])
    honest = unbiased_gain(model, X_train, y_train, X_val, y_val)
    gain = gain_importance(model, X_train, y_train)
    places[name] = [1 + list(found.ranking()).index(0) for found in (gain, honest)]
    print(
        f"{name}: AUC {auc:.3f}; the customer number is number {places[name][0]} of 5 by gain, {places[name][1]} by ",
        end="",
    )
    print(f"unbiased gain ({honest.importance[0]:+.4f} ± {honest.se[0]:.4f})")
