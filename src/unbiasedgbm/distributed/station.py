"""Station: an actor on a worker that holds some partitions and answers questions about their rows.

The client asks, and leaders on other stations do (`leading.LeadingStation`). A question is a list of steps, each the
name of a method here and its arguments. Many stations form a tree: one passes a question on to those below it, answers
it itself, and sends up one answer for all of them, merged as the table `MERGE` says. All sums are sums of integers, so
the shape of the tree does not matter.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from distributed import get_worker

from unbiasedgbm.binning import BinMapper, Bins, content_hash, join_bins, sample_rows, value_edges
from unbiasedgbm.distributed.freed import give_back, keep_freed_memory
from unbiasedgbm.distributed.parcel import Parcel, pack, unpack
from unbiasedgbm.distributed.survey import (
    ColumnLevels,
    PartSurvey,
    n_rows_of,
    present_rows,
    read_part_target,
    read_part_weight,
    survey_levels,
    survey_part,
)
from unbiasedgbm.distributed.tree_rows import BagRows, Splits, TreeRows, kept_bytes
from unbiasedgbm.distributed.wire import Coded
from unbiasedgbm.exact import Scale, Values, units_sum, weight_units
from unbiasedgbm.frames import Schema, Table
from unbiasedgbm.kernels import hash_rows
from unbiasedgbm.losses import Loss
from unbiasedgbm.targets import class_numbers, finite_numbers
from unbiasedgbm.threads import Pool, effective_n_jobs
from unbiasedgbm.training.harvest import GrownTree
from unbiasedgbm.training.line import LINE_ROWS
from unbiasedgbm.training.partition import add_tree
from unbiasedgbm.training.setup import Start, bag_of, digest_of, repetitions, start_raw
from unbiasedgbm.training.shard import BLOCK_ROWS, Layout, Shard, TrainingData, as_outputs

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Step = tuple[str, tuple[Any, ...]]

# Pairs of row and feature up to which a station answers so soon that nobody need reach its worker meanwhile: a pass
# over all of them takes a tenth of a second.
_QUICK_PAIRS = 1 << 26

TRAIN, WATCH = "train", "watch"
PartName = tuple[str, int]
"""Which rows, and the partition's place among them."""

Below = list[tuple[str, str, list[Any]]]
"""Stations below: address, key, and the stations below those."""


class OldQuestionError(RuntimeError):
    """A question from before a worker was lost."""


class LostBelowError(RuntimeError):
    """A station below this one does not answer."""


class Reading(NamedTuple):
    """How partitions are read."""

    schema: Schema
    watched_schema: Schema
    classes: npt.NDArray[Any] | None
    """Labels of a classifier."""
    name: str
    """What errors call the estimator."""


class PartFacts(NamedTuple):
    """What is known of a partition that has been read."""

    name: PartName
    n_read: int
    """Rows of the table."""
    n_weighty: int
    """Rows whose weight is positive; all of them without weights."""
    n: int
    """Rows that are kept."""
    classes: npt.NDArray[np.int64] | None
    """Rows of each class."""
    extremes: FloatArray
    """Smallest and largest target; empty without rows."""


class HeldOut(NamedTuple):
    """Which training rows become validation rows: those whose hash is at most that of their class."""

    key: np.uint64
    starts: dict[int, int]
    """Number of each partition's first row."""
    n_classes: int
    """0 for regression."""
    stratified: bool
    limits: npt.NDArray[np.uint64]
    some: npt.NDArray[np.bool_]
    """Whether a class has any."""


@dataclass(frozen=True)
class Plan:
    """All that a station needs to bin its rows and stand by.

    Attributes
    ----------
    mapper : BinMapper
    layout : Layout
    loss : Loss
    starts : dict of int to int
        Number of each training partition's first row.
    counted : bool
        Whether weights are numbers of repetitions.
    weight_scale : Scale or None
        Of all weights.
    start : Start
        With the trees so far.
    n_bags : int
    n_lanes : int
        Trees that are grown at the same time.
    """

    mapper: BinMapper
    layout: Layout
    loss: Loss
    starts: dict[int, int]
    counted: bool
    weight_scale: Scale | None
    start: Start
    n_bags: int
    n_lanes: int


@dataclass
class PartRows:
    """Rows of a partition that have been read.

    Attributes
    ----------
    table : Table or None
        None once its rows are binned, or if there are none.
    y : ndarray of shape (n,), float64
    given : ndarray of shape (n,), float64, or None
        ``sample_weight``.
    weight : ndarray of shape (n,), float64, or None
        With class weights.
    """

    table: Table | None
    y: FloatArray
    given: FloatArray | None
    weight: FloatArray | None

    def take(self, rows: npt.NDArray[np.intp]) -> PartRows:
        """Some of the rows."""
        table = None if self.table is None or len(rows) == 0 else self.table.take(rows)
        given, weight = (None if one is None else one[rows] for one in (self.given, self.weight))
        return PartRows(table, self.y[rows], given, weight)


@dataclass
class WatchedRows:
    """Rows that are binned, with raw predictions that are kept up for metrics alone."""

    bins: Bins
    y: FloatArray
    weight: FloatArray | None
    raw: FloatArray
    n_added: int


class Ranked(NamedTuple):
    """Rows of a group in the order of their keys."""

    keys: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.int64]
    """Sum of the weights up to each row, after a zero."""


def ordered_keys(values: FloatArray) -> npt.NDArray[np.uint64]:
    """Integers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign != 0, ~bits, bits | sign)


def key_value(key: int) -> float:
    """The value of a key from `ordered_keys`."""
    bits = key ^ (1 << 63) if key >> 63 else key ^ ((1 << 64) - 1)
    return float(np.array([bits], np.uint64).view(np.float64)[0])


def _add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _add_split(a: tuple[IntArray, IntArray | Coded], b: tuple[IntArray, Coded]) -> tuple[IntArray, IntArray]:
    """Counts and histograms; those of the first one become the sum, as nobody else needs them."""
    (counts, histograms), (other_counts, others) = a, b
    total = histograms.plain() if isinstance(histograms, Coded) else histograms
    others.add_to(total)
    return counts + other_counts, total


def _largest(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


def _join(a: Scale, b: Scale) -> Scale:
    return a.join(b)


def _nothing(a: None, b: None) -> None:
    return None


MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "survey": operator.add,
    "survey_levels": operator.add,
    "read": operator.add,
    "hold_out": operator.add,
    "digest": operator.add,
    "weigh": operator.add,
    "divide_weights": operator.add,
    "rank_hashes": _nothing,
    "rank_values": _nothing,
    "rank_residuals": _nothing,
    "below": operator.add,
    "scale": _join,
    "units": operator.add,
    "collect": operator.add,
    "sample": operator.add,
    "line_rows": operator.add,
    "build": _add,
    "begin_order": _nothing,
    "gradients": _largest,
    "begin_tree": _add,
    "pack": operator.add,
    "histogram": operator.add,
    "split": _add_split,
    "undivide": _nothing,
    "leaf_sums": operator.add,
    "add": _nothing,
    "advance": _nothing,
    "rewind": _nothing,
}
"""How the answers of two stations become one."""


def merged(steps: Sequence[Step], answers: Sequence[list[Any]]) -> list[Any]:
    """One answer from those of several stations."""
    return [reduce(MERGE[name], parts) for (name, _), *parts in zip(steps, *answers, strict=True)]


def answer_bytes(answer: Any) -> int:
    """Bytes of the arrays in an answer, packed or not."""
    if isinstance(answer, list | tuple):
        return sum(map(answer_bytes, answer))
    return int(getattr(answer, "nbytes", 0))


class Station:
    """Partitions of one worker, from raw tables to binned rows.

    Parameters
    ----------
    names : list of PartName
    parts : list of tuples (table, target, weights or None)
    n_jobs : int or None
        Threads; None for those of the worker.
    """

    def __init__(self, names: list[PartName], parts: list[tuple[Any, Any, Any]], n_jobs: int | None) -> None:
        self._raw = dict(sorted(zip(names, parts, strict=True)))
        self._rows: dict[PartName, PartRows] = {}
        self._ranked: list[Ranked] = []
        self._epoch = 0
        # whether it answers at once, in the event loop of its worker
        self._quick = False
        # rows whose metrics are recorded
        self._watched: dict[str, WatchedRows] = {}
        # whoever asks, work is done one at a time
        self._working = threading.Lock()
        self._turning = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="unbiasedgbm-station")
        self._worker = get_worker()
        keep_freed_memory(self, self._worker)
        self._pool = Pool(self._worker.state.nthreads if n_jobs is None else effective_n_jobs(n_jobs))

    # -- questions ---------------------------------------------------------------------------------------------------

    async def answer(self, question: Parcel, below: Below) -> Parcel:
        """Answer a question for this station and all below it.

        Parameters
        ----------
        question : Parcel
            Of (epoch, steps); questions of an earlier epoch are refused.
        below : Below
        """
        if self._quick and not below:
            # waking a thread would take longer than many an answer
            return self._run(question)
        loop = asyncio.get_running_loop()
        asked = [self._pass_on(address, key, question, rest) for address, key, rest in below]
        own, *others = await asyncio.gather(loop.run_in_executor(self._thread, self._run, question), *asked)
        return await loop.run_in_executor(self._thread, self._merge, question, [own, *others]) if others else own

    async def edges(self, question: Parcel, peers: Below, max_bins: int | None) -> list[FloatArray]:
        """Bin edges of some numeric features, from the samples of all stations.

        Parameters
        ----------
        question : Parcel
            Asks for the samples.
        peers : Below
            All stations.
        max_bins : int or None
        """
        answers = await asyncio.gather(*(self._pass_on(address, key, question, []) for address, key, _ in peers))

        def work() -> list[FloatArray]:
            parts = sorted((part for answer in answers for part in unpack(answer)[0]), key=operator.itemgetter(0))
            weights = None if parts[0][2] is None else np.concatenate([weight for _, _, weight in parts])
            columns = [np.concatenate(column) for column in zip(*(values for _, values, _ in parts), strict=True)]
            return self._pool.run(value_edges, [(column, weights, max_bins) for column in columns])

        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def ping(self) -> bool:
        """Whether the station is there."""
        return True

    async def _pass_on(self, address: str, key: str, question: Parcel, below: Below) -> Parcel:
        """Ask another station, or this one."""
        worker = self._worker
        if address == worker.address and worker.state.actors.get(key) is self:
            return await self.answer(question, below)
        arguments = [question, below]
        try:
            answer = await worker.rpc(address).actor_execute(actor=key, function="answer", args=arguments, kwargs={})
        except (OSError, KeyError) as error:
            # a worker that was started anew at the same address does not know the station
            raise LostBelowError(str(error)) from error
        if answer["status"] != "OK":
            raise answer["exception"]
        result: Parcel = answer["result"]
        return result

    def _run(self, question: Parcel) -> Parcel:
        epoch, steps = unpack(question)
        with self._at_work(epoch):
            return self._pack(steps, self._take(steps))

    def _merge(self, question: Parcel, answers: Sequence[Parcel]) -> Parcel:
        """One answer to a question from those of several stations."""
        epoch, steps = unpack(question)
        with self._at_work(epoch):
            return self._pack(steps, merged(steps, [unpack(answer) for answer in answers]))

    def _pack(self, steps: Sequence[Step], answers: list[Any]) -> Parcel:
        """Answers as they are sent."""
        for k, (name, arguments) in enumerate(steps):
            if name == "split":
                counts, histograms = answers[k]
                answers[k] = (counts, self._lanes[arguments[0]].encode(histograms))
        return pack(answers)

    def _do(self, epoch: int, steps: Sequence[Step]) -> list[Any]:
        """Take some steps, unless what they belong to was given up; nothing else is done meanwhile."""
        with self._at_work(epoch):
            return self._take(steps)

    def _take(self, steps: Sequence[Step]) -> list[Any]:
        return [getattr(self, f"_do_{name}")(*arguments) for name, arguments in steps]

    @contextmanager
    def _at_work(self, epoch: int) -> Iterator[None]:
        """Nothing else is done meanwhile, and nothing at all if the epoch was given up."""
        with self._working:
            if not self._turn(epoch):
                raise OldQuestionError("The question is from before a worker was lost, or an iteration was given up.")
            yield

    def _turn(self, epoch: int) -> bool:
        """Have everything from before an epoch given up; returns whether the epoch itself is not."""
        with self._turning:
            self._epoch = max(self._epoch, epoch)
            return epoch == self._epoch

    # -- reading -----------------------------------------------------------------------------------------------------

    def _do_survey(self, classify: bool) -> list[tuple[int, PartSurvey]]:
        """What training partitions say of themselves."""
        return [(i, survey_part(*part, classify)) for (kind, i), part in self._raw.items() if kind == TRAIN]

    def _do_survey_levels(self, mask: npt.NDArray[np.bool_]) -> list[dict[int, ColumnLevels]]:
        """Levels of categorical columns."""
        return [survey_levels(X, weight, mask) for (kind, _), (X, _, weight) in self._raw.items() if kind == TRAIN]

    def _do_read(self, reading: Reading) -> list[PartFacts]:
        """Read all partitions."""
        facts = []
        for name, (X, y, weight) in self._raw.items():
            part = self._read_part(name, X, y, weight, reading)
            self._rows[name] = part
            n = len(part.y)
            n_weighty = n if part.given is None else int(np.count_nonzero(part.given))
            classes = None if reading.classes is None else _class_sizes(part.y, len(reading.classes))
            facts.append(PartFacts(name, n_rows_of(X), n_weighty, n, classes, _extremes(part.y)))
        self._raw = {}
        return facts

    def _read_part(self, name: PartName, X: Any, y: Any, weight: Any, reading: Reading) -> PartRows:
        watched = name[0] == WATCH
        suffix = "_val" if watched else ""
        given = read_part_weight(weight, f"sample_weight{suffix}")
        n_rows = n_rows_of(X)
        schema = reading.watched_schema if watched else reading.schema
        table = schema.read(X, estimator_name=reading.name) if n_rows else None
        target = read_part_target(y, given, n_rows, suffix)
        rows = None if watched else present_rows(given)
        if rows is not None and given is not None:
            table = None if table is None or len(rows) == 0 else table.take(rows)
            target, given = target[rows], given[rows]
        if reading.classes is None or not len(target):
            encoded = finite_numbers(target, f"y{suffix}") if len(target) else np.empty(0)
        else:
            encoded = class_numbers(reading.classes, target, f"y{suffix}")
        return PartRows(table, encoded, given, given)

    def _do_rank_hashes(self, key: np.uint64, starts: dict[int, int], n_classes: int, stratified: bool) -> None:
        """Put the hashes of training rows in order, class by class."""
        keys, kinds = [np.empty(0, np.uint64)], [np.empty(0, np.intp)]
        for (kind, i), part in self._rows.items():
            if kind == TRAIN:
                keys.append(_hashes(key, starts[i], len(part.y)))
                kinds.append(part.y.astype(np.intp) if stratified else np.zeros(len(part.y), np.intp))
        self._rank(np.concatenate(keys), np.concatenate(kinds), n_classes, None)

    def _do_hold_out(self, held: HeldOut) -> list[tuple[int, int, int, npt.NDArray[np.int64], FloatArray]]:
        """Part training rows from validation rows.

        Returns
        -------
        list of tuples
            Number of a partition, its training rows, those held out, training rows of each class, and the smallest and
            the largest target of these.
        """
        facts = []
        for (kind, i), part in list(self._rows.items()):
            if kind != TRAIN:
                continue
            classes = part.y.astype(np.intp) if held.stratified else np.zeros(len(part.y), np.intp)
            keys = _hashes(held.key, held.starts[i], len(part.y))
            out = held.some[classes] & (keys <= held.limits[classes])
            self._rows[TRAIN, i] = part.take(np.flatnonzero(~out))
            self._rows[WATCH, i] = part.take(np.flatnonzero(out))
            sizes = _class_sizes(part.y[~out], held.n_classes) if held.n_classes else np.zeros(0, np.int64)
            facts.append((i, int((~out).sum()), int(out.sum()), sizes, _extremes(part.y[~out])))
        self._rows = dict(sorted(self._rows.items()))
        return facts

    def _do_digest(self, which: str) -> npt.NDArray[np.uint64]:
        """Tells training or validation rows from others; before they are binned."""
        total = np.zeros(1, np.uint64)
        for (kind, _), part in self._rows.items():
            if kind == which and part.table is not None:
                total += digest_of(part.table, part.y, part.given)
        return total

    def _do_weigh(self, by_class: FloatArray | None) -> list[tuple[Any, ...]]:
        """Apply class weights.

        Returns
        -------
        list of tuples
            Of the given weights the largest, whether all are whole, their sum, and their sum as repetitions; of the
            weights with those of the classes, whether all are one, and their `Scale`.
        """
        for (kind, _), part in self._rows.items():
            if kind == TRAIN and len(part.y) and by_class is not None:
                own = by_class[part.y.astype(np.intp)]
                part.weight = own if part.given is None else part.given * own
        return self._weight_facts()

    def _do_divide_weights(self, unit: float) -> list[tuple[Any, ...]]:
        """Divide the weights of training rows; returns the same as `_do_weigh`."""
        for (kind, _), part in self._rows.items():
            if kind == TRAIN and part.weight is not None:
                part.weight = part.weight / unit
        return self._weight_facts()

    def _weight_facts(self) -> list[tuple[Any, ...]]:
        """What `_do_weigh` returns."""
        facts: list[tuple[Any, ...]] = []
        for (kind, _), part in self._rows.items():
            if kind == TRAIN and len(part.y) and part.weight is not None:
                given = part.given
                facts.append(
                    (
                        None if given is None else float(given.max()),
                        given is not None and bool((given == np.floor(given)).all()),
                        0.0 if given is None else float(given.sum()),
                        0 if given is None else int(np.minimum(given, 65_535.0).sum()),
                        bool((part.weight == 1.0).all()),
                        Scale.of(part.weight, part.weight),
                    )
                )
        return facts

    def _do_sample(
        self, features: list[int], starts: dict[int, int], n_rows: int
    ) -> list[tuple[int, list[FloatArray], FloatArray | None]]:
        """Values of some features in the rows that bins are learned from, one array a feature."""
        found = []
        for (kind, i), part in self._rows.items():
            if kind == TRAIN and part.table is not None:
                rows = sample_rows(n_rows, starts[i], starts[i] + len(part.y))
                weight = part.given if part.given is None or rows is None else part.given[rows]
                found.append((i, [part.table.column(j, rows) for j in features], weight))
        return found

    def _do_line_rows(
        self, mapper: BinMapper, starts: dict[int, int], n_rows: int
    ) -> list[tuple[int, Bins, FloatArray, FloatArray | None, FloatArray | None]]:
        """Bins, targets, given weights and weights of the rows that a line is learned from."""
        found = []
        for (kind, i), part in self._rows.items():
            if kind == TRAIN and part.table is not None:
                rows = sample_rows(n_rows, starts[i], starts[i] + len(part.y), LINE_ROWS)
                own = part if rows is None else part.take(rows)
                if own.table is not None:
                    found.append((i, mapper.transform(own.table, self._pool), own.y, own.given, own.weight))
        return found

    # -- binned rows -------------------------------------------------------------------------------------------------

    def _do_build(self, plan: Plan) -> tuple[npt.NDArray[np.uint64], list[int]]:
        """Bin all rows and let go of the tables.

        Returns
        -------
        content : ndarray of shape (p,), uint64
            Content hashes of the features.
        kept : list of int
            Bytes that the training rows take from here on.
        """
        self._plan = plan
        n_added = 0 if plan.start.trees is None else plan.start.trees.n_trees
        bins, y, given, weight, raw, bags = self._bin(TRAIN, plan.n_bags)
        counts = None
        if plan.counted:
            counts = repetitions(given)
        runs, at = [], 0
        for (kind, i), part in self._rows.items():
            if kind == TRAIN:
                runs.append((at, plan.starts[i]))
                at += len(part.y)
        runs = runs or [(0, 0)]
        data = TrainingData(bins, y, weight, counts)
        shard = Shard(data, raw, bags, plan.layout, self._pool, runs, plan.weight_scale)
        shards = shard.lanes([self._pool] * plan.n_lanes)
        room = np.zeros((self._pool.n_threads, plan.layout.n_roles * plan.layout.hist_size), np.int64)
        self._lanes = [TreeRows(one, plan.mapper, runs, room) for one in shards]
        self._bags = [BagRows(bag) for bag in shard.bags]
        self._first_tree = n_added
        self._quick = len(y) * len(plan.mapper.n_bins) <= _QUICK_PAIRS
        if plan.n_bags > 1:
            self._watched[TRAIN] = WatchedRows(shard.bins, y, weight, raw, n_added)
        if any(kind == WATCH for kind, _ in self._rows):
            watched = self._bin(WATCH, 1)
            self._watched[WATCH] = WatchedRows(watched[0], watched[1], watched[2], watched[4], n_added)
        # the tables are gone, and may have left much behind
        give_back()
        n_hashed = sum(max(0, min(65_536 - number, last - first)) for (first, number), (last, _) in _pairs(runs, at))
        return content_hash(bins, plan.mapper.column(), n_hashed, counts), [kept_bytes(shards, self._bags)]

    def _bin(self, which: str, n_bags: int) -> tuple[Bins, FloatArray, Any, Any, FloatArray, list[FloatArray]]:
        """Bins, targets, given weights, weights, raw predictions and those of bags, of training or validation rows."""
        mapper, start = self._plan.mapper, self._plan.start
        chosen = [part for (kind, _), part in self._rows.items() if kind == which]
        bins, raws = [], [(np.empty((0, len(start.base))), [np.empty((0, len(start.base)))] * n_bags)]
        for part in chosen:
            if part.table is None:
                continue
            bins.append(mapper.transform(part.table, self._pool))
            raws.append(start_raw(start, n_bags, part.table, mapper, bins[-1], self._pool))
            part.table = None
        empty = mapper.transform(_NoRows(len(mapper.n_bins)), Pool(1))
        joined = join_bins([empty, *bins])
        filled = [part for part in chosen if len(part.y)]
        y = np.concatenate([np.empty(0), *(part.y for part in filled)])
        given = weight = None
        if all(part.given is not None for part in filled):
            given = np.concatenate([np.empty(0), *(part.given for part in filled)])
        if self._plan.weight_scale is not None and which == TRAIN:
            weight = np.concatenate([np.empty(0), *(part.weight for part in filled)])
        raw = np.concatenate([one for one, _ in raws])
        bags = [np.concatenate(parts) for parts in zip(*(bags for _, bags in raws), strict=True)]
        return joined, y, given, weight, raw, [raw] if n_bags == 1 else bags

    # -- statistics --------------------------------------------------------------------------------------------------

    def _columns(self, which: str) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Targets, raw predictions and weights of all training or validation rows.

        Parameters
        ----------
        which : str
            TRAIN, WATCH, or the number of a bag whose raw predictions of the training rows are meant.
        """
        if not hasattr(self, "_plan"):
            parts = [part for (kind, _), part in self._rows.items() if kind == which and len(part.y)]
            y = np.concatenate([np.empty(0), *(part.y for part in parts)])
            weights = [part.weight for part in parts if part.weight is not None]
            return y, y, np.concatenate(weights) if weights else None
        if which != WATCH:
            shard = self._lanes[0].shard
            raw = shard.raw if which == TRAIN else shard.bags[int(which)]
            return shard.data.y, as_outputs(raw), shard.data.sample_weight
        if WATCH not in self._watched:
            return np.empty(0), np.empty(0), None
        watched = self._watched[WATCH]
        return watched.y, as_outputs(watched.raw), watched.weight

    def _do_scale(self, which: str, values: Values | None) -> Scale:
        """Scale of values, or of the weights themselves if there are no values."""
        y, raw, weight = self._columns(which)
        if not len(y):
            return Scale(0.0, 0.0)
        if values is None:
            return Scale.of(y if weight is None else weight, None)
        return Scale.of(values(y, raw), weight)

    def _do_units(self, which: str, values: Values | None, scale: Scale) -> int:
        """Sum of values, or of the weights, in units of a scale."""
        y, raw, weight = self._columns(which)
        if not len(y):
            return 0
        if values is None:
            return len(y) if weight is None else units_sum(weight, None, scale)
        return units_sum(values(y, raw), weight, scale)

    def _do_rank_values(self, which: str, values: Values, scale: Scale | None) -> None:
        """Put values in order; a scale says that their weights count."""
        y, raw, weight = self._columns(which)
        found = values(y, raw) if len(y) else np.empty(0)
        units = None
        if scale is not None and weight is not None:
            units = weight_units(weight, scale.heaviest, scale.whole)
        self._rank(ordered_keys(found), np.zeros(len(found), np.intp), 1, units)

    def _do_rank_residuals(self, lane: int, paths: list[int], output: int) -> None:
        """Put the residuals of leaves in order."""
        residual, leaf, units = self._lanes[lane].residuals(paths, output)
        self._rank(ordered_keys(residual), leaf, len(paths), units)

    def _rank(
        self,
        keys: npt.NDArray[np.uint64],
        group: npt.NDArray[np.intp],
        n_groups: int,
        units: npt.NDArray[np.int64] | None,
    ) -> None:
        order = np.lexsort((keys, group))
        ends = np.searchsorted(group[order], np.arange(n_groups + 1))
        self._ranked = []
        for begin, end in pairwise(ends.tolist()):
            chosen = order[begin:end]
            steps = np.ones(len(chosen), np.int64) if units is None else units[chosen]
            self._ranked.append(Ranked(keys[chosen], np.concatenate([[0], np.cumsum(steps)])))

    def _do_below(self, edges: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Weight of each group's rows whose keys are at most these, shape (n_groups, n_edges)."""
        return np.stack(
            [
                one.weight[np.searchsorted(one.keys, row, side="right")]
                for one, row in zip(self._ranked, edges, strict=True)
            ]
        )

    def _do_collect(self, which: str, what: str) -> list[tuple[int, Any]]:
        """Targets, raw predictions or weights by partition, for metrics that need all rows at once."""
        column = self._columns(which)[("y", "raw", "weight").index(what)]
        found, at = [], 0
        for (kind, i), part in self._rows.items():
            if kind == which:
                found.append((i, None if column is None else column[at : at + len(part.y)]))
                at += len(part.y)
        return found

    # -- iterations --------------------------------------------------------------------------------------------------

    def _do_begin_order(self, bags: Sequence[int]) -> None:
        for bag in bags:
            self._bags[bag].begin()

    def _do_gradients(self, lane: int, loss: Loss | None, bag: int) -> tuple[float, float]:
        return self._lanes[lane].shard.block_gradients(loss or self._plan.loss, bag)

    def _do_begin_tree(self, lane: int, *arguments: Any) -> Any:
        return self._lanes[lane].begin(*arguments)

    def _do_pack(self, lane: int, *arguments: Any) -> Any:
        return self._lanes[lane].pack(*arguments)

    def _do_histogram(self, lane: int, path: int) -> Any:
        return self._lanes[lane].histogram(path)

    def _do_split(self, lane: int, splits: Splits) -> Any:
        return self._lanes[lane].split(splits)

    def _do_undivide(self, lane: int) -> None:
        self._lanes[lane].undivide()

    def _do_leaf_sums(self, lane: int, *arguments: Any) -> Any:
        return self._lanes[lane].leaf_sums(*arguments)

    def _do_add(self, lane: int, bag: int, *arguments: Any) -> None:
        self._lanes[lane].add(*arguments)
        self._bags[bag].n_trees += 1

    def _do_advance(self, which: str, trees: list[tuple[int, GrownTree]], features: npt.NDArray[np.void]) -> None:
        """Add trees to the raw predictions that metrics are computed of, those that they do not have yet."""
        if which in self._watched:
            watched = self._watched[which]
            for number, tree in trees:
                if number == watched.n_added:
                    self._walk(tree, features, watched.bins, watched.raw)
                    watched.n_added += 1

    def _do_rewind(self, n_trees: int, trees: list[tuple[int, GrownTree]], features: npt.NDArray[np.void]) -> None:
        """Go back, or on, to the raw predictions of so many trees, of which the last order's are given."""
        shard, plan = self._lanes[0].shard, self._plan
        n_outputs = shard.raw.shape[1]
        wanted = (n_trees - self._first_tree) // plan.n_bags
        for bag in self._bags:
            if bag.n_trees > wanted:
                bag.undo()
        for number, tree in trees:
            bag = self._bags[bag_of(number - plan.start.n_line, n_outputs, plan.n_bags)]
            iteration, place = divmod(number - self._first_tree, n_outputs * plan.n_bags)
            if bag.n_trees == iteration * n_outputs + place % n_outputs:
                self._walk(replace(tree, value=tree.value * plan.n_bags), features, shard.bins, bag.raw)
                bag.n_trees += 1

    def _walk(self, grown: GrownTree, features: npt.NDArray[np.void], bins: Bins, raw: FloatArray) -> None:
        flat, step = raw.reshape(-1), raw.shape[1]
        tree = (bins, features, grown.node, grown.levels, grown.value, flat, grown.output, step)
        self._pool.run(add_tree, [(*tree, begin, end) for begin, end in self._pool.blocks(len(raw), BLOCK_ROWS)])


class _NoRows:
    """A table without rows."""

    n_rows = 0

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def block(self, start: int, stop: int) -> FloatArray:
        return np.empty((0, self.n_features))

    def column(self, j: int, rows: npt.NDArray[np.intp] | None = None) -> FloatArray:
        return np.empty(0)


def _extremes(y: FloatArray) -> FloatArray:
    """Smallest and largest target; empty without rows."""
    return np.array([y.min(), y.max()]) if len(y) else y


def _hashes(key: np.uint64, start: int, n: int) -> npt.NDArray[np.uint64]:
    keys = np.empty(n, np.uint64)
    hash_rows(key, np.uint64(start), keys)
    return keys


def _class_sizes(y: FloatArray, n_classes: int) -> npt.NDArray[np.int64]:
    return np.bincount(y.astype(np.intp), minlength=n_classes)


def _pairs(runs: list[tuple[int, int]], end: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return list(zip(runs, [*runs[1:], (end, 0)], strict=True))
