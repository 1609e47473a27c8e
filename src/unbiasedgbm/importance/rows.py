"""The rows behind an importance: training and held-out rows as the model sees them, and the sums asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import Tree, TreeModel
from unbiasedgbm.ensemble.adapters.neutral import Rows, compare_raw, proof_rows
from unbiasedgbm.exact import RowStatistics, exact_sum
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.score import TreeScores, effective_number, entry_weights
from unbiasedgbm.importance.sums import FloatArray, LongArray
from unbiasedgbm.importance.units import Paths, Units
from unbiasedgbm.losses import Loss

# Rows whose gradients are computed at once: their entries fit in a processor's cache.
_BLOCK = 8_192

# Places on the way at which its slope is taken (Gauss and Legendre).
_PLACES = 16


@dataclass(frozen=True, eq=False)
class RowSet:
    """Training or held-out rows as the model sees them.

    Attributes
    ----------
    name : {"train", "val"}
    rows : Rows
    y : ndarray of shape (n_rows,), float64
    weight : ndarray of shape (n_rows,), float64, or None
    raw : ndarray of shape (n_rows, n_outputs), float64
        Prediction of the trees so far; moves on in `walk`.
    offset : ndarray of shape (n_rows, n_outputs), float64, or None
        What the trees are added to, if it is not the model's own start value.
    """

    name: str
    rows: Rows
    y: FloatArray
    weight: FloatArray | None
    raw: FloatArray
    offset: FloatArray | None = None

    @classmethod
    def of(
        cls,
        model: TreeModel,
        X: Any,
        y: Any,
        sample_weight: Any,
        name: str,
        n_jobs: int | None,
        whole: bool = True,
        offset: Any = None,
    ) -> RowSet:
        """Bind a table to the model and check that its parts fit together.

        Parameters
        ----------
        whole : bool
            Whether these are all rows. If they are a part of them, all weights may be zero.
        offset : array-like or None
            The model must have been read with ``offset=True``.
        """
        model.check_order(X, f"X_{name}")
        encoded = model.encode(y)
        rows = model.bind(X, n_jobs)
        raw = np.ascontiguousarray(rows.base())
        if len(encoded) != len(raw):
            raise ValueError(f"X_{name} has {len(raw)} rows but y_{name} has {len(encoded)}.")
        if not len(encoded):
            raise ValueError(f"X_{name} has no rows.")
        if not np.isfinite(encoded).all():
            raise ValueError(f"y_{name} holds a value that is missing or not finite.")
        weight = _checked_weight(sample_weight, len(raw), name, whole)
        if offset is None:
            return cls(name, rows, encoded, weight, raw)
        offset = _checked_offset(offset, raw.shape, name)
        return cls(name, rows, encoded, weight, raw + offset, offset)

    @property
    def labels(self) -> FloatArray:
        """Targets without the further columns that a user's loss may have."""
        return self.y if self.y.ndim == 1 else self.y[:, 0]

    def times(self, by_class: FloatArray) -> RowSet:
        """The same rows, also weighted by their classes."""
        # Of two classes, the second one is what is 1, also where targets are shares or other numbers.
        own = by_class[(self.labels == 1.0 if len(by_class) == 2 else self.labels).astype(np.intp)]
        return replace(self, weight=own if self.weight is None else own * self.weight)

    def begun_later(self, step: FloatArray) -> RowSet:
        """The same rows, with another start value; see `TreeModel.begun_later`."""
        return replace(self, raw=self.raw + step)

    def nodes(self, first: int, last: int) -> Any:
        """Leaf of each row, shape (last - first, n_rows), int32."""
        return np.ascontiguousarray(self.rows.nodes(first, last).T)

    def predicted(self, sample: LongArray) -> FloatArray:
        """The library's own raw prediction of some rows, offsets included, shape (len(sample), n_outputs)."""
        raw = self.rows.raw(sample)
        return raw if self.offset is None else raw + self.offset[sample]

    def outputs(self, raw: FloatArray | None = None) -> FloatArray:
        """Raw predictions as losses want them."""
        raw = self.raw if raw is None else raw
        return raw[:, 0].copy() if raw.shape[1] == 1 else raw

    def masses(self) -> FloatArray:
        """Weight of each row, shape (n_rows,)."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def gradients(self, loss: Loss) -> tuple[FloatArray, FloatArray]:
        """Weighted g and h at the current raw prediction, shape (n_outputs, n_rows)."""
        g, h = loss.gradients(self.y, self.outputs())
        return self._weighted(g, self.weight), self._weighted(h, self.weight)

    def gradients_at(self, loss: Loss, raw: FloatArray, row: LongArray | None = None) -> FloatArray:
        """Weighted g of all or some rows at other raw predictions, shape (n_outputs, n_rows)."""
        y, weight = (self.y, self.weight) if row is None else (self.y[row], self.weight)
        if row is not None and weight is not None:
            weight = weight[row]
        g, _ = loss.gradients(y, self.outputs(raw))
        return self._weighted(g, weight)

    @staticmethod
    def _weighted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
        if weight is not None:
            values = values * (weight if values.ndim == 1 else weight[:, None])
        return np.ascontiguousarray(np.atleast_2d(values.T))

    def advance(self, tree: Tree, node: Any) -> None:
        """Add one tree to the raw prediction."""
        for position, output in enumerate(tree.outputs):
            self.raw[:, output] += tree.value[node, position]


def _checked_weight(sample_weight: Any, n_rows: int, name: str, whole: bool) -> FloatArray | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight_{name} must have shape ({n_rows},), got {weight.shape}.")
    if not (np.isfinite(weight).all() and (weight >= 0.0).all() and (weight.any() or not whole)):
        raise ValueError(f"sample_weight_{name} must be finite, not negative and not all zero.")
    return weight


def _checked_offset(offset: Any, shape: tuple[int, int], name: str) -> FloatArray:
    given = np.asarray(offset, dtype=np.float64)
    if given.shape != shape and not (shape[1] == 1 and given.shape == shape[:1]):
        wanted = f"({shape[0]},)" if shape[1] == 1 else f"{shape}"
        raise ValueError(f"offset_{name} must have shape {wanted}, got {given.shape}.")
    if not np.isfinite(given).all():
        raise ValueError(f"offset_{name} holds a value that is missing or not finite.")
    return given.reshape(shape)


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Sums over the rows of one tree, in fixed point; sums of rows in several places are added.

    Attributes
    ----------
    train, held : ndarray of shape (n_nodes, 3), int64
        By leaf; see `sums.add_masses`.
    pull : ndarray of shape (n_nodes,), int64
        Training gradients by leaf, for the paper's sums.
    steps : ndarray of shape (2 n_slots, 3), int64
        See `sums.add_steps`.
    """

    train: LongArray
    held: LongArray
    pull: LongArray
    steps: LongArray

    def __add__(self, other: TreeSums) -> TreeSums:
        return TreeSums(
            self.train + other.train, self.held + other.held, self.pull + other.pull, self.steps + other.steps
        )


class GainRows:
    """Training and held-out rows that lie here, in one or several sets, and what `walk` asks of them.

    Sums are integers and moments are exact, so that rows in several places give the same numbers.

    Parameters
    ----------
    model : TreeModel
    units : Units
    train, held : list of RowSet
    paper_sums : bool
        Judge all splits at the full prediction, by Σg/Σh; see `score`.
    together : ndarray of shape (n_held,), uint32, or None
        Numbers of groups of held-out rows that are one observation.
    """

    def __init__(
        self,
        model: TreeModel,
        units: Units,
        train: list[RowSet],
        held: list[RowSet],
        paper_sums: bool,
        together: npt.NDArray[np.uint32] | None = None,
    ) -> None:
        self.model, self.units, self.train, self.held = model, units, train, held
        self.paper_sums, self._together = paper_sums, together
        self._group_order = np.empty(0, np.intp) if together is None else np.argsort(together, kind="stable")
        self.n_train, self.n_held = (sum(len(rows.y) for rows in sets) for sets in (train, held))
        self._sets = [*train, *held]
        self._psi = [np.zeros((len(rows.y), units.n_units)) for rows in held]
        self._own: list[npt.NDArray[np.float32]] = []
        self._last_iteration = max((tree.iteration for tree in model.trees), default=0)
        self._chunks = model.chunks(self.n_train + self.n_held)
        self._range = (0, 0)
        self._nodes: list[Any] = []
        self._loss = model.loss
        # Whether all splits of this iteration are judged at the full prediction, as in the first one.
        self._at_full = True
        self._gradients: list[tuple[FloatArray, FloatArray]] = []
        self._masses = [rows.masses() for rows in self._sets]
        self._entries: list[FloatArray] = []
        self._paths: tuple[int, Paths] | None = None
        self._mass_sums: tuple[int, LongArray, LongArray] | None = None
        self._pending: list[tuple[int, list[Any], FloatArray]] = []
        self.samples = [proof_rows(len(rows.y)) for rows in self._sets]
        self.expected = [rows.predicted(sample) for rows, sample in zip(self._sets, self.samples, strict=True)]
        self._largest = [float(np.abs(rows.raw).max()) for rows in self._sets]
        self._first_raw = [rows.raw.copy() for rows in train]

    @property
    def grouped(self) -> bool:
        """Whether held-out rows are counted by groups."""
        return self._together is not None

    def mass(self) -> float:
        """Sum of the training weights; the number of rows if there are none."""
        return self.statistics().total(_ones)

    def statistics(self) -> RowStatistics:
        """Statistics of the training rows."""
        if len(self.train) == 1:
            return RowStatistics(self.train[0].y, self.train[0].outputs(), self.train[0].weight)
        y = np.concatenate([rows.y for rows in self.train])
        raw = np.concatenate([rows.outputs() for rows in self.train])
        weights = [rows.weight for rows in self.train if rows.weight is not None]
        return RowStatistics(y, raw, np.concatenate(weights) if weights else None)

    def begin(self, loss: Loss) -> None:
        """Begin an iteration: all its trees are judged at the predictions of the iterations before it."""
        loss.prepare_over(self.statistics())
        self.begin_prepared(loss)

    def begin_prepared(self, loss: Loss) -> None:
        """`begin` with a loss that has seen all training rows."""
        self._flush()
        self._loss = loss
        self._at_full = self.paper_sums or not self._own
        self._gradients = []
        if self.paper_sums:
            self._gradients = [rows.gradients(loss) for rows in self._sets]
        elif self._at_full:
            self._gradients = [(np.empty((0, 0)), np.empty((0, 0)))] * len(self.train)
            self._gradients += [rows.gradients(loss) for rows in self.held]

    def largest(self, number: int) -> FloatArray:
        """Prepare the gradients of a tree; returns the largest |g| and mass of training and of held-out rows, (4,)."""
        found = np.zeros(4)
        self._entries = []
        for k, rows in enumerate(self._sets):
            mass = self._gradients[k][1] if self.paper_sums else self._masses[k]
            place = 0 if rows.name == "train" else 2
            found[place + 1] = max(found[place + 1], float(mass.max(initial=0.0)))
            if rows.name == "train":
                g = self._gradients[k][0] if self.paper_sums else np.zeros(1)
            else:
                g = self._entry_gradients(number, k)
                self._entries.append(g)
            found[place] = max(found[place], float(np.abs(g).max(initial=0.0)))
        return found

    def _entry_gradients(self, number: int, k: int) -> FloatArray:
        """Gradient of each held-out row for every unit on its path, shape (outputs of the tree, n_entries)."""
        tree, paths, node = self.model.trees[number], self.paths(number), self._leaves(number)[k]
        rows = self._sets[k]
        first = np.zeros(len(node) + 1, dtype=np.int64)
        np.cumsum(np.diff(paths.entry_start)[node], out=first[1:])
        found = np.empty((len(tree.outputs), int(first[-1])))
        if self._at_full:
            for position, output in enumerate(tree.outputs):
                sums.repeat_entries(node, paths.entry_start, self._gradients[k][0][output], found[position])
            return found
        own = self._own[k - len(self.train)]
        outputs = list(tree.outputs)
        if not self._loss.rowwise:
            self._fill_whole(rows, node, paths, own, outputs, found)
            return found
        for begin in range(0, len(node), _BLOCK):
            end = min(begin + _BLOCK, len(node))
            block = slice(int(first[begin]), int(first[end]))
            row = np.empty(block.stop - block.start, dtype=np.int64)
            raw = np.empty((len(row), self.model.n_outputs))
            sums.gather_entries(
                node[begin:end], paths.entry_start, paths.entry_unit, rows.raw[begin:end], own[begin:end], row, raw
            )
            found[:, block] = rows.gradients_at(self._loss, raw, row + begin)[outputs]
        return found

    def _fill_whole(
        self, rows: RowSet, node: Any, paths: Paths, own: Any, outputs: list[int], found: FloatArray
    ) -> None:
        """The same for a loss whose gradients depend on all rows: unit by unit, at all rows without the unit."""
        for unit in np.unique(paths.slot_unit).tolist():
            g = rows.gradients_at(self._loss, rows.raw - own[:, unit])
            for position, output in enumerate(outputs):
                arrays = paths.entry_start, paths.entry_unit
                sums.place_entries(node, *arrays, unit, np.ascontiguousarray(g[output]), found[position])

    def paths(self, number: int) -> Paths:
        """Paths of one tree."""
        if self._paths is None or self._paths[0] != number:
            self._paths = (number, Paths.of(self.model.trees[number], self.units))
        return self._paths[1]

    def sums(self, number: int, position: int, units: FloatArray) -> TreeSums:
        """Sums over the rows of a tree, for one of its outputs.

        Parameters
        ----------
        number : int
        position : int
            Of the output among those of the tree.
        units : ndarray of shape (2, 5), float64
            Powers of two for training and for held-out rows: mass, mass², g, g·mass, g².
        """
        tree, paths, leaves = self.model.trees[number], self.paths(number), self._leaves(number)
        n_nodes, output = len(tree.left), tree.outputs[position]
        pull, steps = np.zeros(n_nodes, np.int64), np.zeros((2 * len(paths.slot_node), 3), np.int64)
        masses = self._masses
        if self.paper_sums:
            masses = [h[output] for _, h in self._gradients]
        if self.paper_sums or self._mass_sums is None or self._mass_sums[0] != number:
            train, held = np.zeros((2, n_nodes, 3), np.int64)
            for k, rows in enumerate(self._sets):
                which, total = (0, train) if rows.name == "train" else (1, held)
                sums.add_masses(leaves[k], masses[k], units[which, :2], total)
            self._mass_sums = (number, train, held)
        for k in range(len(self.train) if self.paper_sums else 0):
            sums.add_gradients(leaves[k], self._gradients[k][0][output], masses[k], units[0, 2], pull)
        for k, g in enumerate(self._entries, start=len(self.train)):
            arrays = paths.entry_start, paths.step_start, paths.step_entry, paths.step_row
            sums.add_steps(leaves[k], masses[k], g[position], *arrays, units[1, 2:], steps)
        return TreeSums(self._mass_sums[1].copy(), self._mass_sums[2].copy(), pull, steps)

    def _leaves(self, number: int) -> list[Any]:
        """Leaf of every row of every set in one tree."""
        while number >= self._range[1]:
            self._range = next(self._chunks)
            self._nodes = [rows.nodes(*self._range) for rows in self._sets]
        return [nodes[number - self._range[0]] for nodes in self._nodes]

    def held_rows(self, number: int, output: int) -> tuple[Any, FloatArray, FloatArray]:
        """Leaf, g and h of all held-out rows at the full prediction, for draws."""
        k = len(self.train)
        g, h = self._gradients[k]
        return self._leaves(number)[k], g[output], h[output]

    def add(self, number: int, position: int, scores: TreeScores) -> None:
        """Add the contributions of the held-out rows through one tree."""
        paths, output = self.paths(number), self.model.trees[number].outputs[position]
        weights = entry_weights(paths, scores)
        for k, psi in enumerate(self._psi, start=len(self.train)):
            mass = self._gradients[k][1][output] if self.paper_sums else self._masses[k]
            g = self._entries[k - len(self.train)][position]
            sums.add_contributions(self._leaves(number)[k], mass, g, paths.entry_start, paths.entry_unit, weights, psi)

    def advance(self, number: int, mean: FloatArray) -> None:
        """Add one tree to the predictions, and what it added for each unit to what is taken out.

        Parameters
        ----------
        mean : ndarray of shape (n_nodes, outputs of the tree), float64
            See `score.mean_values`.
        """
        leaves = self._leaves(number)
        for k, rows in enumerate(self.train):
            rows.advance(self.model.trees[number], leaves[k])
            self._largest[k] = max(self._largest[k], float(np.abs(rows.raw).max()))
        self._pending.append((number, leaves[len(self.train) :], mean))
        if self.paper_sums or self._last_iteration == 0:
            # Nothing is asked of these predictions before the iteration ends.
            self._flush()

    def _flush(self) -> None:
        """Move the held-out rows on by the trees of the iteration that is finished."""
        for number, leaves, mean in self._pending:
            tree = self.model.trees[number]
            paths = self.paths(number)
            if not self.paper_sums and tree.iteration < self._last_iteration and not self._own:
                shape = self.units.n_units, self.model.n_outputs
                self._own = [np.zeros((len(rows.y), *shape), dtype=np.float32) for rows in self.held]
            for k, (rows, node) in enumerate(zip(self.held, leaves, strict=True)):
                rows.advance(tree, node)
                place = len(self.train) + k
                self._largest[place] = max(self._largest[place], float(np.abs(rows.raw).max()))
                if not self._own or tree.iteration == self._last_iteration:
                    continue
                for position, output in enumerate(tree.outputs):
                    value, below = (np.ascontiguousarray(table[:, position]) for table in (tree.value, mean))
                    arrays = paths.entry_start, paths.entry_unit, paths.entry_top
                    sums.add_own_effects(node, *arrays, value, below, output, self._own[k])
        self._pending = []

    def prove(self) -> None:
        """Raise unless the sums of leaf values are the model's own predictions."""
        self._flush()
        for k, rows in enumerate(self._sets):
            found = rows.raw[self.samples[k]]
            compare_raw(self.model, self.expected[k], found, self._largest[k], f"X_{rows.name}")

    def slope_sums(self) -> tuple[float, float]:
        """Sums of `slopes` over the training rows."""
        before, after = (exact_sum(values) for values in self.slopes())
        return before, after

    def slopes(self) -> list[FloatArray]:
        """Slope of the training loss along the way of the predictions: at its beginning, and on average; (n_train,).

        The average is the loss that all trees take away, whose values are not needed.
        """
        places, weights = np.polynomial.legendre.leggauss(_PLACES)
        found: list[list[FloatArray]] = [[], []]
        for rows, first in zip(self.train, self._first_raw, strict=True):
            way = rows.raw - first
            found[0].append((rows.gradients_at(self._loss, first) * way.T).sum(axis=0))
            average = np.zeros(len(way))
            for place, weight in zip((places + 1.0) / 2.0, weights / 2.0, strict=True):
                average += weight * (rows.gradients_at(self._loss, first + place * way) * way.T).sum(axis=0)
            found[1].append(average)
        return [_joined(parts) for parts in found]

    def observed(self, number: int, position: int, held: FloatArray) -> FloatArray:
        """Independent observations in each node of a tree: held-out rows, or groups of them, shape (n_nodes,).

        Rows of unequal mass count as fewer; see `score.effective_number`.

        Parameters
        ----------
        held : ndarray of shape (n_nodes, 3), float64
            Sums over the held-out rows.
        """
        tree = self.model.trees[number]
        count, square = held[:, sums.N], held[:, sums.SQUARE]
        if self._together is not None:
            k = len(self.train)
            mass = self._gradients[k][1][tree.outputs[position]] if self.paper_sums else self._masses[k]
            count, square, total = np.zeros((3, len(held)))
            last = np.full(len(held), -1, np.int64)
            leaves = self._leaves(number)[k]
            sums.count_groups(self._group_order, self._together, leaves, mass, tree.parent, last, total, count, square)
        return effective_number(count, held[:, sums.MASS], square, tree.order, tree.parent)

    def contributions(self, column: tuple[LongArray, FloatArray]) -> FloatArray:
        """Contribution of every held-out row, or group of them, to a feature or group of features, shape (n_held,)."""
        units, shares = column
        rows = _joined([psi[:, units] @ shares for psi in self._psi])
        return rows if self._together is None else np.bincount(self._together, rows).astype(np.float64)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Σψ² and Σψ⁴ of all features and groups of features, each of shape (n_columns,)."""
        found = np.array([exact_sum(values) for values in self.powers()])
        return found[: len(found) // 2], found[len(found) // 2 :]

    def powers(self) -> list[FloatArray]:
        """ψ² of all features and groups of features, then ψ⁴, each of shape (n_held,)."""
        psi = [self.contributions(column) for column in self.units.columns]
        return [one**power for power in (2, 4) for one in psi]


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    joined: FloatArray = np.concatenate([np.empty(0), *parts])
    return joined


def _ones(y: FloatArray, raw: FloatArray) -> FloatArray:
    return np.ones(len(y))
