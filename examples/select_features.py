"""Selection inside a pipeline: the folds that judge the model had no part in the choice of its features."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from unbiasedgbm import UnbiasedGainSelector, UnbiasedGBMClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
X = X.assign(**{f"noise {k}": rng.normal(size=len(X)) for k in range(30)})

judge = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8)
selector = UnbiasedGainSelector(judge, mode="fdr", param=0.1, cv=5)
kept = selector.fit(X, y).get_feature_names_out()
print(f"Kept {len(kept)} of {X.shape[1]}: {', '.join(kept)}")

model = make_pipeline(selector, UnbiasedGBMClassifier())
print("AUC with these features:", cross_val_score(model, X, y, cv=3, scoring="roc_auc").mean().round(4))
