"""FittedModel: all that prediction, continuing, saving and explaining need of a trained estimator."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.predict import Walk, leaves, prepare, raw_predict
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.frames import Schema, Table
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Progress

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FittedModel:
    """A trained ensemble and its surroundings.

    Attributes
    ----------
    schema : Schema
        How tables are read.
    ensemble : TreeEnsemble
    progress : Progress
        Where training stood.
    seed : int
    n_iterations : int
        Iterations that predictions use.
    history : dict
        Metrics by set and name.
    fingerprint : str
        Tells the training rows from others, where a checkpoint needs it; else empty.
    watched : dict
        Tells the rows that early stopping looked at from others, by set.
    """

    schema: Schema
    ensemble: TreeEnsemble
    progress: Progress
    seed: int
    n_iterations: int
    history: dict[str, dict[str, list[float]]]
    fingerprint: str = ""
    watched: dict[str, str] = field(default_factory=dict)

    @cached_property
    def walk(self) -> Walk:
        """The ensemble as it is walked."""
        return prepare(self.ensemble)

    @property
    def n_outputs(self) -> int:
        """Raw predictions a row."""
        return self.ensemble.n_outputs

    @property
    def n_trees_each(self) -> int:
        """Trees of an iteration: one for each bag and output."""
        return len(self.progress.memories)

    @property
    def n_bags(self) -> int:
        """Chains of trees that the model is the mean of."""
        return self.n_trees_each // self.n_outputs

    def n_trees(self, n_iterations: int) -> int:
        """Trees of the line and of the first iterations."""
        return self.progress.n_line + n_iterations * self.n_trees_each

    def read(self, X: Any, estimator_name: str) -> Table:
        """Read a table as the training table was read."""
        return self.schema.read(X, estimator_name=estimator_name)

    def raw(self, table: Table, n_iterations: int | None, pool: Pool) -> FloatArray:
        """Raw predictions of the first iterations, shape (n, n_outputs)."""
        last = self.n_trees(self.n_iterations if n_iterations is None else n_iterations)
        return raw_predict(self.walk, self.ensemble.base, table, 0, last, pool)

    def staged(self, table: Table, pool: Pool) -> Any:
        """Raw predictions after each iteration, one array after another."""
        raw = np.broadcast_to(self.ensemble.base, (table.n_rows, self.n_outputs))
        first = 0
        for k in range(1, self.n_iterations + 1):
            last = self.n_trees(k)
            raw = raw_predict(self.walk, raw, table, first, last, pool)
            first = last
            yield raw

    def leaves(self, table: Table, pool: Pool) -> npt.NDArray[np.int32]:
        """Leaf of each row in each tree that predictions use, one column a tree."""
        return leaves(self.walk, table, self.n_trees(self.n_iterations), pool)


def copy_history(history: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    """A history of its own."""
    return {name: {metric: [*values] for metric, values in metrics.items()} for name, metrics in history.items()}
