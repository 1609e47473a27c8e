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
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import Tree, TreeModel, read_model
from unbiasedgbm.ensemble.adapters.neutral import Rows, compare_raw, proof_rows
from unbiasedgbm.exact import RowStatistics, exact_sum, fixed_unit
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.draws import draw_scores
from unbiasedgbm.importance.result import FloatArray, Importance, IntArray, group_names, moments_df
from unbiasedgbm.losses import Loss
from unbiasedgbm.targets import group_numbers, read_groups


class FewUsableSplitsWarning(UserWarning):
    """Most splits of the model have too few held-out rows to be judged."""


class TrainingRowsWarning(UserWarning):
    """The held-out rows are the training rows, by which noise looks significant."""


# Two tables that agree in targets and predictions are one if there are as many different pairs of them. With fewer,
# where a model tells no more than classes apart, sorted tables of different rows agree as well.
_TELLING = 20


@dataclass(frozen=True)
class GainOptions:
    """How splits are scored.

    Attributes
    ----------
    min_rows : int
        Splits with fewer held-out rows in one of the children get no score; with ``row_groups_val``, with rows of fewer
        groups.
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
    offset_train: Any = None,
    offset_val: Any = None,
    row_groups_val: Any = None,
    loss: Loss | Callable[..., Any] | None = None,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    level: float = 0.95,
    min_rows: int = 5,
    draws: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Importance:
    """Unbiased gain of a trained gradient boosting model or forest.

    Parameters
    ----------
    model : object
        A trained XGBoost, LightGBM, CatBoost, scikit-learn (``GradientBoosting*``, ``HistGradientBoosting*``,
        ``RandomForest*``, ``ExtraTrees*``, ``DecisionTree*``) or UnbiasedGBM model. All trees of a forest are judged at
        its mean prediction, by the squared error, of classes by that of their indicators (Gini).
    X_train, y_train : table of shape (n_train, n_features), array-like of shape (n_train,)
        The rows that the model was trained on, as its own ``predict`` accepts them.
    X_val, y_val : table of shape (n_val, n_features), array-like of shape (n_val,)
        Rows that had no part in training, early stopping included; nor in any bootstrap sample of a forest.
    sample_weight_train, sample_weight_val : array-like, optional
        Weights as given to ``fit``. Class weights of the model itself are applied in any case.
    offset_train, offset_val : array-like of shape (n,) or (n, n_outputs), optional
        Raw scores that the model was trained on top of (XGBoost's ``base_margin``, LightGBM's ``init_score``,
        CatBoost's ``baseline``), and those of the held-out rows. They take the place of the model's start value.
    row_groups_val : array-like of shape (n_val,), optional
        Labels of held-out rows that belong together: of one patient, customer or day. What rows of a group say counts
        as one observation in standard errors and tests.
    loss : Loss or callable, optional
        For objectives that are not known by name (ranking, custom): ``loss(y, raw) -> (g, h)``, the first and second
        derivative by the raw prediction. ``y`` may have further columns, which are handed to the callable.
    groups : mapping, optional
        ``{"zip": ["zip_2", "zip_3"]}``: features, by name, number or mask, that are also tested together.
    level : float, default=0.95
        Confidence level of the intervals.
    min_rows : int, default=5
        Splits with fewer held-out rows in one of the children get no score; with ``row_groups_val``, with rows of fewer
        groups.
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
    TrainingRowsWarning
        If the held-out rows have the targets and predictions of the training rows, one by one.

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
    if (offset_train is None) != (offset_val is None):
        raise ValueError("offset_train and offset_val must be given together: the same model judges both sets of rows.")
    tree_model = read_model(model, loss, offset=offset_train is not None).named_by(X_train)
    train = Part.of(tree_model, X_train, y_train, sample_weight_train, "train", n_jobs, offset=offset_train)
    held = Part.of(tree_model, X_val, y_val, sample_weight_val, "val", n_jobs, offset=offset_val)
    if tree_model.late_start is not None:
        start = tree_model.late_start(train.labels, train.weight)
        tree_model, train, held = tree_model.begun_later(start), train.begun_later(start), held.begun_later(start)
    if tree_model.class_weight is not None:
        by_class = tree_model.class_weight(train.labels, train.weight)
        train, held = train.times(by_class), held.times(by_class)
    rows = GainRows(tree_model, [train], [held], _numbered(row_groups_val, held.weight, len(held.y)))
    if rows.repeated(2 if X_train is X_val else _TELLING):
        warnings.warn(
            "X_val and y_val are the training rows: targets and predictions are the same, row by row. Judged by rows "
            "that chose the splits, noise looks significant. Give held-out rows, or use cross_unbiased_gain.",
            TrainingRowsWarning,
            stacklevel=2,
        )
    return judge_model(tree_model, rows, GainOptions(min_rows, draws, random_state), groups, level)


def judge_model(
    model: TreeModel,
    rows: GainRows,
    options: GainOptions,
    groups: Mapping[str, Sequence[str | int]] | None,
    level: float,
) -> Importance:
    """Unbiased gain of a model from rows that may lie anywhere.

    Parameters
    ----------
    model : TreeModel
    rows : GainRows
        Or what has the same methods.
    options : GainOptions
    groups, level
        See `unbiased_gain`.
    """
    members = group_names(groups, model.feature_names, model.stored_names)
    tally = walk(model, rows, options)
    tally.warn_if_few()
    single = [np.array([j]) for j in range(len(model.feature_names))]
    second, fourth = rows.moments([*single, *members.values()])
    p = len(single)
    result = Importance(
        method="unbiased gain",
        feature_names=model.feature_names,
        importance=tally.per_tree.sum(axis=0),
        se=np.sqrt(second[:p]),
        n_splits=tally.n_splits,
        df=moments_df(second[:p], fourth[:p]),
        level=level,
        per_tree=tally.per_tree,
        per_class=tally.per_class,
        per_depth=tally.per_depth,
        settings={
            "model": model.name,
            "loss": model.loss.name,
            "n_train": rows.n_train,
            "n_val": rows.n_held,
            "min_rows": options.min_rows,
            "draws": options.draws,
            "random_state": options.seed,
        },
    )
    return replace(result, groups=_grouped(result, second[p:], fourth[p:], members) if members else None)


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
    ) -> Part:
        """Bind a table to the model and check that its parts fit together.

        Parameters
        ----------
        whole : bool
            Whether these are all rows; of a share of them all weights may be zero.
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

    def times(self, by_class: FloatArray) -> Part:
        """The same rows, weighted by their classes, too."""
        # Of two classes, the second one is what is 1, also where targets are shares or other numbers.
        own = by_class[(self.labels == 1.0 if len(by_class) == 2 else self.labels).astype(np.intp)]
        return replace(self, weight=own if self.weight is None else own * self.weight)

    def begun_later(self, step: FloatArray) -> Part:
        """The same rows, with another start value; see `TreeModel.begun_later`."""
        return replace(self, raw=self.raw + step)

    def nodes(self, first: int, last: int) -> Any:
        """Leaf of each row, shape (last - first, n_rows), int32."""
        return np.ascontiguousarray(self.rows.nodes(first, last).T)

    def predicted(self, sample: IntArray) -> FloatArray:
        """The library's own raw prediction of some rows, offsets included, shape (len(sample), n_outputs)."""
        raw = self.rows.raw(sample)
        return raw if self.offset is None else raw + self.offset[sample]

    def outputs(self) -> FloatArray:
        """Raw predictions as losses want them."""
        return self.raw[:, 0].copy() if self.raw.shape[1] == 1 else self.raw

    def gradients(self, loss: Loss) -> tuple[FloatArray, FloatArray]:
        """Weighted g and h at the current raw prediction, shape (n_outputs, n_rows)."""
        g, h = loss.gradients(self.y, self.outputs())
        if self.weight is not None:
            weight = self.weight if g.ndim == 1 else self.weight[:, None]
            g, h = g * weight, h * weight
        return np.ascontiguousarray(np.atleast_2d(g.T)), np.ascontiguousarray(np.atleast_2d(h.T))

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


class _Tally:
    """What the walk adds up.

    Attributes
    ----------
    per_tree, per_class, per_depth : ndarray of shape (…, n_features), float64
    n_splits : ndarray of shape (n_features,), int64
    """

    def __init__(self, model: TreeModel) -> None:
        n_features = len(model.feature_names)
        depth = max((int(tree.depth.max()) for tree in model.trees), default=0)
        self.per_tree = np.zeros((len(model.trees), n_features))
        self.per_class = np.zeros((model.n_outputs, n_features))
        self.per_depth = np.zeros((depth, n_features))
        self.n_splits: IntArray = np.zeros(n_features, dtype=np.int64)
        self.n_judged = 0
        self.n_seen = 0
        self._source_start, self._source_feature = _sources(model)

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

    def warn_if_few(self) -> None:
        """Say so if most splits had too few held-out rows."""
        if 2 * self.n_judged < self.n_seen:
            warnings.warn(
                f"Only {self.n_judged} of {self.n_seen} splits have enough held-out rows, or groups of them, to be "
                "judged. Give more, or a model with fewer leaves.",
                FewUsableSplitsWarning,
                stacklevel=4,
            )


def _sources(model: TreeModel) -> tuple[Any, Any]:
    """Features of every split source, as the kernels read them: where they begin, and which they are."""
    start = np.cumsum([0, *map(len, model.sources)]).astype(np.int32)
    return start, np.concatenate([np.array(source, dtype=np.int32) for source in model.sources])


class GainRows:
    """Training and held-out rows that lie here, in one or several parts, and what `walk` asks of them.

    Sums are integers and moments exact, so that rows in several places give the same numbers.

    Parameters
    ----------
    model : TreeModel
    train, held : list of Part
    together : ndarray of shape (n_held,), uint32, or None
        Numbers of groups of held-out rows that are one observation.
    """

    def __init__(
        self, model: TreeModel, train: list[Part], held: list[Part], together: npt.NDArray[np.uint32] | None = None
    ) -> None:
        self.model, self.train, self.held, self._together = model, train, held, together
        self._order = np.empty(0, np.intp) if together is None else np.argsort(together, kind="stable")
        self.n_train, self.n_held = (sum(len(part.y) for part in parts) for parts in (train, held))
        self._parts = [*train, *held]
        self._psi = [np.zeros((len(part.y), len(model.feature_names))) for part in held]
        self._source_start, self._source_feature = _sources(model)
        self._place = np.full(len(model.feature_names), -1, dtype=np.int32)
        self._chunks = model.chunks(self.n_train + self.n_held)
        self._range = (0, 0)
        self._nodes: list[Any] = []
        self._gradients: list[tuple[FloatArray, FloatArray]] = []
        self._samples = [proof_rows(len(part.y)) for part in self._parts]
        self._expected = [part.predicted(sample) for part, sample in zip(self._parts, self._samples, strict=True)]
        self._largest = [float(np.abs(part.raw).max()) for part in self._parts]

    def mass(self) -> float:
        """Sum of the training weights; their number where there are none."""
        return self.statistics().total(_ones)

    def statistics(self) -> RowStatistics:
        """Statistics of the training rows."""
        if len(self.train) == 1:
            return RowStatistics(self.train[0].y, self.train[0].outputs(), self.train[0].weight)
        y = np.concatenate([part.y for part in self.train])
        raw = np.concatenate([part.outputs() for part in self.train])
        weights = [part.weight for part in self.train if part.weight is not None]
        return RowStatistics(y, raw, np.concatenate(weights) if weights else None)

    def begin(self, loss: Loss) -> FloatArray:
        """Gradients of an iteration; returns the largest |g| and h of training and of held-out rows, shape (4,)."""
        loss.prepare_over(self.statistics())
        return self.tops(loss)

    def tops(self, loss: Loss) -> FloatArray:
        """`begin` with a loss that is prepared."""
        self._gradients = [part.gradients(loss) for part in self._parts]
        found = np.zeros(4)
        for part, (g, h) in zip(self._parts, self._gradients, strict=True):
            first = 0 if part.name == "train" else 2
            found[first] = max(found[first], float(np.abs(g).max(initial=0.0)))
            found[first + 1] = max(found[first + 1], float(h.max(initial=0.0)))
        return found

    def sums(self, number: int, output: int, units: FloatArray) -> npt.NDArray[np.int64]:
        """Sums of the leaves of a tree over training and over held-out rows, shape (2, n_nodes, 6).

        Parameters
        ----------
        units : ndarray of shape (2, 6), float64
            See `sums.add_rows`.
        """
        total = np.zeros((2, len(self.model.trees[number].left), 6), np.int64)
        for k, (part, (g, h)) in enumerate(zip(self._parts, self._gradients, strict=True)):
            which = 0 if part.name == "train" else 1
            sums.add_rows(self._leaves(number)[k], g[output], h[output], units[which], total[which])
        return total

    def _leaves(self, number: int) -> list[Any]:
        """Leaf of every row of every part in one tree."""
        while number >= self._range[1]:
            self._range = next(self._chunks)
            self._nodes = [part.nodes(*self._range) for part in self._parts]
        return [nodes[number - self._range[0]] for nodes in self._nodes]

    def held_rows(self, number: int, output: int) -> tuple[Any, FloatArray, FloatArray]:
        """Leaf, g and h of all held-out rows, for draws."""
        k = len(self.train)
        g, h = self._gradients[k]
        return self._leaves(number)[k], g[output], h[output]

    def add(self, number: int, output: int, per_g: FloatArray, per_h: FloatArray) -> None:
        """Add the contributions of the held-out rows through one tree; see `sums.score_splits`."""
        tree = self.model.trees[number]
        width = max(map(len, self.model.sources))
        n_entries = int(width * np.where(tree.left < 0, np.maximum(tree.depth, 0), 0).sum())
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
        first = len(self.train)
        for k, psi in enumerate(self._psi, start=first):
            g, h = self._gradients[k]
            leaves = self._leaves(number)[k]
            sums.add_contributions(leaves, g[output], h[output], leaf_start, leaf_feature, leaf_weight, psi)

    def advance(self, number: int) -> None:
        """Add one tree to the raw predictions."""
        for k, part in enumerate(self._parts):
            part.advance(self.model.trees[number], self._leaves(number)[k])
            self._largest[k] = max(self._largest[k], float(np.abs(part.raw).max()))

    def prove(self) -> None:
        """Raise unless the sums of leaf values are the model's own predictions."""
        for k, part in enumerate(self._parts):
            found = part.raw[self._samples[k]]
            compare_raw(self.model, self._expected[k], found, self._largest[k], f"X_{part.name}")

    def repeated(self, telling: int) -> bool:
        """Whether the held-out rows have the targets and predictions of the training rows, one by one.

        Parameters
        ----------
        telling : int
            Different pairs of target and prediction that there must be, among rows with weight on both sides.
        """
        (train,), (held,) = self.train, self.held
        if train.y.shape != held.y.shape or not (train.y == held.y).all():
            return False
        (expected, predicted), sample = self._expected, self._samples[0]
        if not np.array_equal(expected, predicted) or (expected == expected[0]).all():
            return False
        present = np.ones(len(sample), dtype=np.bool_)
        for part in (train, held):
            if part.weight is not None:
                present &= part.weight[sample] > 0.0
        pairs = np.column_stack([train.y[sample], expected])[present]
        return len(np.unique(pairs, axis=0)) >= telling

    def observed(self, number: int, output: int, held: FloatArray) -> FloatArray:
        """Independent observations in each node of a tree: held-out rows, or groups of them, shape (n_nodes,).

        Rows of unequal mass count as fewer; see `sums.effective_number`.

        Parameters
        ----------
        held : ndarray of shape (n_nodes, 6), float64
            Sums over the held-out rows; see `sums.add_rows`.
        """
        tree = self.model.trees[number]
        count, square = held[:, sums.N], held[:, sums.HH]
        if self._together is not None:
            leaves, _, h = self.held_rows(number, output)
            count, square, mass = np.zeros((3, len(held)))
            last = np.full(len(held), -1, np.int64)
            sums.count_groups(self._order, self._together, leaves, h, tree.parent, last, mass, count, square)
        return sums.effective_number(count, held[:, sums.H], square, tree.parent)

    def contributions(self, members: IntArray) -> FloatArray:
        """Contribution of every held-out row, or group of them, to some features together, shape (n_held,)."""
        rows: FloatArray = np.concatenate([np.empty(0), *(psi[:, members].sum(axis=1) for psi in self._psi)])
        return rows if self._together is None else np.bincount(self._together, rows).astype(np.float64)

    def moments(self, columns: Sequence[IntArray]) -> tuple[FloatArray, FloatArray]:
        """Σψ² and Σψ⁴ of sets of features, each of shape (n_sets,)."""
        psi = [self.contributions(members) for members in columns]
        return np.array([exact_sum(one**2) for one in psi]), np.array([exact_sum(one**4) for one in psi])


def _numbered(row_groups: Any, weight: FloatArray | None, n_rows: int) -> npt.NDArray[np.uint32] | None:
    """Groups of held-out rows as numbers."""
    labels = read_groups(row_groups, n_rows, "row_groups_val", "X_val")
    if labels is None:
        return None
    numbers = group_numbers(labels)
    present = numbers if weight is None else numbers[weight > 0.0]
    if (present == present[:1]).all():
        raise ValueError("row_groups_val holds one group only, which has no spread; give two or more.")
    return numbers


def _ones(y: FloatArray, raw: FloatArray) -> FloatArray:
    return np.ones(len(y))


def walk(model: TreeModel, rows: GainRows, options: GainOptions) -> _Tally:
    """Walk the trees in the order of training and add up scores and row contributions.

    The partial sums of leaf values end at the model's prediction, which proves the reading: the result is not released
    otherwise.

    Parameters
    ----------
    model : TreeModel
    rows : GainRows
    options : GainOptions

    Returns
    -------
    _Tally
    """
    tally = _Tally(model)
    mass = rows.mass()
    iteration = -1
    units = np.ones((2, 6))
    for number, tree in enumerate(model.trees):
        if tree.iteration != iteration:
            iteration = tree.iteration
            units = _units(rows.begin(model.loss), rows.n_train, rows.n_held)
        for output in tree.outputs:
            _judge(tally, number, output, tree, rows, units, tree.share / (2.0 * mass), options)
        rows.advance(number)
    rows.prove()
    return tally


def _units(tops: FloatArray, n_train: int, n_held: int) -> FloatArray:
    """Units of fixed-point sums over training and over held-out rows, shape (2, 6)."""
    units = np.ones((2, 6))
    for which, n in enumerate((n_train, n_held)):
        g, h = tops[2 * which : 2 * which + 2]
        units[which, 1:] = [fixed_unit(top, n) for top in (g, h, g * h, h * h, g * g)]
    return units


def _judge(
    tally: _Tally,
    number: int,
    output: int,
    tree: Tree,
    rows: GainRows,
    units: FloatArray,
    scale: float,
    options: GainOptions,
) -> None:
    """Score the splits of tree ``number`` for one output."""
    total = rows.sums(number, output, units)
    for which in (0, 1):
        sums.lift_sums(tree.order, tree.parent, total[which])
    train_sums = np.ascontiguousarray((total[0] / units[0])[:, sums.G : sums.H + 1])
    held_sums = total[1] / units[1]
    observed = rows.observed(number, output, held_sums)
    score, per_g, per_h = np.empty((3, len(tree.left)))
    sums.score_splits(
        *(tree.left, tree.right, train_sums, held_sums, observed, scale, float(options.min_rows)),
        *(score, per_g, per_h),
    )
    if options.draws is not None:
        key = (options.seed * len(tally.per_tree) + number) * len(tally.per_class) + output
        score = draw_scores(tree, rows.held_rows(number, output), train_sums, score, scale, options.draws, key)
    tally.add(number, output, tree, score)
    # Symmetric trees hold splits with an empty side, which say nothing; they are not missed.
    split = np.flatnonzero(tree.is_split)
    tally.n_seen += int(((train_sums[tree.left[split], 1] > 0) & (train_sums[tree.right[split], 1] > 0)).sum())
    rows.add(number, output, per_g, per_h)


def _grouped(result: Importance, second: FloatArray, fourth: FloatArray, members: Mapping[str, IntArray]) -> Importance:
    """Groups of features, each tested by the sum of its members' contributions."""
    columns = list(members.values())

    def summed(table: Any) -> Any:
        return np.stack([table[..., j].sum(axis=-1) for j in columns], axis=-1)

    return replace(
        result,
        feature_names=tuple(members),
        importance=summed(result.importance),
        se=np.sqrt(second),
        df=moments_df(second, fourth),
        n_splits=summed(result.n_splits),
        per_tree=summed(result.per_tree),
        per_class=summed(result.per_class),
        per_depth=summed(result.per_depth),
    )
