"""Optuna draws parameters and ends hopeless trials early. The rows that chose them are not those that judge."""

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.callbacks import OptunaPruning

X, y = load_breast_cancer(return_X_y=True)
X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
X_train, X_val, y_train, y_val = train_test_split(X_rest, y_rest, random_state=0)


def objective(trial):
    """Validation loss of one draw."""
    model = UnbiasedGBMClassifier(
        learning_rate=trial.suggest_float("learning_rate", 0.005, 0.3, log=True),
        num_leaves=trial.suggest_int("num_leaves", 3, 64, log=True),
        n_estimators=80,
    )
    model.fit(X_train, y_train, X_val=X_val, y_val=y_val, callbacks=[OptunaPruning(trial)])
    return min(model.history_["validation"]["loss"])


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    direction="minimize",
    sampler=optuna.samplers.RandomSampler(seed=0),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=10),
)
study.optimize(objective, n_trials=12)
pruned = study.get_trials(states=[optuna.trial.TrialState.PRUNED])
best = UnbiasedGBMClassifier(**study.best_params).fit(X_rest, y_rest)
print(f"{len(pruned)} of {len(study.trials)} trials ended early. Best: {study.best_params}")
print("Accuracy on the third part:", round(best.score(X_test, y_test), 4))
