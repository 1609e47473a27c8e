"""Leader: grows the trees of a chain on the rows of all stations.

Leaders live on stations. The client orders iterations of them, and they ask the other stations: what a leader's own
station knows never travels. Chains of trees need nothing from each other, so each may have a leader of its own, on
another station, and while one waits for an answer the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.remote import RemoteRows
from unbiasedgbm.distributed.station import Step
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Booster, Progress
from unbiasedgbm.training.evidence import EvidenceMemory
from unbiasedgbm.training.harvest import GrownTree

FloatArray = npt.NDArray[np.float64]
Send = Callable[[list[Step]], list[Any]]
"""Takes steps, returns the merged answers of all stations."""


class Delivery(NamedTuple):
    """What a leader has of an order."""

    grown: dict[int, list[list[GrownTree]]]
    """Trees of each of its bags, iteration by iteration, one for every output."""
    memories: dict[int, EvidenceMemory]
    """What they have taught, by place among all memories."""
    measured: tuple[float, FloatArray]
    """`Progress.start_dispersion` and `Progress.start_squares`, which the first tree of a fit has measured."""
    waiting: list[Step]
    """Steps to be sent with the next question of this leader, or before."""
    loss: dict[str, Any] | None
    """State of a loss that learns from rows."""


class Leader:
    """Grows the trees of some bags.

    Parameters
    ----------
    brief : Brief
    lane : int
        Which of the trees that are grown at the same time: those of the bags with this number, and of those that are
        `Brief.n_lanes` further on.
    """

    def __init__(self, brief: Brief, lane: int) -> None:
        brief = brief.unpacked()
        parameters, loss, features = brief.parameters, brief.loss, brief.features
        self._bags = range(lane, parameters.n_bags, brief.n_lanes)
        progress = Progress.start(len(features), loss.n_outputs, parameters.n_bags)
        rows = (RemoteRows(brief, lane), brief.mapper, features, brief.groups)
        self._booster = _LeadingBooster(parameters, loss, *rows, progress, Pool(1))

    def iterate(self, waiting: Sequence[Step], progress: Progress, n: int, send: Send) -> Delivery:
        """Grow the trees of some iterations.

        Parameters
        ----------
        waiting : sequence of Step
            To be sent with the first question.
        progress : Progress
            At the end of the iteration before.
        n : int
            Iterations.
        send : callable
        """
        booster = self._booster
        rows, loss = booster.rows, booster.loss
        # what comes by wire cannot be written to
        progress = booster.progress = progress.copy()
        waiting = [*waiting, ("begin_order", (list(self._bags),))]

        def ask(*steps: Step) -> list[Any]:
            nonlocal waiting
            first, waiting = waiting, []
            return send([*first, *steps])[len(first) :]

        grown: dict[int, list[list[GrownTree]]] = {bag: [] for bag in self._bags}
        rows.begin(ask)
        try:
            for iteration in range(progress.n_iterations, progress.n_iterations + n):
                for bag in self._bags:
                    grown[bag].append([])
                    for tree in booster.trees_of(bag, iteration):
                        grown[bag][-1].append(tree)
                        waiting += rows.added()
        finally:
            # it knows the station, which would know itself then and not end with the fit
            rows.begin(_nobody)
        k = loss.n_outputs
        memories = {at: progress.memories[at] for bag in self._bags for at in range(bag * k, bag * k + k)}
        measured = (progress.start_dispersion, progress.start_squares)
        return Delivery(grown, memories, measured, waiting, vars(loss) if loss.prepares else None)


def _nobody(*steps: Step) -> list[Any]:
    raise AssertionError("asked outside of an order; this is a bug, please report it")


@dataclass
class _LeadingBooster(Booster):
    """A booster whose rows are on stations; it grows one tree at a time."""

    rows: RemoteRows

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lane = self._lanes[0]
        self.rows.equip(self._lane.memory)

    def _pools(self) -> list[Pool]:
        return [self.pool]

    def trees_of(self, bag: int, iteration: int) -> Iterator[GrownTree]:
        """The trees of a bag in an iteration, output by output, all from the gradients at the start."""
        tops = self._gradients(self._lane, bag)
        for output in range(self.loss.n_outputs):
            yield self._grow_tree(self._lane, tops, bag, output, iteration, self.progress)
