"""Remote fit: what the rows of a distributed fit have in common, and how it goes on when a worker is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.crew import Crew, WorkerLostError
from unbiasedgbm.distributed.station import TRAIN, WATCH, Plan, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster
from unbiasedgbm.training.harvest import GrownTree, Harvest

T = TypeVar("T")

# Losses in one iteration, or while one of them is being made good, after which a fit gives up.
_MOST_LOSSES = 10


@dataclass(frozen=True)
class Facts:
    """What is known of all training and validation rows.

    Attributes
    ----------
    n, n_rows, weighted, counted, max_weight
        As in `training.workspace.Rows`.
    n_watched : int
        Validation rows.
    watched_weighted : bool
    """

    n: int
    n_rows: int
    weighted: bool
    counted: bool
    max_weight: float
    n_watched: int
    watched_weighted: bool


class RemoteFit:
    """All that the rows of a fit have in common: the crew, the trees that are done, and what to do about a loss.

    Parameters
    ----------
    crew : Crew
    facts : Facts
    plan : Plan
    script : list of Step
        What brings a new station from its partitions to where `Plan` is the next thing that it needs.
    features : ndarray of shape (p,), FEATURE
    """

    def __init__(
        self,
        crew: Crew,
        facts: Facts,
        plan: Plan,
        script: list[Step],
        features: npt.NDArray[np.void],
    ) -> None:
        self.crew, self.facts, self.plan = crew, facts, plan
        self._script, self._features = script, features
        self._waiting: list[Step] = []
        # of all finished iterations, and of the last one
        self._done = Harvest(plan.mapper, plan.start.base, plan.start.trees)
        self._last: Sequence[GrownTree] = ()

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        return self.ask_together([list(steps)])[0]

    def ask_together(self, questions: list[list[Step]]) -> list[list[Any]]:
        """Send the steps that wait, then those of several questions; returns the answers to each of these."""
        steps = [*self._waiting, *chain.from_iterable(questions)]
        answers = iter(self.crew.ask(steps)[len(self._waiting) :])
        self._waiting = []
        return [list(islice(answers, len(steps))) for steps in questions]

    def later(self, steps: Sequence[Step]) -> None:
        """Steps that need no answer, to be sent with the next question."""
        self._waiting += steps

    def steadily(self, work: Callable[[], T]) -> T:
        """Do something that may be done again from the last finished iteration, until no worker is lost in it."""
        for _ in range(_MOST_LOSSES):
            try:
                return work()
            except WorkerLostError:
                self._recover()
        raise RuntimeError(f"{_MOST_LOSSES} times a worker was lost in the same iteration; the fit gives up.")

    def finished(self, grown: Sequence[GrownTree]) -> None:
        """Note that an iteration is finished: it is never done again."""
        self._done.add(grown)
        self._last = grown

    def recent(self) -> list[tuple[int, GrownTree]]:
        """The trees of the last iteration, by number."""
        first = self._done.n_trees - len(self._last)
        return [(first + k, tree) for k, tree in enumerate(self._last)]

    def _recover(self) -> None:
        """Put lost partitions on other workers, and bring all stations to the end of the last finished iteration."""
        for _ in range(_MOST_LOSSES):
            try:
                self._waiting = []
                self.crew.replace_lost()
                fresh = [member for member in self.crew.members if not member.loaded]
                n_trees = self._done.n_trees
                if fresh:
                    plan = self.plan
                    if n_trees:
                        plan = replace(plan, start=plan.start._replace(trees=self._done.ensemble(), new=False))
                    self.crew.ask([*self._script, ("build", (plan,))], fresh)
                for member in fresh:
                    member.loaded = True
                self.crew.ask([("rewind", (n_trees, self.recent(), self._features))])
                return
            except WorkerLostError:
                continue
        raise RuntimeError(f"{_MOST_LOSSES} workers were lost one after another; the fit gives up.")

    # -- measuring ---------------------------------------------------------------------------------------------------

    def measure(self, metric: Metric, which: str = TRAIN) -> float:
        """A metric at the current raw predictions."""
        if metric.values is not None:
            values = metric.values
            return self.steadily(lambda: self._statistics(which).mean(values))
        y, raw, weight = self.steadily(lambda: [self._collect(which, what) for what in ("y", "raw", "weight")])
        return metric.compute(y, raw, weight)

    def _statistics(self, which: str) -> RemoteStatistics:
        facts = self.facts
        if which == WATCH:
            return RemoteStatistics(self.ask, WATCH, facts.n_watched, facts.watched_weighted)
        return RemoteStatistics(self.ask, TRAIN, facts.n, facts.weighted)

    def _collect(self, which: str, what: str) -> Any:
        parts = sorted(self.ask(("collect", (which, what)))[0], key=lambda part: part[0])
        found = [part for _, part in parts if part is not None and len(part)]
        return np.concatenate(found) if found else None


class RemoteWatched:
    """Validation rows on the stations of a crew; see `training.loop.Watched`."""

    def __init__(self, fit: RemoteFit) -> None:
        self._fit = fit

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Add the trees of an iteration to the raw predictions."""
        fit = self._fit
        fit.steadily(lambda: fit.ask(("advance", (fit.recent(), booster.features))))

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""
        return self._fit.measure(metric, WATCH)
