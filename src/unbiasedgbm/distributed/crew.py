"""Crew: the stations of one fit, how they are asked, and what is done when a worker is lost.

Everything goes by Dask's own scheduler and transport: partitions are Dask tasks, stations are Dask actors with keys of
this fit, and a question is a call of their methods.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask
from dask.delayed import Delayed
from distributed import Client, Future
from distributed import wait as wait_for
from distributed.actor import ProxyRPC

from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.parcel import pack, unpack
from unbiasedgbm.distributed.station import (
    Below,
    LostBelowError,
    PartName,
    Station,
    Step,
    answer_bytes,
    merged,
)

# Up to so many stations are asked one by one, which takes the least time; more of them form a tree, so that whoever
# asks gets few answers, however many there are.
_FLAT = 8

# Stations below one station.
_ARITY = 4

# Seconds in which a worker must answer this process for it to be asked directly.
_REACH_S = 3.0

# Seconds between looks at the list of workers while an answer is waited for.
_LOOK_S = 2.0

_THERE, _GONE, _SILENT = "there", "gone", "silent"


class WorkerLostError(RuntimeError):
    """A worker that holds rows of a fit is gone."""


class _UnknownStationError(WorkerLostError):
    """A worker does not know the station: it was started anew at the same address, and its rows are gone."""


class _StationError(Exception):
    """What a station raised, as its argument: whatever it is, the way there was open."""


def recovery_timeout() -> float:
    """Seconds until lost partitions must be on other workers: ``unbiasedgbm.recovery-timeout`` of Dask's config."""
    return float(dask.config.get("unbiasedgbm.recovery-timeout", 300.0))


class Traffic(NamedTuple):
    """What a fit cost the cluster, beyond its work."""

    questions: int
    """Round trips."""
    n_bytes: int
    """Bytes of all answers that were sent, from all stations."""
    kept: list[int]
    """Bytes of the training rows on each station."""


@dataclass
class Member:
    """A station as the client knows it.

    Attributes
    ----------
    address : str
        Of its worker.
    names : list of PartName
        Its partitions.
    future : Future
        Keeps it alive.
    direct : bool
        Whether this process reaches the worker; if not, the scheduler passes questions on.
    loaded : bool
        Whether its rows are binned and it takes part in training.
    """

    address: str
    names: list[PartName]
    future: Future
    direct: bool
    loaded: bool = False


class Crew:
    """All stations of a fit.

    Parameters
    ----------
    client : Client
    parts : dict of PartName to Delayed
        Tuples (table, target, weights), which can be computed again when they are lost.
    n_jobs : int or None
        Threads of a station; None for those of its worker.
    station : type
        Class of the stations.
    """

    n_asked: int
    """Questions so far."""
    n_bytes: int
    """Bytes of the answers, each counted once for every station that sent it on."""
    kept: list[int]
    """Bytes of the training rows on each station, once they are binned."""

    def __init__(
        self,
        client: Client,
        parts: dict[PartName, Delayed],
        n_jobs: int | None,
        station: type[Station] = Station,
    ) -> None:
        self.client, self._station = client, station
        self.epoch = 0
        self.n_asked = 0
        self.n_bytes = 0
        self.kept = []
        self._parts, self._n_jobs = parts, n_jobs
        self._name = f"unbiasedgbm-{uuid.uuid4().hex}"
        self._numbers = itertools.count()
        self._futures: list[Future] = []
        self.members: list[Member] = []
        try:
            self._place(list(parts), None)
        except BaseException:
            self.close()
            raise

    @property
    def traffic(self) -> Traffic:
        """What this fit has cost so far."""
        return Traffic(self.n_asked, self.n_bytes, self.kept)

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, steps: Sequence[Step], members: Sequence[Member] | None = None) -> list[Any]:
        """Ask stations, all by default, and merge their answers."""
        asked = list(self.members if members is None else members)
        steps = list(steps)
        below: list[tuple[Member, Below]] = [(asked[0], _tree(asked))]
        if len(asked) <= _FLAT:
            below = [(member, []) for member in asked]
        question = pack((self.epoch, steps))
        calls = [self._call(member, "answer", question, rest) for member, rest in below]
        answers = merged(steps, [unpack(answer) for answer in self._result(*calls)])
        self.n_asked += 1
        self.n_bytes += len(asked) * answer_bytes(answers)
        return answers

    def appoint(self, brief: Brief) -> None:
        """Have stations lead, as many as there are lanes if possible: they grow trees, and ask the others."""
        members, parcel, n_lanes = self.members, pack(brief), brief.n_lanes
        calls = []
        for k, leader in enumerate(members[:n_lanes]):
            ring = [leader, *members[k + 1 :], *members[:k]]
            below = _addresses(ring[1:]) if len(ring) <= _FLAT else _tree(ring)
            lanes = list(range(k, n_lanes, len(members)))
            calls.append(self._call(leader, "lead", self.epoch, parcel, lanes, below))
        self._result(*calls)

    def iterate(self, lanes: Sequence[int], waiting: Mapping[int, Sequence[Step]], progress: Any, n: int) -> list[Any]:
        """Some iterations of some lanes, as their leaders deliver them.

        Parameters
        ----------
        lanes : sequence of int
        waiting : mapping of int to sequences of Step
            Of each lane.
        progress, n
            As in `leader.Leader.iterate`.
        """
        members = self.members
        leaders = [members[lane % len(members)] for lane in lanes]
        orders = [pack((self.epoch, list(waiting.get(lane, ())), progress, n)) for lane in lanes]
        calls = [
            self._call(leader, "iterate", lane, order)
            for leader, lane, order in zip(leaders, lanes, orders, strict=True)
        ]
        try:
            answers = [unpack(answer) for answer in self._result(*calls)]
        except BaseException:
            # whatever happened, nobody waits for it any more
            self.epoch += 1
            for leader in leaders:
                self._start(self._call(leader, "halt", self.epoch))
            raise
        self.n_asked += sum(n_asked for _, n_asked, _ in answers)
        self.n_bytes += sum(n_bytes for _, _, n_bytes in answers)
        return [delivery for delivery, _, _ in answers]

    def edges(
        self, features: Sequence[int], starts: dict[int, int], n_rows: int, max_bins: int | None
    ) -> dict[int, Any]:
        """Bin edges of each feature, a share of them on every station.

        Parameters
        ----------
        features : sequence of int
        starts : dict of int to int
            Number of each training partition's first row.
        n_rows : int
            Training rows.
        max_bins : int or None
        """
        peers = _addresses(self.members)
        shares = [list(features[k :: len(peers)]) for k in range(len(peers))]
        asked = [(share, member) for share, member in zip(shares, self.members, strict=True) if share]
        questions = [pack((self.epoch, [("sample", (share, starts, n_rows))])) for share, _ in asked]
        calls = [
            self._call(member, "edges", question, peers, max_bins)
            for (_, member), question in zip(asked, questions, strict=True)
        ]
        found: dict[int, Any] = {}
        for (share, _), edges in zip(asked, self._result(*calls), strict=True):
            found |= dict(zip(share, edges, strict=True))
        return found

    async def _call(self, member: Member, function: str, *arguments: Any) -> Any:
        """Call a station's method; arguments are bytes, numbers, strings, or lists and tuples of them."""
        client = self.client
        rpc = client.rpc(member.address) if member.direct else ProxyRPC(client.scheduler, member.address)
        try:
            answer = await rpc.actor_execute(actor=member.future.key, function=function, args=arguments, kwargs={})
        except KeyError as error:
            raise _UnknownStationError(f"Worker {member.address} was started anew.") from error
        if answer["status"] != "OK":
            raise _StationError(answer["exception"])
        return answer["result"]

    def _start(self, *calls: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[list[Any]]:
        """Start calls side by side, in the thread of Dask's client."""

        async def gather() -> list[Any]:
            return list(await asyncio.gather(*calls))

        return asyncio.run_coroutine_threadsafe(gather(), self.client.loop.asyncio_loop)

    def _result(self, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
        """Answers to calls, or WorkerLostError; never a wait for a worker that is gone."""
        started = self._start(*calls)
        while not concurrent.futures.wait([started], _LOOK_S).done:
            known = self.client.nthreads()
            if any(member.address not in known for member in self.members):
                raise WorkerLostError("A worker was lost.")
        try:
            return started.result()
        except OSError as error:
            raise WorkerLostError(f"A worker does not answer: {error}") from error
        except _StationError as error:
            raised: BaseException = error.args[0]
            if isinstance(raised, LostBelowError):
                raise WorkerLostError(f"A worker was lost: {raised}") from raised
            raise raised from None

    # -- placing -----------------------------------------------------------------------------------------------------

    def _place(self, names: Sequence[PartName], deadline: float | None) -> list[Member]:
        """Compute partitions and make stations on the workers that have them; returns the new stations."""
        futures = self.client.compute([self._parts[name] for name in names], retries=0)
        self._futures += futures
        self._wait_for_parts(futures, deadline)
        homes = self._homes(names, futures)
        made: list[tuple[str, list[PartName], Future]] = []
        for address, chosen in homes.items():
            actor = self.client.submit(
                self._station,
                [names[k] for k in chosen],
                [futures[k] for k in chosen],
                self._n_jobs,
                # never that of an earlier one, which Dask would take for the same
                key=f"{self._name}-{next(self._numbers)}",
                workers=[address],
                allow_other_workers=False,
                actor=True,
                pure=False,
            )
            self._futures.append(actor)
            made.append((address, [names[k] for k in chosen], actor))
        for address, _, future in made:
            self._wait_for_station(address, future, deadline)
        members = [Member(address, chosen, future, self._reaches(address)) for address, chosen, future in made]
        # stations have the partitions now; from here on they are computed again if they are lost
        for future in futures:
            future.release()
        self._futures = [member.future for member in [*self.members, *members]]
        self.members += members
        return members

    def _wait_for_parts(self, futures: Sequence[Future], deadline: float | None) -> None:
        """Wait for all partitions; raise what one of them raised, as soon as it did."""
        last_seen = time.monotonic()
        while True:
            left = _LOOK_S if deadline is None else min(_LOOK_S, max(0.1, deadline - time.monotonic()))
            done = _all_done(futures, left)
            for future in futures:
                if future.status in ("error", "cancelled") or (done and future.status != "finished"):
                    future.result(timeout=5.0)
            if done:
                return
            now = time.monotonic()
            if deadline is not None and now > deadline:
                raise TimeoutError("The partitions were not computed in time.")
            if self.client.nthreads():
                last_seen = now
            elif now - last_seen > recovery_timeout():
                raise RuntimeError(
                    f"The cluster has had no workers for {recovery_timeout():g} s "
                    "(unbiasedgbm.recovery-timeout of Dask's configuration)."
                )

    def _wait_for_station(self, address: str, future: Future, deadline: float | None) -> None:
        """Wait until a station is made, or WorkerLostError if its worker is lost before."""
        while True:
            try:
                future.result(timeout=_LOOK_S)
                return
            except TimeoutError:
                _check(deadline)
                if address not in self.client.nthreads():
                    raise WorkerLostError(f"Worker {address} was lost.") from None

    def _reaches(self, address: str) -> bool:
        """Whether a worker answers this process without the scheduler in between."""

        async def ping() -> None:
            await asyncio.wait_for(self.client.rpc(address).identity(), _REACH_S)

        try:
            asyncio.run_coroutine_threadsafe(ping(), self.client.loop.asyncio_loop).result(_REACH_S + 1.0)
        except (OSError, TimeoutError):
            return False
        return True

    def _homes(self, names: Sequence[PartName], futures: Sequence[Future]) -> dict[str, list[int]]:
        """Partitions of each worker: where they are, as long as no worker has much more than its share."""
        threads = self.client.nthreads()
        if not threads:
            raise WorkerLostError("The cluster has no workers.")
        holders = self.client.who_has(futures)
        sizes = self.client.nbytes([future.key for future in futures], summary=False)
        bytes_of = [float(sizes.get(future.key, 1) or 1) for future in futures]
        share = sum(bytes_of) / sum(threads.values())
        load = dict.fromkeys(threads, 0.0)
        homes: dict[str, list[int]] = {}
        for k in sorted(range(len(futures)), key=lambda k: -bytes_of[k]):
            here = [address for address in holders.get(futures[k].key, ()) if address in threads]
            best = min(here, key=lambda a: load[a] / threads[a], default=None)
            if best is None or (load[best] + bytes_of[k]) / threads[best] > 1.1 * share:
                best = min(threads, key=lambda a: (load[a] + bytes_of[k]) / threads[a])
            load[best] += bytes_of[k]
            homes.setdefault(best, []).append(k)
        return homes

    # -- losses ------------------------------------------------------------------------------------------------------

    def replace_lost(self) -> list[Member]:
        """Find the stations that are lost and put their partitions on other workers; returns the new stations.

        Those that were being loaded when another one was lost are made anew, too.

        Raises
        ------
        RuntimeError
            If that is not done within `recovery_timeout`, or if the partitions cannot be computed again.
        """
        deadline = time.monotonic() + recovery_timeout()
        self.epoch += 1
        lost = self._find_lost(deadline)
        lost += [member for member in self.members if not member.loaded and member not in lost]
        self.members = [member for member in self.members if member not in lost]
        names = sorted(name for member in lost for name in member.names)
        if not names:
            return []
        while True:
            try:
                return self._place(names, deadline)
            except WorkerLostError:
                # one more worker was lost on the way, or none is left: another may come
                _check(deadline)
                time.sleep(0.5)
            except Exception as error:
                if isinstance(error, RuntimeError) and not isinstance(error, WorkerLostError):
                    raise
                raise RuntimeError(
                    f"A worker was lost, and {len(names)} partitions that it held could not be computed again within "
                    f"{recovery_timeout():g} s ({type(error).__name__}: {error}). Give fit collections that Dask can "
                    "compute from their source, not scattered data."
                ) from error

    def _find_lost(self, deadline: float) -> list[Member]:
        """Stations that do not answer."""
        while True:
            known = self.client.nthreads()
            # by station, not by address: a worker that was started anew may have new ones beside those it has lost
            answers = [self._answers(member) if member.address in known else _GONE for member in self.members]
            lost, silent = (
                [member for member, answer in zip(self.members, answers, strict=True) if answer == kind]
                for kind in (_GONE, _SILENT)
            )
            if lost and not silent:
                return lost
            if not silent:
                return []
            if time.monotonic() > deadline:
                return lost + silent
            time.sleep(0.2)

    def _answers(self, member: Member) -> str:
        """Whether a station is there, gone for good, or does not answer."""
        try:
            self._start(self._call(member, "ping")).result(timeout=5.0)
        except _UnknownStationError:
            return _GONE
        except (OSError, RuntimeError, _StationError, TimeoutError):
            return _SILENT
        return _THERE

    def close(self) -> None:
        """Give back everything: stations and their rows, and whatever is still being computed."""
        futures, self._futures, self.members = self._futures, [], []
        if self.client.status == "running":
            self.client.cancel(futures, force=True)


def _all_done(futures: Sequence[Future], seconds: float) -> bool:
    """Wait for all futures, for so long at most; returns whether none is still being computed."""
    try:
        wait_for(futures, timeout=seconds)
    except TimeoutError:
        return False
    return True


def _check(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise RuntimeError(
            f"A worker was lost, and its partitions were not on other workers within {recovery_timeout():g} s "
            "(unbiasedgbm.recovery-timeout of Dask's configuration)."
        )


def _addresses(members: Sequence[Member]) -> Below:
    return [(member.address, member.future.key, []) for member in members]


def _tree(members: Sequence[Member]) -> Below:
    """Stations below the first one, as a tree."""
    nodes = _addresses(members)
    for k in range(len(nodes) - 1, 0, -1):
        nodes[(k - 1) // _ARITY][2].insert(0, nodes[k])
    return nodes[0][2]
