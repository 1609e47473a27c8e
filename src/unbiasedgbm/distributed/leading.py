"""Leading station: a station where leaders live, who ask the other stations.

Leaders have threads of their own. What they ask is sent in the event loop of the worker, and the station's own rows are
looked at meanwhile. Questions carry the epoch of the fit: when something is lost or given up, the next one begins, and
whatever belongs to an earlier one is refused.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from unbiasedgbm.distributed.leader import Leader
from unbiasedgbm.distributed.parcel import Parcel, pack, unpack
from unbiasedgbm.distributed.station import Below, OldQuestionError, Station, Step, answer_bytes, merged


class LeadingStation(Station):
    """A station that may lead; see `Station` for the parameters."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # leaders by their lanes, the stations that they ask, and what they are waiting for, since which epoch
        self._leaders: dict[int, Leader] = {}
        self._below: Below = []
        self._asked: dict[int, tuple[int, concurrent.futures.Future[list[Parcel]]]] = {}
        self._leading: ThreadPoolExecutor | None = None

    async def lead(self, epoch: int, brief: Parcel, lanes: Sequence[int], below: Below) -> None:
        """Grow the trees of some lanes from now on.

        Parameters
        ----------
        epoch : int
        brief : Parcel
            Of a `Brief`.
        lanes : sequence of int
        below : Below
            All other stations.
        """

        def make() -> dict[int, Leader]:
            if self._leading is not None:
                # leaders of an earlier epoch have been told to give up
                self._leading.shutdown(wait=True)
            known = unpack(brief)
            return {lane: Leader(known, lane) for lane in lanes}

        await self.halt(epoch)
        # others' questions and its own would wait for each other in the event loop
        self._quick = False
        self._below = below
        self._loop = asyncio.get_running_loop()
        self._leaders = await self._loop.run_in_executor(self._thread, make)
        self._leading = ThreadPoolExecutor(len(lanes), thread_name_prefix="unbiasedgbm-leader")

    async def iterate(self, lane: int, order: Parcel) -> Parcel:
        """Grow the trees of some iterations.

        Parameters
        ----------
        lane : int
        order : Parcel
            Of (epoch, steps that wait, progress, iterations).

        Returns
        -------
        Parcel
            Of what the leader delivers, questions, and bytes of the answers of other stations.
        """
        return await self._loop.run_in_executor(self._leading, self._iterate, lane, order)

    def _iterate(self, lane: int, order: Parcel) -> Parcel:
        epoch, waiting, progress, n = unpack(order)
        n_asked = n_bytes = 0

        def send(steps: list[Step]) -> list[Any]:
            nonlocal n_asked, n_bytes
            answers, sent = self._ask_all(lane, epoch, steps)
            n_asked += 1
            n_bytes += sent
            return answers

        return pack((self._leaders[lane].iterate(waiting, progress, n, send), n_asked, n_bytes))

    def _ask_all(self, lane: int, epoch: int, steps: list[Step]) -> tuple[list[Any], int]:
        """Ask all stations; this one's rows are looked at while the others answer.

        Returns
        -------
        answers : list
            Merged.
        n_bytes : int
            Of what all others have sent, if those below a station send as much as it does.
        """
        asked = asyncio.run_coroutine_threadsafe(self._gather(pack((epoch, steps))), self._loop)
        self._asked[lane] = (epoch, asked)
        try:
            # the epoch is looked at after it is asked, so that whoever halts it now sees what to cancel
            own = self._do(epoch, steps)
            others = asked.result()
        except concurrent.futures.CancelledError:
            raise OldQuestionError("The iteration was given up.") from None
        finally:
            asked.cancel()
        sent = sum(answer_bytes(answer) for answer in others) * _count(self._below) // max(1, len(others))
        return merged(steps, [own, *(unpack(answer) for answer in others)]), sent

    async def _gather(self, question: Parcel) -> list[Parcel]:
        return await asyncio.gather(*(self._pass_on(*station[:2], question, station[2]) for station in self._below))

    async def halt(self, epoch: int) -> None:
        """Give up what was asked before an epoch."""
        self._turn(epoch)
        for since, asked in list(self._asked.values()):
            if since < epoch:
                asked.cancel()


def _count(below: Below) -> int:
    """Stations below."""
    return sum(1 + _count(rest) for _, _, rest in below)
