"""The walk over the trees of a model, in the order of training, that adds up the unbiased gain.

For every tree: the sums of its training and held-out rows, the scores of its splits, and what each held-out row
contributes to them. Then the tree joins the prediction, and what it added because of a feature joins what is taken out
when later splits on this feature are judged.

Given the model, the importance of a feature is to first order a sum Σψ over held-out rows, so its standard error is the
root of Σψ². Two small-sample corrections: ψ of a node with N held-out rows is multiplied by √(N/(N − 1)), and tests use
Student's t with the degrees of freedom that Σψ² has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unbiasedgbm.ensemble.adapters import Tree, TreeModel
from unbiasedgbm.exact import fixed_unit
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.draws import draw_scores
from unbiasedgbm.importance.result import FloatArray, IntArray
from unbiasedgbm.importance.rows import GainRows, TreeSums
from unbiasedgbm.importance.score import TreeScores, fill_scores, mean_values
from unbiasedgbm.importance.units import Paths, Units


@dataclass(frozen=True)
class GainOptions:
    """How splits are scored.

    Attributes
    ----------
    min_rows : int
        Splits with fewer held-out rows in one of the children get no score; with ``row_groups_val``, with rows of fewer
        groups.
    paper_sums : bool
        The paper's sums at the full prediction in place of ours; see `score`.
    draws : int or None
        None for the closed form of the k-draw; else the number of random draws to average.
    seed : int
        Of the draws.
    """

    min_rows: int = 5
    paper_sums: bool = False
    draws: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.min_rows < 2:
            raise ValueError(f"min_rows must be at least 2, got {self.min_rows}: one row has no spread.")
        if self.draws is not None and self.draws < 1:
            raise ValueError(f"draws must be None or at least 1, got {self.draws}.")
        if self.draws is not None and not self.paper_sums:
            raise ValueError("draws are for checking the closed form of the paper's sums: set paper_sums=True.")

    def for_model(self, model: TreeModel) -> GainOptions:
        """The same options; the trees of a forest do not build on each other, so the paper's sums suit them."""
        return replace(self, paper_sums=True) if model.averaged else self


class Tally:
    """What the walk adds up, by unit.

    Attributes
    ----------
    per_tree, per_class, per_depth : ndarray of shape (…, n_units), float64
    n_splits : ndarray of shape (n_units,), int64
        Splits that have a score.
    effect, unjudged : ndarray of shape (n_units,), float64
        Size of all steps on the training rows, W_L W_R / W · (w_L − w_R)²; that of the steps without a score.
    slope : tuple of float
        Of the training loss along the way of the predictions, at its beginning and on average.
    leaf_rows : ndarray of shape (2, n_nodes), float64
        Training and held-out rows in each leaf of the first tree, or their weights where the model knows weights;
        without nodes if they are not known.
    """

    def __init__(self, model: TreeModel, units: Units) -> None:
        depth = max((int(tree.depth.max()) for tree in model.trees), default=0)
        self.per_tree = np.zeros((len(model.trees), units.n_units))
        self.per_class = np.zeros((model.n_outputs, units.n_units))
        self.per_depth = np.zeros((depth, units.n_units))
        self.n_splits: IntArray = np.zeros(units.n_units, dtype=np.int64)
        self.effect, self.unjudged = np.zeros((2, units.n_units))
        self.slope = (0.0, 0.0)
        self.leaf_rows = np.zeros((2, 0))

    def add(self, number: int, position: int, tree: Tree, paths: Paths, score: FloatArray, effect: FloatArray) -> None:
        """Credit the scores of one output of tree ``number``; a split counts once, whatever the number of outputs.

        Parameters
        ----------
        score, effect : ndarray of shape (n_slots,), float64
        """
        unit, judged = paths.slot_unit, ~np.isnan(score)
        found = np.where(judged, score, 0.0)
        np.add.at(self.per_tree[number], unit, found)
        np.add.at(self.per_class[tree.outputs[position]], unit, found)
        np.add.at(self.per_depth, (tree.depth[paths.slot_node], unit), found)
        np.add.at(self.effect, unit, effect)
        np.add.at(self.unjudged, unit[~judged], effect[~judged])
        if position == 0:
            np.add.at(self.n_splits, unit[judged], 1)


def walk(model: TreeModel, units: Units, rows: GainRows, options: GainOptions) -> Tally:
    """Walk the trees in the order of training and add up scores and row contributions.

    The sums of leaf values end at the model's prediction, which proves the reading: the result is not released
    otherwise.

    Parameters
    ----------
    model : TreeModel
    units : Units
    rows : GainRows
    options : GainOptions

    Returns
    -------
    Tally
    """
    tally = Tally(model, units)
    mass = rows.mass()
    iteration = -1
    for number, tree in enumerate(model.trees):
        if tree.iteration != iteration:
            iteration = tree.iteration
            rows.begin(model.loss)
        fixed = _fixed_units(rows.largest(number), rows.n_train, rows.n_held)
        mean = np.zeros(tree.value.shape)
        for position in range(len(tree.outputs)):
            total = rows.sums(number, position, fixed)
            if number == position == 0 and not (options.paper_sums and model.leaf_weights):
                tally.leaf_rows = _leaf_rows(model, total, fixed, rows.n_train)
            mean[:, position] = _judge(tally, number, position, rows, total, fixed, mass, options)
        rows.advance(number, mean)
    rows.prove()
    if not options.paper_sums:
        tally.slope = rows.slope_sums()
    return tally


def _leaf_rows(model: TreeModel, total: TreeSums, fixed: FloatArray, n_train: int) -> FloatArray:
    """Rows in each leaf, or their weights, shape (2, n_nodes)."""
    found = np.stack([total.train, total.held])
    if not model.leaf_weights and found[0, :, sums.N].sum() != n_train:
        # The library has counted the rows of weight zero, too.
        return np.zeros((2, 0))
    return found[:, :, sums.MASS] / fixed[:, :1] if model.leaf_weights else found[:, :, sums.N].astype(np.float64)


def realised_share(slope: tuple[float, float]) -> float:
    """By what scores must be multiplied so that they add up to about the loss that the model takes away.

    Scores are of first order: what a step would take away if the loss went on as steeply as at the beginning. The
    share of it that is realised is measured on the training rows, along the straight way from the first prediction to
    the last one: nearly all by one short step, one half by the time a quadratic loss is at its minimum.

    Parameters
    ----------
    slope : tuple of float
        See `Tally`.
    """
    beginning, average = slope
    return min(max(average / beginning, 0.0), 1.0) if beginning < 0.0 else 0.5


def _fixed_units(largest: FloatArray, n_train: int, n_held: int) -> FloatArray:
    """Units of fixed-point sums over training and over held-out rows, shape (2, 5): mass, mass², g, g·mass, g²."""
    units = np.ones((2, 5))
    for which, n in enumerate((n_train, n_held)):
        g, mass = largest[2 * which : 2 * which + 2]
        units[which] = [fixed_unit(top, n) for top in (mass, mass * mass, g, g * mass, g * g)]
    return units


def _judge(
    tally: Tally,
    number: int,
    position: int,
    rows: GainRows,
    total: TreeSums,
    fixed: FloatArray,
    mass: float,
    options: GainOptions,
) -> FloatArray:
    """Score the splits of one output of a tree; returns the mean value of the leaves below each node."""
    tree, paths = rows.model.trees[number], rows.paths(number)
    for leaves in (total.train, total.held, total.pull[:, None]):
        sums.lift_sums(tree.order, tree.parent, leaves)
    weight = np.ascontiguousarray(total.train[:, sums.MASS] / fixed[0, 0])
    held = total.held / np.array([1.0, *fixed[1, :2]])
    mean = np.zeros(len(weight))
    mean_values(tree.left, tree.right, tree.order, np.ascontiguousarray(tree.value[:, position]), weight, mean)
    step = mean - mean[np.maximum(tree.parent, 0)]
    pull, scale = -weight * step, 1.0 / mass
    if options.paper_sums:
        pull, scale = total.pull / fixed[0, 2], tree.share / (2.0 * mass)
    scores = TreeScores(np.empty(len(paths.slot_node)), *np.empty((2, 2 * len(paths.slot_node))))
    fill_scores(
        *(paths.slot_node, paths.slot_share, tree.left, tree.right, pull, held, total.steps / fixed[1, 2:]),
        *(rows.observed(number, position, held), scale, float(options.min_rows), not options.paper_sums),
        *(scores.score, scores.per_g, scores.per_mass),
    )
    score = scores.score
    if options.draws is not None:
        output = tree.outputs[position]
        key = (options.seed * len(tally.per_tree) + number) * len(tally.per_class) + output
        held_rows = rows.held_rows(number, output)
        score = draw_scores(tree, paths, held_rows, pull, score, scale, options.draws, key)
    squares = weight * step * step
    effect = squares[tree.left[paths.slot_node]] + squares[tree.right[paths.slot_node]]
    tally.add(number, position, tree, paths, score, effect)
    rows.add(number, position, scores)
    return mean
