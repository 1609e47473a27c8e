"""Leader: the station where trees are grown.

One station leads: the client orders iterations of it, and it asks the others. So half of what two stations know never
travels, and a question is one message where it would be two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.lockstep import in_lockstep
from unbiasedgbm.distributed.outbox import Outbox, Send
from unbiasedgbm.distributed.remote import RemoteRows
from unbiasedgbm.distributed.station import Step
from unbiasedgbm.distributed.statistics import Ask
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Booster, Lane, Progress, Tops
from unbiasedgbm.training.harvest import GrownTree


class Delivery(NamedTuple):
    """An iteration."""

    grown: list[GrownTree]
    progress: Progress
    """What the trees have taught; they are not counted in it yet."""
    waiting: list[Step]
    """Steps to be sent with the next question, whatever it is."""
    loss: dict[str, Any] | None
    """State of a loss that learns from rows."""


class Leader:
    """Grows trees on the rows of all stations.

    Parameters
    ----------
    brief : Brief
    """

    def __init__(self, brief: Brief) -> None:
        parameters, loss, features = brief.parameters, brief.loss, brief.features
        progress = Progress.start(len(features), loss.n_outputs, parameters.n_bags)
        rows = (RemoteRows(brief, 0), brief.mapper, features, brief.groups)
        self._booster = _LeadingBooster(parameters, loss, *rows, progress, Pool(1), brief.n_lanes)

    def iterate(self, waiting: Sequence[Step], progress: Progress, send: Send) -> Delivery:
        """Grow the trees of an iteration.

        Parameters
        ----------
        waiting : sequence of Step
            To be sent with the first question.
        progress : Progress
            At the end of the iteration before.
        send : callable
        """
        booster = self._booster
        booster.progress = progress.copy()
        outbox, loss = Outbox(send, list(waiting)), booster.loss
        grown = booster.grow_trees(outbox)
        return Delivery(grown, booster.progress, outbox.waiting, vars(loss) if loss.prepares else None)


@dataclass
class _LeadingBooster(Booster):
    """A booster whose rows are on stations; it grows trees of several bags at the same time, in the same rounds."""

    rows: RemoteRows
    n_lanes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._remote = [cast(RemoteRows, lane.rows) for lane in self._lanes]
        for rows, lane in zip(self._remote, self._lanes, strict=True):
            rows.equip(lane.memory)

    def _pools(self) -> list[Pool]:
        return [self.pool] * self.n_lanes

    def grow_trees(self, outbox: Outbox) -> list[GrownTree]:
        """The trees of an iteration: as many bags at the same time as there are lanes, one output after the other."""
        bags, outputs = range(self.parameters.n_bags), range(self.loss.n_outputs)
        tops: dict[int, Tops] = {}
        grown: dict[tuple[int, int], GrownTree] = {}
        for rows in self._remote:
            rows.forget()
        for first in bags[:: len(self._lanes)]:
            lanes = list(zip(bags[first:], self._lanes, self._remote, strict=False))
            for output in outputs:
                works = [partial(self._grow_one, output, tops, *lane) for lane in lanes]
                trees = in_lockstep(works, outbox.ask_together)
                for (bag, _, rows), tree in zip(lanes, trees, strict=True):
                    grown[bag, output] = tree
                    # in the order of the bags: sums of floating point numbers depend on it
                    outbox.waiting += rows.added()
        return [grown[bag, output] for bag in bags for output in outputs]

    def _grow_one(
        self, output: int, tops: dict[int, Tops], bag: int, lane: Lane, rows: RemoteRows, ask: Ask
    ) -> GrownTree:
        """A bag's tree for one output, in its lane."""
        rows.ask = ask
        if output == 0:
            tops[bag] = self._gradients(lane, bag)
        return self._grow_tree(lane, tops[bag], bag, output, self.progress.n_iterations, self.progress)
