"""Tuning with Optuna: unpromising trials end early, and the paper's search space."""

from __future__ import annotations

from typing import Any

from unbiasedgbm.callbacks.protocol import BaseCallback, TrainingState

# Most iterations in the paper's search space, for its small and its medium tables.
_MOST_ITERATIONS = {"small": 3000, "medium": 6000}


class OptunaPruning(BaseCallback):
    """Reports the first validation metric to a trial after every iteration, and ends the trial if it is hopeless.

    Parameters
    ----------
    trial : optuna.trial.Trial
    metric : str, optional
        Another metric of ``scoring``.

    Examples
    --------
    >>> import optuna
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> from unbiasedgbm.callbacks import OptunaPruning
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> trial = optuna.create_study(direction="minimize").ask()
    >>> model = UnbiasedGBMClassifier(n_estimators=5)
    >>> _ = model.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:], callbacks=[OptunaPruning(trial)])
    """

    def __init__(self, trial: Any, metric: str | None = None) -> None:
        self.trial = trial
        self.metric = metric

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Report; raises optuna.TrialPruned where the study's pruner says so."""
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("OptunaPruning needs optuna: pip install 'unbiasedgbm[tune]'.") from error
        metrics = state.history.get("validation", {})
        metric = self.metric or next(iter(state.greater_is_better))
        if metric not in metrics:
            raise ValueError(
                f"OptunaPruning: there is no validation metric {self.metric or ''!r}; give X_val and y_val to fit, and "
                f"name one of {list(metrics)}."
            )
        upwards = self.trial.study.direction == optuna.study.StudyDirection.MAXIMIZE
        if upwards != state.greater_is_better[metric]:
            wanted = "maximize" if state.greater_is_better[metric] else "minimize"
            raise ValueError(f"OptunaPruning: {metric!r} needs a study with direction={wanted!r}.")
        self.trial.report(metrics[metric][-1], step=state.iteration)
        if self.trial.should_prune():
            raise optuna.TrialPruned(f"Pruned after {state.iteration} iterations.")
        return None


def suggest_params(trial: Any, size: str = "small") -> dict[str, Any]:
    """Parameters from the search space of the paper, for its split rule.

    Parameters
    ----------
    trial : optuna.trial.Trial
    size : {"small", "medium"}, default="small"
        The paper's tables of up to 4,000 rows, or of about 10,000: these may have more iterations.

    Returns
    -------
    dict
        For the constructor of an estimator. ``min_split_gain`` is in the units of ``split_rule="merged"``, which is
        set, too.

    Examples
    --------
    >>> import optuna
    >>> from unbiasedgbm import suggest_params
    >>> trial = optuna.create_study().ask()
    >>> sorted(suggest_params(trial))
    ['learning_rate', 'min_samples_leaf', 'min_split_gain', 'n_estimators', 'split_rule']
    """
    if size not in _MOST_ITERATIONS:
        raise ValueError(f"size must be 'small' or 'medium'; got {size!r}.")
    return {
        "split_rule": "merged",
        "n_estimators": trial.suggest_int("n_estimators", 200, _MOST_ITERATIONS[size], log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.005, 0.05, log=True),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 2, 20, log=True),
        "min_split_gain": trial.suggest_float("min_split_gain", -0.1, 0.1),
    }
