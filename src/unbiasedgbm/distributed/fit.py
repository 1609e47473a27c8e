"""Remote fit: what the rows of a distributed fit have in common, and how it goes on when a worker is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.crew import Crew, WorkerLostError
from unbiasedgbm.distributed.leader import Leader
from unbiasedgbm.distributed.outbox import Outbox
from unbiasedgbm.distributed.station import TRAIN, WATCH, Plan, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster, Lane, Progress
from unbiasedgbm.training.harvest import GrownTree, Harvest

T = TypeVar("T")

# Losses in one iteration, or while one of them is being made good, after which a fit gives up.
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
        self._outbox = Outbox(crew.ask)
        # of all finished iterations, and of the last one
        self._done = Harvest(plan.mapper, plan.start.base, plan.start.trees)
        self._last: Sequence[GrownTree] = ()
        self._appoint()

    def _appoint(self) -> None:
        self.crew.appoint(partial(Leader, self.brief))

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        return self._outbox.ask(*steps)

    def iterate(self, progress: Progress) -> tuple[list[GrownTree], Progress]:
        """The trees of the next iteration, and the progress with what they have taught.

        Parameters
        ----------
        progress : Progress
            At the end of the last one.
        """
        grown, progress, self._outbox.waiting, loss = self.crew.iterate(self._outbox.waiting, progress)
        if loss is not None:
            # metrics ask for it, too
            vars(self.brief.loss).update(loss)
        return grown, progress

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
                self._outbox.waiting = []
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
                self._appoint()
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
        """Add the trees of an iteration to the raw predictions; those of training rows have them."""
        fit = self._fit
        if self._which == WATCH:
            fit.steadily(lambda: fit.ask(("advance", (fit.recent(), booster.features))))

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""
        return self._fit.measure(metric, self._which)


@dataclass
class RemoteBooster(Booster):
    """A booster whose iterations are ordered of a cluster."""

    fit: RemoteFit

    def _make_lanes(self) -> list[Lane]:
        return []

    def run_ahead(self, n: int) -> list[list[GrownTree]]:
        """One iteration, however many may be asked for; begun again if a worker is lost in it."""
        grown, self.progress = self.fit.steadily(lambda: self.fit.iterate(self.progress))
        self._end_iteration(grown)
        self.fit.finished(grown)
        return [grown]
