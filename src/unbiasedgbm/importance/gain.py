"""Unbiased gain of a trained model, with standard errors: the public function and its result.

`walk` computes it, `score` has the formulas, `rows` the rows, `units` what is judged together, and `leaks` looks for
rows that should not judge.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import TreeModel, read_model
from unbiasedgbm.importance.leaks import TrainingRowsWarning, check_leaves, check_tables
from unbiasedgbm.importance.result import FloatArray, Importance, group_names, moments_df
from unbiasedgbm.importance.rows import GainRows, RowSet
from unbiasedgbm.importance.units import Members, Units
from unbiasedgbm.importance.walk import GainOptions, realised_share, walk
from unbiasedgbm.losses import Loss
from unbiasedgbm.targets import group_numbers, read_groups

# Share of what the splits do to the training rows that may go without a judgement.
_MOST_UNJUDGED = 0.5


class FewUsableSplitsWarning(UserWarning):
    """Most of what the model's splits do cannot be judged: they have too few held-out rows."""


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
    paper_sums: bool = False,
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
        Rows that had no part in training, neither in early stopping nor in a bootstrap sample of a forest.
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
        ``{"zip": ["zip_2", "zip_3"]}``: features, by name, number or mask, that are also tested together. What they
        added to the prediction is taken out together.
    level : float, default=0.95
        Confidence level of the intervals.
    min_rows : int, default=5
        Splits with fewer held-out rows in one of the children get no score; with ``row_groups_val``, with rows of fewer
        groups.
    paper_sums : bool, default=False
        Compute exactly what the paper defines: every split is judged at the full prediction of the trees before it.
        This is unbiased for one tree. In models of many trees useless features end below zero, and so do weak useful
        ones.
    draws : int, optional
        Average this many random draws of k rows instead of their closed form; for checking the paper's sums.
    random_state : int, default=0
        Seed of the draws.
    n_jobs : int, optional
        Threads of the model's library while it places the rows. The result does not depend on it.

    Returns
    -------
    Importance
        In units of the held-out loss a row: the features add up to about what the model takes away from it. ``groups``
        holds the groups.

    Warns
    -----
    FewUsableSplitsWarning
        If more than half of what the splits do could not be judged.
    TrainingRowsWarning
        If the training rows are not those of the model as far as it can tell, if rows of ``X_val`` are in ``X_train``,
        or if they stopped the training of one of our models.

    Notes
    -----
    A split on feature j is judged by the held-out rows at their prediction without what j itself has added to it in
    earlier trees. If j is independent of the target and of the other features, its importance has mean zero for any
    number of trees and any learning rate.

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
    options = GainOptions(min_rows, paper_sums, draws, random_state)
    tree_model = read_model(model, loss, offset=offset_train is not None).named_by(X_train)
    members = group_names(groups, tree_model.feature_names, tree_model.stored_names)
    train = RowSet.of(tree_model, X_train, y_train, sample_weight_train, "train", n_jobs, offset=offset_train)
    held = RowSet.of(tree_model, X_val, y_val, sample_weight_val, "val", n_jobs, offset=offset_val)
    given_weight = held.weight
    if tree_model.late_start is not None:
        start = tree_model.late_start(train.labels, train.weight)
        tree_model, train, held = tree_model.begun_later(start), train.begun_later(start), held.begun_later(start)
    if tree_model.class_weight is not None:
        by_class = tree_model.class_weight(train.labels, train.weight)
        train, held = train.times(by_class), held.times(by_class)
    together = _numbered(row_groups_val, held.weight, len(held.y))
    options = options.for_model(tree_model)
    units = Units.of(tree_model, members)
    rows = GainRows(tree_model, units, [train], [held], options.paper_sums, together)
    if message := check_tables(X_train, X_val, rows, given_weight):
        warnings.warn(message, TrainingRowsWarning, stacklevel=2)
    return judge_model(tree_model, units, rows, options, members, level)


def judge_model(
    model: TreeModel, units: Units, rows: GainRows, options: GainOptions, members: Members, level: float
) -> Importance:
    """Unbiased gain of a model from rows that may lie anywhere.

    Parameters
    ----------
    model : TreeModel
    units : Units
    rows : GainRows
        Or what has the same methods.
    options : GainOptions
    members : mapping
        Feature numbers of each group.
    level
        See `unbiased_gain`.
    """
    tally = walk(model, units, rows, options)
    if message := check_leaves(model, tally.leaf_rows[0], tally.leaf_rows[1]):
        warnings.warn(message, TrainingRowsWarning, stacklevel=3)
    effect, unjudged = units.spread(tally.effect), units.spread(tally.unjudged)
    p = len(model.feature_names)
    if unjudged[:p].sum() > _MOST_UNJUDGED * effect[:p].sum():
        warnings.warn(
            _few(unjudged[:p].sum() / effect[:p].sum(), options, rows.grouped), FewUsableSplitsWarning, stacklevel=3
        )
    per_tree = units.spread(tally.per_tree)
    factor = 1.0
    if not options.paper_sums:
        factor = realised_share(tally.slope)
    second, fourth = rows.moments()
    with np.errstate(invalid="ignore"):
        shares = np.where(effect > 0.0, unjudged / effect, 0.0)
    whole = Importance(
        method="unbiased gain, the paper's sums" if options.paper_sums and not model.averaged else "unbiased gain",
        feature_names=(*model.feature_names, *members),
        importance=factor * per_tree.sum(axis=0),
        se=factor * np.sqrt(second),
        n_splits=units.count(tally.n_splits),
        df=moments_df(second, fourth),
        level=level,
        per_tree=factor * per_tree,
        per_class=factor * units.spread(tally.per_class),
        per_depth=factor * units.spread(tally.per_depth),
        unjudged=shares,
        settings={
            "model": model.name,
            "loss": model.loss.name,
            "n_train": rows.n_train,
            "n_val": rows.n_held,
            "min_rows": options.min_rows,
            "paper_sums": options.paper_sums,
            "draws": options.draws,
            "random_state": options.seed,
        },
    )
    result = whole.part(slice(0, p))
    return replace(result, groups=whole.part(slice(p, None))) if members else result


def _few(share: float, options: GainOptions, grouped: bool) -> str:
    """The warning that most of the model cannot be judged."""
    rows = (
        f"held-out rows of fewer than {options.min_rows} groups" if grouped else f"fewer than {options.min_rows} rows"
    )
    return (
        f"{share:.0%} of what the model's splits do cannot be judged, because {rows} (counted by their weights) fall "
        "on one side of them; it counts as zero. Give more held-out rows, or train with larger leaves "
        "(min_samples_leaf, min_child_samples, min_child_weight, min_data_in_leaf). The share of each feature is in "
        "the result's `unjudged`."
    )


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
