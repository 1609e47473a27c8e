"""The usual importances in the same result type: gain, split count, permutation and mean |SHAP|."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from unbiasedgbm.ensemble.adapters import TreeModel, UnsupportedModelError, read_model
from unbiasedgbm.ensemble.adapters.neutral import column_names
from unbiasedgbm.importance import sums
from unbiasedgbm.importance.result import FloatArray, Importance, IntArray
from unbiasedgbm.importance.rows import RowSet
from unbiasedgbm.losses import Loss


def gain_importance(
    model: Any,
    X_train: Any = None,
    y_train: Any = None,
    *,
    sample_weight_train: Any = None,
    offset_train: Any = None,
    loss: Loss | Callable[..., Any] | None = None,
    n_jobs: int | None = None,
) -> Importance:
    """Total gain: the loss reduction that the model claims for each feature's splits, on its own training rows.

    Read from the model in its library's units. CatBoost keeps no gains; there the training rows are needed and the gain
    ``1/(2n) [G_L²/H_L + G_R²/H_R − G_I²/H_I]`` is computed from them.

    Parameters
    ----------
    model : object
        As in `unbiased_gain`.
    X_train, y_train, sample_weight_train, offset_train : optional
        The training rows, for models without gains.
    loss, n_jobs
        As in `unbiased_gain`.

    Returns
    -------
    Importance
        Without standard errors.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import gain_importance
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> bool((gain_importance(model).importance >= 0).all())
    True
    """
    tree_model = read_model(model, loss, offset=offset_train is not None).named_by(X_train)
    if all(tree.gain is not None for tree in tree_model.trees):
        per_tree = _credit(tree_model, [tree.gain for tree in tree_model.trees])
    elif X_train is None:
        raise UnsupportedModelError(f"{tree_model.name} models keep no gains: pass X_train and y_train.")
    else:
        part = RowSet.of(tree_model, X_train, y_train, sample_weight_train, "train", n_jobs, offset=offset_train)
        if tree_model.class_weight is not None:
            part = part.times(tree_model.class_weight(part.labels, part.weight))
        per_tree = _credit(tree_model, _training_gains(tree_model, part))
    return _untested("gain", tree_model, per_tree)


def split_importance(model: Any, X_train: Any = None, *, loss: Loss | Callable[..., Any] | None = None) -> Importance:
    """Split count: how often each feature is split; a split by a combination counts in parts.

    Parameters
    ----------
    model : object
        As in `unbiased_gain`.
    X_train : table, optional
        Only for the names of its columns, in which LightGBM replaces spaces.
    loss : optional
        Only needed if the model's objective is unknown.

    Returns
    -------
    Importance
        Without standard errors.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import split_importance
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> result = split_importance(model)
    >>> bool(result.importance.sum() == result.n_splits.sum())
    True
    """
    tree_model = read_model(model, loss).named_by(X_train)
    counts = [tree.is_split.astype(np.float64) for tree in tree_model.trees]
    return _untested("split count", tree_model, _credit(tree_model, counts))


def permutation_importance(
    model: Any,
    X_val: Any,
    y_val: Any,
    *,
    sample_weight_val: Any = None,
    offset_val: Any = None,
    n_repeats: int = 5,
    loss: Loss | None = None,
    level: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Importance:
    """Permutation importance: by how much the held-out loss rises when a column is shuffled.

    Parameters
    ----------
    model : object
        As in `unbiased_gain`.
    X_val, y_val, sample_weight_val, offset_val
        Held-out rows. The table must be an array, a frame or a list of rows, whose columns can be shuffled.
    n_repeats : int, default=5
        Shuffles of each column.
    loss : Loss, optional
        Replaces the model's own; it must have `values`.
    level : float, default=0.95
    random_state : int, default=0
    n_jobs : int, optional
        Threads of the model's library.

    Returns
    -------
    Importance
        Standard errors are over the held-out rows, each row's rise averaged over the shuffles.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import permutation_importance
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> permutation_importance(model, X[400:], y[400:], n_repeats=2).importance.shape
    (30,)
    """
    if not n_repeats >= 1:
        raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
    _check_table(X_val, "X_val")
    tree_model = read_model(model, loss, offset=offset_val is not None).named_by(X_val)
    part = RowSet.of(tree_model, X_val, y_val, sample_weight_val, "val", n_jobs, offset=offset_val)
    everything = np.arange(len(part.y))

    def losses_of(table: Any) -> FloatArray:
        raw = replace(part, rows=tree_model.bind(table, n_jobs)).predicted(everything)
        return tree_model.loss.values(part.y, raw[:, 0] if tree_model.loss.n_outputs == 1 else raw)

    weight = np.ones(len(part.y)) if part.weight is None else part.weight
    share = weight / weight.sum()
    before = losses_of(X_val)
    n_features = len(tree_model.feature_names)
    importance, se = np.zeros(n_features), np.zeros(n_features)
    rng = np.random.default_rng(random_state)
    orders = [rng.permutation(len(part.y)) for _ in range(n_repeats)]
    for j, column in enumerate(tree_model.columns_in(X_val)):
        # The same shuffles for every column: the result does not depend on the order of the columns.
        rise = np.mean([losses_of(_shuffled(X_val, column, order)) for order in orders], axis=0) - before
        importance[j] = share @ rise
        se[j] = np.sqrt(((share * (rise - importance[j])) ** 2).sum())
    return Importance(
        method="permutation",
        feature_names=tree_model.feature_names,
        importance=importance,
        se=se,
        n_splits=_split_counts(tree_model),
        level=level,
        settings={"model": tree_model.name, "n_repeats": n_repeats, "random_state": random_state},
    )


def shap_importance(model: Any, X_val: Any, *, loss: Loss | Callable[..., Any] | None = None) -> Importance:
    """Mean |SHAP| over the given rows, summed over classes (`shap.TreeExplainer`).

    A mean of absolute values is positive for a useless feature too, so it has a standard error but no test.

    Parameters
    ----------
    model : object
        A model that `shap.TreeExplainer` reads, or one of our own.
    X_val : table of shape (n_val, n_features)
        Columns that the model does not know are left out.
    loss : optional
        Only needed if the model's objective is unknown.

    Returns
    -------
    Importance

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import shap_importance
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> shap_importance(model, X[400:]).importance.shape
    (30,)
    """
    tree_model = read_model(model, loss).named_by(X_val)
    tree_model.check_order(X_val, "X_val")
    table = np.abs(_shap_values(tree_model, model, _own_columns(tree_model, X_val)))
    n_features = len(tree_model.feature_names)
    if table.shape[1] != n_features:
        raise ValueError(f"X_val must have the {n_features} columns of the model, got {table.shape[1]}.")
    by_row = table.sum(axis=2) if table.ndim == 3 else table
    return Importance(
        method="mean |SHAP|",
        feature_names=tree_model.feature_names,
        importance=by_row.mean(axis=0),
        se=by_row.std(axis=0, ddof=1) / np.sqrt(len(by_row)),
        n_splits=_split_counts(tree_model),
        tested=False,
        settings={"model": tree_model.name},
    )


def _check_table(X: Any, argument: str) -> None:
    """Refuse what a library has made of a table, which shows no columns."""
    if not isinstance(X, list | tuple) and not column_names(X) and getattr(X, "ndim", None) != 2:
        raise TypeError(
            f"{argument} must be a table: an array with two dimensions, a frame or a list of rows; got a "
            f"{type(X).__name__}."
        )


def _own_columns(model: TreeModel, X: Any) -> Any:
    """The columns of a table that the model knows, in its order; the whole table where names do not tell."""
    columns = model.columns_in(X)
    names = column_names(X)
    if columns == list(range(len(names))) or not set(model.feature_names) <= set(names):
        return X
    if _is_pandas(X):
        return X.iloc[:, columns]
    return nw.from_native(X, eager_only=True)[:, columns].to_native()


def _is_pandas(X: Any) -> bool:
    # narwhals wants names that are text, and each once
    return bool(nw.dependencies.is_pandas_dataframe(X))


def _shap_values(tree_model: TreeModel, model: Any, X: Any) -> Any:
    """SHAP values, shape (n_rows, n_features) or, with several outputs, (n_rows, n_features, n_outputs)."""
    try:
        import shap
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("shap_importance needs shap: pip install 'unbiasedgbm[shap]'.") from error
    if tree_model.library == "unbiasedgbm":
        from unbiasedgbm.export import to_shap

        return to_shap(model).shap_values(X)
    if tree_model.library == "catboost":
        # It must be told which columns are categories; the others know.
        import catboost

        X = catboost.Pool(X, cat_features=model.get_cat_feature_indices())
    values = shap.TreeExplainer(model).shap_values(np.asarray(X) if isinstance(X, list | tuple) else X)
    # A list of classes in older releases, classes last in newer ones.
    values = np.stack(values, axis=-1) if isinstance(values, list) else np.asarray(values)
    # CatBoost takes tables with further columns, and has zeros for them at the end.
    return values[:, : len(tree_model.feature_names)] if tree_model.library == "catboost" else values


def _shuffled(X: Any, column: int, order: IntArray) -> Any:
    """A copy of the table with one column in another order, in the table's own type."""
    if isinstance(X, list | tuple):
        return [[*row[:column], X[other][column], *row[column + 1 :]] for row, other in zip(X, order, strict=True)]
    if sparse.issparse(X):
        return _shuffled_sparse(X, column, order)
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        shuffled = X.copy()
        shuffled[:, column] = X[order, column]
        return shuffled
    if _is_pandas(X):
        shuffled = X.copy(deep=False)
        shuffled.isetitem(column, X.iloc[order, column].array)
        return shuffled
    frame = nw.from_native(X, eager_only=True)
    name = frame.columns[column]
    return frame.with_columns(frame[name][order.tolist()].alias(name)).to_native()


def _shuffled_sparse(X: Any, column: int, order: IntArray) -> Any:
    """`_shuffled` of a sparse table. No zero is stored that was not: XGBoost takes others for missing values."""
    shuffled = X.tocsc(copy=True)
    entries = slice(shuffled.indptr[column], shuffled.indptr[column + 1])
    shuffled.indices[entries] = np.argsort(order)[shuffled.indices[entries]]
    shuffled.has_sorted_indices = False
    shuffled.sort_indices()
    return shuffled.asformat(X.format)


def _training_gains(model: TreeModel, part: RowSet) -> list[FloatArray]:
    """Gain of each node of each tree from its training rows, summed over outputs."""
    mass = float(len(part.y)) if part.weight is None else float(part.weight.sum())
    gains = []
    iteration = -1
    for first, last in model.chunks(len(part.y)):
        leaves = part.nodes(first, last)
        for tree, node in zip(model.trees[first:last], leaves, strict=True):
            if tree.iteration != iteration:
                iteration = tree.iteration
                model.loss.prepare(part.y, part.outputs(), part.weight)
                g, h = part.gradients(model.loss)
            gain = np.zeros(len(tree.left))
            split = np.flatnonzero(tree.is_split)
            for output in tree.outputs:
                total = np.zeros((len(tree.left), 2))
                sums.sum_training_rows(node, g[output], h[output], tree.order, tree.parent, total)
                # Empty nodes have G = H = 0 and no loss.
                quality = total[:, 0] ** 2 / np.where(total[:, 1] > 0.0, total[:, 1], 1.0)
                rise = quality[tree.left[split]] + quality[tree.right[split]] - quality[split]
                gain[split] += tree.share / (2.0 * mass) * rise
            gains.append(gain)
            part.advance(tree, node)
    return gains


def _credit(model: TreeModel, values: list[Any]) -> FloatArray:
    """Sum a value of each split over the features it is made of, shape (n_trees, n_features)."""
    table = np.zeros((len(model.trees), len(model.feature_names)))
    for number, (tree, value) in enumerate(zip(model.trees, values, strict=True)):
        for v in np.flatnonzero(tree.is_split):
            features = model.sources[tree.source[v]]
            table[number, list(features)] += value[v] / len(features)
    return table


def _split_counts(model: TreeModel) -> IntArray:
    return np.rint(_credit(model, [tree.is_split for tree in model.trees]).sum(axis=0)).astype(np.int64)


def _untested(method: str, model: TreeModel, per_tree: FloatArray) -> Importance:
    """An importance that knows nothing of its chance error."""
    return Importance(
        method=method,
        feature_names=model.feature_names,
        importance=per_tree.sum(axis=0),
        se=np.full(len(model.feature_names), np.nan),
        n_splits=_split_counts(model),
        per_tree=per_tree,
        tested=False,
        settings={"model": model.name},
    )
