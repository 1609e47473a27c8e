"""What a method is: an estimator of some library, its native way with categories, the paper's search space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from optuna import Trial

Params = Mapping[str, Any]


class Method(ABC):
    """A booster with everything that the study does to it.

    A method is a class in a file of its own. It says how to build the estimator (:meth:`estimator`), how its library
    wants categories (:meth:`columns`, :meth:`fit_arguments`) and, if the paper tunes it, what to tune
    (:meth:`suggest`). Libraries are imported inside the methods, so that a missing one fails only where it is used.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str]
    tuned: ClassVar[bool] = False
    few_trees: ClassVar[Params | None] = None
    """Parameters of a short fit, for a library that compiles what it needs when it is first called."""
    takes_groups: ClassVar[bool] = False
    """Whether it is told which training rows belong together, where that is known."""

    @abstractmethod
    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return an unfitted scikit-learn style estimator: the library's defaults, then `params`."""

    def columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features as this library wants them."""
        return X

    def fit_arguments(self, X: pd.DataFrame) -> dict[str, Any]:
        """Return further arguments of ``fit``, e.g. which columns are categories."""
        return {}

    def suggest(self, trial: Trial, scale: str) -> dict[str, Any]:
        """Draw parameters from the paper's search space for a ``"small"`` or ``"medium"`` table."""
        raise NotImplementedError(f"{self.title} is compared untuned only")

    def warm_up(self, task: str, X: pd.DataFrame, y: np.ndarray, params: Params, **how: Any) -> None:
        """Have the library compile what a fit and a prediction need, so that their time is not that of the compiler."""
        if self.few_trees is not None:
            self.fit(task, X, y, {**params, **self.few_trees}, **how).predict(X.iloc[:100])

    def fit(
        self,
        task: str,
        X: pd.DataFrame,
        y: np.ndarray,
        params: Params,
        *,
        seed: int,
        threads: int,
        groups: np.ndarray | None = None,
    ) -> Fitted:
        """Fit on training rows; ``groups`` says which belong together, to a method that takes it."""
        estimator = self.estimator(task, params, seed, threads)
        columns = self.columns(X)
        arguments = self.fit_arguments(columns)
        if self.takes_groups:
            arguments["groups"] = groups
        estimator.fit(columns, y, **arguments)
        return Fitted(self, task, estimator)

    @property
    def version(self) -> str:
        """The version of the library."""
        return version(self.package)


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator that predicts what the metrics want."""

    method: Method
    task: str
    estimator: Any

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the probability of class 1 (n,), of all classes (n, k), or values (n,), as float64."""
        columns = self.method.columns(X)
        if self.task == "regression":
            return np.asarray(self.estimator.predict(columns), dtype=np.float64).ravel()
        probability = np.asarray(self.estimator.predict_proba(columns), dtype=np.float64)
        return probability[:, 1] if self.task == "binary" else probability


def category_names(X: pd.DataFrame) -> list[str]:
    """Names of the category columns."""
    return list(X.columns[[isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes]])


def plain_names(X: pd.DataFrame) -> pd.DataFrame:
    """Number the columns f0, f1, ...: some libraries refuse brackets, commas or colons in names."""
    return X.set_axis([f"f{index}" for index in range(X.shape[1])], axis=1)


def boosting_space(trial: Trial, scale: str) -> dict[str, Any]:
    """Draw what the paper tunes alike in all methods: number of trees and learning rate, both on a log scale."""
    return {
        "n_estimators": trial.suggest_int("n_estimators", 200, 3000 if scale == "small" else 6000, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.005, 0.05, log=True),
    }
