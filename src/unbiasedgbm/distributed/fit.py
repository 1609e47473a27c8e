"""Remote fit: what the rows of a distributed fit have in common, and how it goes on when a worker is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, TypeVar

import numpy as np

from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.crew import Crew, WorkerLostError
from unbiasedgbm.distributed.leader import Delivery
from unbiasedgbm.distributed.station import TRAIN, WATCH, Plan, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster, Lane, Progress
from unbiasedgbm.training.harvest import GrownTree, Harvest

T = TypeVar("T")

# Losses in one order, or while one of them is being made good, after which a fit gives up.
_MOST_LOSSES = 10


class RemoteFit:
    """All that the rows of a fit have in common: the crew, the trees that are done, and what to do about a loss.

    Parameters
    ----------
    crew : Crew
    brief : Brief
    plan : Plan
    script : list of Step
        What brings a new station from its partitions to where `Plan` is the next thing that it needs.
    """

    def __init__(self, crew: Crew, brief: Brief, plan: Plan, script: list[Step]) -> None:
        self.crew, self.brief, self.plan = crew, brief, plan
        self._script = script
        # what needs no answer, by lane
        self._waiting: dict[int, list[Step]] = {}
        # of all finished orders, and of the last one
        self._done = Harvest(plan.mapper, plan.start.base, plan.start.trees)
        self._last: Sequence[GrownTree] = ()
        crew.appoint(brief)

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        waiting = list(chain.from_iterable(self._waiting.values()))
        answers = self.crew.ask([*waiting, *steps])[len(waiting) :]
        self._waiting = {}
        return answers

    def iterate(
        self, lanes: Sequence[int], progress: Progress, n: int
    ) -> tuple[dict[int, list[list[GrownTree]]], Progress]:
        """The trees of the next iterations in some lanes, by bag, and the progress with what they have taught.

        Parameters
        ----------
        lanes : sequence of int
        progress : Progress
            At the end of the last one; unchanged.
        n : int
            Iterations.
        """
        deliveries: list[Delivery] = self.crew.iterate(lanes, self._waiting, progress, n)
        grown: dict[int, list[list[GrownTree]]] = {}
        progress = progress.copy()
        for lane, found in zip(lanes, deliveries, strict=True):
            grown |= found.grown
            self._waiting[lane] = found.waiting
            for place, memory in found.memories.items():
                progress.memories[place] = memory
            # measured once and for all: the same for everyone
            progress.start_dispersion, progress.start_squares = found.measured
            if found.loss is not None:
                # metrics ask for it, too
                vars(self.brief.loss).update(found.loss)
        return grown, progress

    def steadily(self, work: Callable[[], T]) -> T:
        """Do something that may be done again from the last finished order, until no worker is lost in it."""
        for _ in range(_MOST_LOSSES):
            try:
                return work()
            except WorkerLostError:
                self._recover()
        raise RuntimeError(f"{_MOST_LOSSES} times a worker was lost in the same order; the fit gives up.")

    def finished(self, grown: Sequence[GrownTree]) -> None:
        """Note that an order is finished, with these trees: it is never done again."""
        self._done.add(grown)
        self._last = grown

    def recent(self) -> list[tuple[int, GrownTree]]:
        """The trees of the last order, by number."""
        first = self._done.n_trees - len(self._last)
        return [(first + k, tree) for k, tree in enumerate(self._last)]

    def _recover(self) -> None:
        """Put lost partitions on other workers, and bring all stations to the end of the last finished order."""
        for _ in range(_MOST_LOSSES):
            try:
                self._waiting = {}
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
                self.crew.ask([("rewind", (n_trees, self.recent(), self.brief.features))])
                self.crew.appoint(self.brief)
                return
            except WorkerLostError:
                continue
        raise RuntimeError(f"{_MOST_LOSSES} workers were lost one after another; the fit gives up.")

    # -- measuring ---------------------------------------------------------------------------------------------------

    def measure(self, metric: Metric, which: str) -> float:
        """A metric at the current raw predictions."""
        if metric.values is not None:
            values = metric.values
            return self.steadily(lambda: self._statistics(which).mean(values))
        y, raw, weight = self.steadily(lambda: [self._collect(which, what) for what in ("y", "raw", "weight")])
        return metric.compute(y, raw, weight)

    def _statistics(self, which: str) -> RemoteStatistics:
        facts = self.brief.facts
        if which == WATCH:
            return RemoteStatistics(self.ask, WATCH, facts.n_watched, facts.watched_weighted)
        return RemoteStatistics(self.ask, TRAIN, facts.n, facts.weighted)

    def _collect(self, which: str, what: str) -> Any:
        parts = sorted(self.ask(("collect", (which, what)))[0], key=lambda part: part[0])
        found = [part for _, part in parts if part is not None and len(part)]
        return np.concatenate(found) if found else None


class RemoteWatched:
    """Training or validation rows on the stations of a crew, whose metrics are recorded; see `training.loop.Watched`.

    Parameters
    ----------
    fit : RemoteFit
    which : {TRAIN, WATCH}
    """

    def __init__(self, fit: RemoteFit, which: str) -> None:
        self._fit, self._which = fit, which

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Add the trees of an iteration to the raw predictions; a single bag of training rows has them."""
        fit = self._fit
        if self._which == WATCH or booster.parameters.n_bags > 1:
            fit.steadily(lambda: fit.ask(("advance", (self._which, fit.recent(), booster.features))))

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""
        return self._fit.measure(metric, self._which)


@dataclass
class RemoteBooster(Booster):
    """A booster whose iterations are ordered of a cluster."""

    fit: RemoteFit

    # an order costs a round, and at its end lanes wait for each other
    seconds_ahead: ClassVar[float] = 4.0

    def _make_lanes(self) -> list[Lane]:
        return []

    def run_ahead(self, n: int) -> list[list[GrownTree]]:
        """Up to ``n`` iterations, in which lanes need not wait for each other; begun again if a worker is lost."""
        # never beyond the iteration after which boosting may end; the first tree of a fit comes before any other, and
        # metrics look at what a loss has learned of rows
        n = max(1, min(n, self._left())) if self._is_measured() and not self.loss.prepares else 1
        iterations, self.progress = self.fit.steadily(partial(self._order, n))
        for grown in iterations:
            self._end_iteration(grown)
        self.fit.finished([tree for grown in iterations for tree in grown])
        return iterations

    def _order(self, n: int) -> tuple[list[list[GrownTree]], Progress]:
        """The trees of ``n`` iterations, each bag by bag, and the progress with what they have taught."""
        lanes, progress = range(self.fit.brief.n_lanes), self.progress
        grown: dict[int, list[list[GrownTree]]] = {}
        n_first = 0 if self._is_measured() else 1
        for some in (lanes[:n_first], lanes[n_first:]):
            if some:
                found, progress = self.fit.iterate(some, progress, n)
                grown |= found
        return [[tree for bag in range(self.parameters.n_bags) for tree in grown[bag][k]] for k in range(n)], progress
