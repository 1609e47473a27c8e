"""Unbiased gain of a trained model (Zhang, Zhang and Li 2023), with standard errors.

The trees are walked in the order of training. Before each iteration g and h are computed, on the training rows and on
the held-out rows, at the raw prediction of the trees before it. For every split, with k the smaller number of held-out
rows in a child,

    Gain_ub = 1/(2n) [ G_L r_L + G_R r_R − G_I r_I ],     r = mean over k-subsets of Σg'/Σh'

G from the training rows, r from the held-out rows (a prime marks them). A feature's importance is the sum over its
splits. Conditionally on the model it is, to first order, a sum over held-out rows,

    ψ_i = 1/(2n) Σ_splits [ G_c (g'_i − r_c h'_i)/H'_c − G_I (g'_i − r_I h'_i)/H'_I ],     c the child of row i

so that its standard error is the root of Σψ². Two small-sample corrections: ψ of a node with N held-out rows is
multiplied by √(N/(N − 1)), and tests use Student's t with the degrees of freedom that Σψ² has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbiasedgbm.ensemble.adapters import Tree, TreeModel, read_model
from unbiasedgbm.ensemble.adapters.neutral import Rows, compare_raw, proof_rows
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.draws import draw_scores
from unbiasedgbm.importance.result import FloatArray, Importance, IntArray, effective_df, group_names
from unbiasedgbm.losses import Loss


class FewUsableSplitsWarning(UserWarning):
    """Most splits of the model have too few held-out rows to be judged."""


@dataclass(frozen=True)
class GainOptions:
    """How splits are scored.

    Attributes
    ----------
    min_rows : int
        Splits with fewer held-out rows in the smaller child get no score.
    draws : int or None
        None for the closed form of the k-draw; else the number of random draws to average.
    seed : int
        Of the draws.
    """

    min_rows: int = 5
    draws: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.min_rows < 2:
            raise ValueError(f"min_rows must be at least 2, got {self.min_rows}: one row has no spread.")
        if self.draws is not None and self.draws < 1:
            raise ValueError(f"draws must be None or at least 1, got {self.draws}.")


def unbiased_gain(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_val: Any,
    y_val: Any,
    *,
    sample_weight_train: Any = None,
    sample_weight_val: Any = None,
    loss: Loss | Callable[..., Any] | None = None,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    level: float = 0.95,
    min_rows: int = 5,
    draws: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Importance:
    """Unbiased gain of a trained gradient boosting model.

    Parameters
    ----------
    model : object
        A trained XGBoost, LightGBM, CatBoost, scikit-learn (``GradientBoosting*``, ``HistGradientBoosting*``) or
        UnbiasedGBM model.
    X_train, y_train : table of shape (n_train, n_features), array-like of shape (n_train,)
        The rows that the model was trained on, as its own ``predict`` accepts them.
    X_val, y_val : table of shape (n_val, n_features), array-like of shape (n_val,)
        Rows that had no part in training, early stopping included.
    sample_weight_train, sample_weight_val : array-like, optional
        Weights as given to ``fit``. Class weights of the model itself are applied in any case.
    loss : Loss or callable, optional
        For objectives that are not known by name (ranking, custom): ``loss(y, raw) -> (g, h)``, the first and second
        derivative by the raw prediction. ``y`` may have further columns, which are handed to the callable.
    groups : mapping, optional
        ``{"zip": ["zip_2", "zip_3"]}``: features, by name or number, that are also tested together.
    level : float, default=0.95
        Confidence level of the intervals.
    min_rows : int, default=5
        Splits with fewer held-out rows in the smaller child get no score.
    draws : int, optional
        Average this many random draws of k rows instead of their closed form; for checking.
    random_state : int, default=0
        Seed of the draws.
    n_jobs : int, optional
        Threads of the model's library while it places the rows. The result does not depend on it.

    Returns
    -------
    Importance
        In units of the loss a row; ``groups`` holds the groups.

    Warns
    -----
    FewUsableSplitsWarning
        If less than half of the splits could be judged.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import unbiased_gain
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> result = unbiased_gain(model, X[:400], y[:400], X[400:], y[400:])
    >>> bool(result.p_value.min() < 1e-6)
    True
    >>> [result.feature_names[j] for j in result.ranking()[:1]]
    ['x22']
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}.")
    tree_model = read_model(model, loss)
    train = Part.of(tree_model, X_train, y_train, sample_weight_train, "train", n_jobs)
    held = Part.of(tree_model, X_val, y_val, sample_weight_val, "val", n_jobs)
    held, train = held.with_model_weights(tree_model, train), train.with_model_weights(tree_model, train)
    members = group_names(groups, tree_model.feature_names)
    tally = walk(tree_model, train, held, GainOptions(min_rows, draws, random_state))
    tally.warn_if_few()
    settings = {
        "model": tree_model.name,
        "loss": tree_model.loss.name,
        "n_train": len(train.y),
        "n_val": len(held.y),
        "min_rows": min_rows,
        "draws": draws,
        "random_state": random_state,
    }
    result = Importance(
        method="unbiased gain",
        feature_names=tree_model.feature_names,
        importance=tally.per_tree.sum(axis=0),
        se=np.sqrt(np.einsum("ij,ij->j", tally.psi, tally.psi)),
        n_splits=tally.n_splits,
        df=effective_df(tally.psi),
        level=level,
        per_tree=tally.per_tree,
        per_class=tally.per_class,
        per_depth=tally.per_depth,
        settings=settings,
    )
    return replace(result, groups=_grouped(result, tally.psi, members) if members else None)


@dataclass(frozen=True, eq=False)
class Part:
    """Training or held-out rows as the model sees them.

    Attributes
    ----------
    name : {"train", "val"}
    rows : Rows
    y : ndarray of shape (n_rows,), float64
    weight : ndarray of shape (n_rows,), float64, or None
    raw : ndarray of shape (n_rows, n_outputs), float64
        Prediction of the trees so far; moves on in `walk`.
    """

    name: str
    rows: Rows
    y: FloatArray
    weight: FloatArray | None
    raw: FloatArray

    @classmethod
    def of(cls, model: TreeModel, X: Any, y: Any, sample_weight: Any, name: str, n_jobs: int | None) -> Part:
        """Bind a table to the model and check that its parts fit together."""
        encoded = model.encode(y)
        rows = model.bind(X, n_jobs)
        raw = np.ascontiguousarray(rows.base())
        if len(encoded) != len(raw):
            raise ValueError(f"X_{name} has {len(raw)} rows but y_{name} has {len(encoded)}.")
        if not len(encoded):
            raise ValueError(f"X_{name} has no rows.")
        if not np.isfinite(encoded).all():
            raise ValueError(f"y_{name} holds a value that is missing or not finite.")
        return cls(name, rows, encoded, _checked_weight(sample_weight, len(raw), name), raw)

    def with_model_weights(self, model: TreeModel, train: Part) -> Part:
        """Weights times those that the model gives to the row's class, found from its training rows."""
        if model.class_weight is None:
            return self
        own = model.class_weight(train.y, train.weight)[self.y.astype(np.intp)]
        return replace(self, weight=own if self.weight is None else own * self.weight)

    def nodes(self, first: int, last: int) -> Any:
        """Leaf of each row, shape (last - first, n_rows), int32."""
        return np.ascontiguousarray(self.rows.nodes(first, last).T)

    def gradients(self, loss: Loss) -> tuple[FloatArray, FloatArray]:
        """Weighted g and h at the current raw prediction, shape (n_outputs, n_rows)."""
        raw = self.raw[:, 0].copy() if loss.n_outputs == 1 else self.raw
        if self.name == "train":
            loss.prepare(self.y, raw, self.weight)
        g, h = loss.gradients(self.y, raw)
        if self.weight is not None:
            weight = self.weight if g.ndim == 1 else self.weight[:, None]
            g, h = g * weight, h * weight
        return np.ascontiguousarray(np.atleast_2d(g.T)), np.ascontiguousarray(np.atleast_2d(h.T))

    def advance(self, tree: Tree, node: Any) -> None:
        """Add one tree to the raw prediction."""
        for position, output in enumerate(tree.outputs):
            self.raw[:, output] += tree.value[node, position]


def _checked_weight(sample_weight: Any, n_rows: int, name: str) -> FloatArray | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight_{name} must have shape ({n_rows},), got {weight.shape}.")
    if not (np.isfinite(weight).all() and (weight >= 0.0).all() and weight.any()):
        raise ValueError(f"sample_weight_{name} must be finite, not negative and not all zero.")
    return weight


class _Tally:
    """What the walk adds up.

    Attributes
    ----------
    psi : ndarray of shape (n_val, n_features), float64
        Contribution of each held-out row to each feature.
    per_tree, per_class, per_depth : ndarray of shape (…, n_features), float64
    n_splits : ndarray of shape (n_features,), int64
    """

    def __init__(self, model: TreeModel, n_rows: int) -> None:
        n_features = len(model.feature_names)
        depth = max((int(tree.depth.max()) for tree in model.trees), default=0)
        self.psi = np.zeros((n_rows, n_features))
        self.per_tree = np.zeros((len(model.trees), n_features))
        self.per_class = np.zeros((model.n_outputs, n_features))
        self.per_depth = np.zeros((depth, n_features))
        self.n_splits: IntArray = np.zeros(n_features, dtype=np.int64)
        self.n_judged = 0
        self.n_seen = 0
        self._source_start = np.cumsum([0, *map(len, model.sources)]).astype(np.int32)
        self._source_feature = np.concatenate([np.array(s, dtype=np.int32) for s in model.sources])
        self._width = max(map(len, model.sources))
        self._place = np.full(n_features, -1, dtype=np.int32)

    def add(self, number: int, output: int, tree: Tree, score: FloatArray) -> None:
        """Credit the scores of tree ``number`` for one output; a split counts once, whatever the number of outputs."""
        counts = self.n_splits if output == tree.outputs[0] else np.zeros_like(self.n_splits)
        self.n_judged += sums.credit_splits(
            score,
            tree.order,
            tree.depth,
            tree.source,
            self._source_start,
            self._source_feature,
            self.per_tree[number],
            self.per_class[output],
            self.per_depth,
            counts,
        )

    def add_rows(self, tree: Tree, held: _NodeRows, per_g: FloatArray, per_h: FloatArray) -> None:
        """Add the contributions of the held-out rows through one tree."""
        n_entries = int(self._width * np.where(tree.left < 0, np.maximum(tree.depth, 0), 0).sum())
        leaf_start = np.empty(len(tree.left) + 1, dtype=np.int32)
        leaf_feature = np.empty(n_entries, dtype=np.int32)
        leaf_weight = np.empty((n_entries, 2))
        sums.gather_paths(
            tree.left,
            tree.parent,
            tree.source,
            per_g,
            per_h,
            self._source_start,
            self._source_feature,
            self._place,
            leaf_start,
            leaf_feature,
            leaf_weight,
        )
        sums.add_contributions(held.node, held.g, held.h, leaf_start, leaf_feature, leaf_weight, self.psi)

    def warn_if_few(self) -> None:
        """Say so if most splits had too few held-out rows."""
        if 2 * self.n_judged < self.n_seen:
            warnings.warn(
                f"Only {self.n_judged} of {self.n_seen} splits have enough held-out rows to be judged. Give more "
                "held-out rows, or a model with fewer leaves.",
                FewUsableSplitsWarning,
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class _NodeRows:
    """Rows of one part in one tree, for one output: leaf, weighted g and h, each of shape (n_rows,)."""

    node: Any
    g: FloatArray
    h: FloatArray


def walk(model: TreeModel, train: Part, held: Part, options: GainOptions) -> _Tally:
    """Walk the trees in the order of training and add up scores and row contributions.

    The partial sums of leaf values end at the model's prediction, which proves the reading: the result is not released
    otherwise.

    Parameters
    ----------
    model : TreeModel
    train, held : Part
    options : GainOptions

    Returns
    -------
    _Tally
    """
    parts = (train, held)
    samples = [proof_rows(len(part.y)) for part in parts]
    expected = [part.rows.raw(sample) for part, sample in zip(parts, samples, strict=True)]
    largest = [float(np.abs(part.raw).max()) for part in parts]
    tally = _Tally(model, len(held.y))
    mass = float(len(train.y)) if train.weight is None else float(train.weight.sum())
    iteration = -1
    for first, last in model.chunks(len(train.y) + len(held.y)):
        leaves = [part.nodes(first, last) for part in parts]
        for number in range(first, last):
            tree = model.trees[number]
            if tree.iteration != iteration:
                iteration = tree.iteration
                gradients = [part.gradients(model.loss) for part in parts]
            nodes = [leaf[number - first] for leaf in leaves]
            for output in tree.outputs:
                rows = [_NodeRows(v, g[output], h[output]) for v, (g, h) in zip(nodes, gradients, strict=True)]
                _judge(tally, number, output, tree, rows[0], rows[1], tree.share / (2.0 * mass), options)
            for which, part in enumerate(parts):
                part.advance(tree, nodes[which])
                largest[which] = max(largest[which], float(np.abs(part.raw).max()))
    for which, part in enumerate(parts):
        compare_raw(model, expected[which], part.raw[samples[which]], largest[which], f"X_{part.name}")
    return tally


def _judge(
    tally: _Tally,
    number: int,
    output: int,
    tree: Tree,
    train: _NodeRows,
    held: _NodeRows,
    scale: float,
    options: GainOptions,
) -> None:
    """Score the splits of tree ``number`` for one output."""
    n_nodes = len(tree.left)
    train_sums = np.zeros((n_nodes, 2))
    held_sums = np.zeros((n_nodes, 5))
    score, per_g, per_h = np.empty((3, n_nodes))
    sums.sum_training_rows(train.node, train.g, train.h, tree.order, tree.parent, train_sums)
    sums.sum_held_out_rows(held.node, held.g, held.h, tree.order, tree.parent, held_sums)
    sums.score_splits(tree.left, tree.right, train_sums, held_sums, scale, float(options.min_rows), score, per_g, per_h)
    if options.draws is not None:
        key = (options.seed * len(tally.per_tree) + number) * len(tally.per_class) + output
        score = draw_scores(tree, (held.node, held.g, held.h), train_sums, score, scale, options.draws, key)
    tally.add(number, output, tree, score)
    # Symmetric trees hold splits with an empty side, which say nothing; they are not missed.
    split = np.flatnonzero(tree.is_split)
    tally.n_seen += int(((train_sums[tree.left[split], 1] > 0) & (train_sums[tree.right[split], 1] > 0)).sum())
    tally.add_rows(tree, held, per_g, per_h)


def _grouped(result: Importance, psi: FloatArray, members: Mapping[str, IntArray]) -> Importance:
    """Groups of features, each tested by the sum of its members' contributions."""
    columns = list(members.values())

    def summed(table: Any) -> Any:
        return np.stack([table[..., j].sum(axis=-1) for j in columns], axis=-1)

    return replace(
        result,
        feature_names=tuple(members),
        importance=summed(result.importance),
        se=np.sqrt((summed(psi) ** 2).sum(axis=0)),
        df=effective_df(summed(psi)),
        n_splits=summed(result.n_splits),
        per_tree=summed(result.per_tree),
        per_class=summed(result.per_class),
        per_depth=summed(result.per_depth),
    )
