"""Unbiased gain of a trained model over rows on a Dask cluster: the numbers of `importance.unbiased_gain`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from distributed import Client

from unbiasedgbm.distributed.clients import chosen_client
from unbiasedgbm.distributed.crew import Crew, WorkerLostError
from unbiasedgbm.distributed.inputs import partitions
from unbiasedgbm.distributed.station import MERGE, TRAIN, WATCH, Station, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics
from unbiasedgbm.distributed.survey import n_rows_of
from unbiasedgbm.ensemble.adapters import TreeModel, read_model
from unbiasedgbm.exact import RowStatistics, Scale, units_sum
from unbiasedgbm.importance.gain import judge_model
from unbiasedgbm.importance.result import FloatArray, Importance, group_names
from unbiasedgbm.importance.rows import GainRows, RowSet, TreeSums
from unbiasedgbm.importance.score import TreeScores
from unbiasedgbm.importance.sums import LongArray
from unbiasedgbm.importance.units import Members, Units
from unbiasedgbm.importance.walk import GainOptions
from unbiasedgbm.losses import Loss

# Times that the walk is begun anew because a worker was lost.
_ATTEMPTS = 5


def unbiased_gain(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_val: Any,
    y_val: Any,
    *,
    sample_weight_train: Any = None,
    sample_weight_val: Any = None,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    level: float = 0.95,
    min_rows: int = 5,
    paper_sums: bool = False,
    n_jobs: int | None = None,
    client: Client | None = None,
) -> Importance:
    """Unbiased gain of a trained model over rows on a Dask cluster.

    The numbers are those of `unbiasedgbm.unbiased_gain` on the same rows, to the bit, however they are cut.

    Parameters
    ----------
    model : object
        Any model that `unbiasedgbm.unbiased_gain` takes, and that can be pickled. If it weights classes by itself, it
        must be one of this library.
    X_train, y_train, X_val, y_val
        Dask collections or lists of delayed tables, cut at the same rows.
    sample_weight_train, sample_weight_val, groups, level, min_rows, paper_sums
        As in `unbiasedgbm.unbiased_gain`. Its ``loss``, ``draws``, ``random_state`` and offsets need all rows in one
        place. It is not checked whether rows of one table are in the other.
    n_jobs : int, optional
        Threads on each worker; None for those that it has.
    client : Client, default=None
        None for Dask's current one.

    Returns
    -------
    Importance
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}.")
    for name, given in (("X_train", X_train), ("y_train", y_train), ("X_val", X_val), ("y_val", y_val)):
        if given is None:
            raise ValueError(f"{name} must be a collection of all rows, got None.")
    client = chosen_client(client)
    local = model.to_local() if hasattr(model, "to_local") else model
    tree_model = read_model(local, None).named_by(X_train)
    members = group_names(groups, tree_model.feature_names, tree_model.stored_names)
    options = GainOptions(min_rows, paper_sums).for_model(tree_model)
    for attempt in range(_ATTEMPTS):
        crew = None
        # anew, with keys of their own: those of the last attempt are cancelled
        trained, held = (
            partitions(X_train, y_train, sample_weight_train, "_train"),
            partitions(X_val, y_val, sample_weight_val, "_val"),
        )
        parts = {(TRAIN, i): part for i, part in enumerate(trained)}
        parts |= {(WATCH, i): part for i, part in enumerate(held)}
        try:
            crew = Crew(client, parts, n_jobs, GainStation)
            rows = RemoteGainRows(crew, local, tree_model, members, options.paper_sums)
            return judge_model(tree_model, rows.units, rows, options, members, level)
        except WorkerLostError as error:
            if attempt + 1 == _ATTEMPTS:
                raise RuntimeError(f"{_ATTEMPTS} times in a row a worker was lost.") from error
        finally:
            if crew is not None:
                crew.close()
    raise AssertionError("unreachable")


class RemoteGainRows(GainRows):
    """Rows on the stations of a crew; see `importance.rows.GainRows`.

    Parameters
    ----------
    crew : Crew
    model : object
        The model itself; stations read it again.
    tree_model : TreeModel
    members : mapping
        Feature numbers of each group.
    paper_sums : bool
    """

    def __init__(self, crew: Crew, model: Any, tree_model: TreeModel, members: Members, paper_sums: bool) -> None:
        self._crew, self.model, self.paper_sums = crew, tree_model, paper_sums
        self.units = Units.of(tree_model, members)
        self._together, self._paths = None, None
        self._waiting: list[Step] = []
        n_classes = len(model.classes_) if hasattr(model, "classes_") else 0
        sizes = np.zeros(n_classes, np.int64)
        self.n_train = self.n_held = 0
        self._weighted = False
        some_weight = {"train": False, "val": False}
        for n_train, n_held, weighted, found, weighty in self.ask(("open", (model, members, paper_sums, n_classes)))[0]:
            some_weight |= dict.fromkeys(weighty, True)
            self.n_train, self.n_held, self._weighted = (
                self.n_train + n_train, self.n_held + n_held, self._weighted or weighted,
            )  # fmt: skip
            sizes += found
        for name, n in (("train", self.n_train), ("val", self.n_held)):
            if n == 0:
                raise ValueError(f"X_{name} has no rows.")
            if not some_weight[name]:
                raise ValueError(f"sample_weight_{name} must be finite, not negative and not all zero.")
        if tree_model.class_weight is not None:
            if not hasattr(model, "_weights_by_class"):
                raise ValueError(f"model: the class weights of {tree_model.name} need all rows in one place.")
            self._waiting.append(("times", (model._weights_by_class(sizes),)))
            self._weighted = True

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        waiting, self._waiting = self._waiting, []
        return self._crew.ask([*waiting, *steps])[len(waiting) :]

    def statistics(self) -> RowStatistics:
        """Statistics of the training rows."""
        return RemoteStatistics(self.ask, TRAIN, self.n_train, self._weighted)

    def begin_prepared(self, loss: Loss) -> None:
        """Begin an iteration, when the next question is asked."""
        prepared = type(loss).prepare_over is not Loss.prepare_over
        self._waiting.append(("begin", (loss if prepared else None,)))

    def largest(self, number: int) -> FloatArray:
        """Largest gradients and masses for a tree."""
        found: FloatArray = self.ask(("largest", (number,)))[0]
        return found

    def sums(self, number: int, position: int, units: FloatArray) -> TreeSums:
        """Sums over the rows of a tree."""
        found: TreeSums = self.ask(("sums", (number, position, units)))[0]
        return found

    def add(self, number: int, position: int, scores: TreeScores) -> None:
        """Add contributions of held-out rows, when the next question is asked."""
        self._waiting.append(("contribute", (number, position, scores)))

    def advance(self, number: int, mean: FloatArray) -> None:
        """Add one tree to the predictions, when the next question is asked."""
        self._waiting.append(("forward", (number, mean)))

    def prove(self) -> None:
        """Raise unless the sums of leaf values are the model's own predictions."""
        self.ask(("prove", ()))

    def slope_sums(self) -> tuple[float, float]:
        """Slope of the training loss along the way of the predictions, at its beginning and on average."""
        beginning, average = self._exact_sums("slopes")
        return beginning, average

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Σψ² and Σψ⁴ of all features and groups of features."""
        found = np.array(self._exact_sums("powers"))
        return found[: len(found) // 2], found[len(found) // 2 :]

    def _exact_sums(self, name: str) -> list[float]:
        """Sums over all rows of what stations compute by a method of `GainRows`."""
        scales = self.ask(("column_scales", (name,)))[0]
        units = self.ask(("column_units", (name, scales)))[0]
        return [scale.value(total) for scale, total in zip(scales, units, strict=True)]


def _largest(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.maximum(a, b)


def _joined(a: list[Scale], b: list[Scale]) -> list[Scale]:
    return [one.join(other) for one, other in zip(a, b, strict=True)]


def _added(a: list[int], b: list[int]) -> list[int]:
    return [one + other for one, other in zip(a, b, strict=True)]


def _nothing(a: None, b: None) -> None:
    return None


MERGE |= {
    "open": operator.add,
    "times": _nothing,
    "begin": _nothing,
    "largest": _largest,
    "sums": operator.add,
    "contribute": _nothing,
    "forward": _nothing,
    "prove": _nothing,
    "column_scales": _joined,
    "column_units": _added,
}


class GainStation(Station):
    """A station whose rows judge a model that is trained already."""

    _gain: GainRows

    def _do_open(
        self, model: Any, members: Members, paper_sums: bool, n_classes: int
    ) -> list[tuple[int, int, bool, LongArray, list[str]]]:
        """Bind all partitions to the model.

        Returns
        -------
        list of one tuple
            Training rows, held-out rows, whether they have weights, training rows of each class, and of "train" and
            "val" those that have a row with a positive weight.
        """
        tree_model = read_model(model, None)
        found: dict[str, list[RowSet]] = {TRAIN: [], WATCH: []}
        for (kind, _), (X, y, weight) in self._raw.items():
            name, n_rows = "train" if kind == TRAIN else "val", n_rows_of(X)
            if n_rows == 0 and np.size(y):
                raise ValueError(f"X_{name} has no rows in a partition in which y_{name} has {np.size(y)}.")
            if n_rows:
                found[kind].append(RowSet.of(tree_model, X, y, weight, name, self._pool.n_threads, whole=False))
        self._raw = {}
        self._gain = GainRows(tree_model, Units.of(tree_model, members), found[TRAIN], found[WATCH], paper_sums)
        weighted = any(part.weight is not None for part in found[TRAIN])
        sizes = np.zeros(n_classes, np.int64)
        for part in found[TRAIN] if n_classes else []:
            sizes += np.bincount(part.y.astype(np.intp), minlength=n_classes)
        parts = [*found[TRAIN], *found[WATCH]]
        weighty = [part.name for part in parts if part.weight is None or part.weight.any()]
        return [(self._gain.n_train, self._gain.n_held, weighted, sizes, weighty)]

    def _do_times(self, by_class: FloatArray) -> None:
        """Weight rows by their classes."""
        gain = self._gain
        train, held = ([part.times(by_class) for part in parts] for parts in (gain.train, gain.held))
        self._gain = GainRows(gain.model, gain.units, train, held, gain.paper_sums)

    def _columns(self, which: str) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        if not self._gain.train:
            return np.empty(0), np.empty(0), None
        statistics = self._gain.statistics()
        return statistics.y, statistics.raw, statistics.weight

    def _do_begin(self, loss: Loss | None) -> None:
        self._gain.begin_prepared(loss or self._gain.model.loss)

    def _do_largest(self, number: int) -> FloatArray:
        return self._gain.largest(number)

    def _do_sums(self, *arguments: Any) -> TreeSums:
        return self._gain.sums(*arguments)

    def _do_contribute(self, *arguments: Any) -> None:
        self._gain.add(*arguments)

    def _do_forward(self, *arguments: Any) -> None:
        self._gain.advance(*arguments)

    def _do_prove(self) -> None:
        self._gain.prove()

    def _do_column_scales(self, name: str) -> list[Scale]:
        return [Scale.of(values, None) for values in getattr(self._gain, name)()]

    def _do_column_units(self, name: str, scales: list[Scale]) -> list[int]:
        values = getattr(self._gain, name)()
        return [units_sum(one, None, scale) for one, scale in zip(values, scales, strict=True)]
