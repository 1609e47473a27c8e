"""Several importances of one model side by side: one frame, one figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbiasedgbm.importance.baselines import (
    gain_importance,
    permutation_importance,
    shap_importance,
    split_importance,
)
from unbiasedgbm.importance.gain import unbiased_gain
from unbiasedgbm.importance.result import Importance, frame_from_columns, import_pyplot
from unbiasedgbm.losses import Loss

METHODS = ("unbiased_gain", "gain", "split", "permutation", "shap")


@dataclass(frozen=True, eq=False)
class ImportanceComparison:
    """Importances of one model by several methods.

    Attributes
    ----------
    results : mapping from method to Importance
        In the order asked for.

    Examples
    --------
    Made by `compare_importances`:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import compare_importances
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> tables = X[:400], y[:400], X[400:], y[400:]
    >>> comparison = compare_importances(model, *tables, methods=("unbiased_gain", "gain"))
    >>> comparison.to_frame().shape
    (30, 7)
    """

    results: Mapping[str, Importance]

    def to_frame(self, backend: str = "pandas") -> Any:
        """One row a feature, best by the first method first; value and rank of each method, p-values where tested.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        """
        first = next(iter(self.results.values()))
        order = first.ranking()
        columns: dict[str, Any] = {"feature": [first.feature_names[j] for j in order]}
        for name, result in self.results.items():
            rank = np.empty(len(order), dtype=np.int64)
            rank[result.ranking()] = np.arange(1, len(order) + 1)
            columns[name] = result.importance[order]
            columns[f"{name}_rank"] = rank[order]
            if result.tested:
                columns[f"{name}_se"] = result.se[order]
                columns[f"{name}_p_value"] = result.p_value[order]
        return frame_from_columns(columns, backend)

    def __repr__(self) -> str:
        """Rank and value of the ten features that the first method puts first, and adjusted p-values where tested."""
        results = list(self.results.items())
        first = results[0][1]
        lines = [["feature", *(f"{name} (rank)" for name, _ in results)]]
        places = [np.argsort(result.ranking()) + 1 for _, result in results]
        for j in first.ranking()[:10]:
            cells = [
                f"{result.importance[j]:.3g}{'*' * bool(result.tested and result.p_adjusted[j] <= 0.05)} ({place[j]})"
                for (_, result), place in zip(results, places, strict=True)
            ]
            lines.append([first.feature_names[j], *cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
                 for line in lines]  # fmt: skip
        more = len(first) - 10
        notes = [f"and {more} more: to_frame() has all"] if more > 0 else []
        if any(result.tested for _, result in results):
            notes.append("* adjusted p-value at most 0.05")
        return "\n".join([*table, *notes])

    def plot(self, *, max_features: int = 20) -> Any:
        """One panel a method, each with its own order.

        Parameters
        ----------
        max_features : int, default=20

        Returns
        -------
        matplotlib.figure.Figure
        """
        n_bars = min(max_features, max(len(result.feature_names) for result in self.results.values()))
        figure, axes = import_pyplot().subplots(
            1,
            len(self.results),
            figsize=(3.0 * len(self.results), 1.5 + 0.28 * n_bars),
            layout="constrained",
            squeeze=False,
        )
        for ax, result in zip(axes[0], self.results.values(), strict=True):
            result.plot(ax, max_features=max_features, legend=False)
        tested = [ax for ax, result in zip(axes[0], self.results.values(), strict=True) if result.tested]
        if tested:
            handles, labels = tested[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        return figure


def compare_importances(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_val: Any,
    y_val: Any,
    *,
    methods: str | Sequence[str] = METHODS,
    sample_weight_train: Any = None,
    sample_weight_val: Any = None,
    offset_train: Any = None,
    offset_val: Any = None,
    row_groups_val: Any = None,
    loss: Loss | Callable[..., Any] | None = None,
    level: float = 0.95,
    min_rows: int = 5,
    paper_sums: bool = False,
    n_repeats: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> ImportanceComparison:
    """Unbiased gain beside the importances that it competes with.

    Parameters
    ----------
    model, X_train, y_train, X_val, y_val, sample_weight_train, sample_weight_val, offset_train, offset_val
        As in `unbiased_gain`.
    loss, n_jobs
        As in `unbiased_gain`.
    methods : str or sequence of str
        One or any of "unbiased_gain", "gain", "split", "permutation" and "shap" (needs the shap package).
    row_groups_val : array-like of shape (n_val,), optional
        As in `unbiased_gain`; the others know no groups of rows.
    level : float, default=0.95
        Confidence level of the intervals of "unbiased_gain" and "permutation".
    min_rows, paper_sums
        As in `unbiased_gain`.
    n_repeats : int, default=5
        Shuffles of each column, for "permutation".
    random_state : int, default=0
        Of the shuffles.

    Returns
    -------
    ImportanceComparison
        With ``to_frame()`` and ``plot()``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import compare_importances
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> tables = X[:400], y[:400], X[400:], y[400:]
    >>> comparison = compare_importances(model, *tables, methods=("unbiased_gain", "gain", "split"))
    >>> list(comparison.results)
    ['unbiased_gain', 'gain', 'split']
    """
    methods = (methods,) if isinstance(methods, str) else tuple(methods)
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        raise ValueError(f"methods must be some of {METHODS}, got {methods!r}.")
    runs: dict[str, Callable[[], Importance]] = {
        "unbiased_gain": lambda: unbiased_gain(
            model,
            X_train,
            y_train,
            X_val,
            y_val,
            sample_weight_train=sample_weight_train,
            sample_weight_val=sample_weight_val,
            offset_train=offset_train,
            offset_val=offset_val,
            row_groups_val=row_groups_val,
            loss=loss,
            level=level,
            min_rows=min_rows,
            paper_sums=paper_sums,
            n_jobs=n_jobs,
        ),
        "gain": lambda: gain_importance(
            model,
            X_train,
            y_train,
            sample_weight_train=sample_weight_train,
            offset_train=offset_train,
            loss=loss,
            n_jobs=n_jobs,
        ),
        "split": lambda: split_importance(model, X_train, loss=loss),
        "permutation": lambda: permutation_importance(
            model,
            X_val,
            y_val,
            sample_weight_val=sample_weight_val,
            offset_val=offset_val,
            n_repeats=n_repeats,
            loss=loss,  # type: ignore[arg-type]
            level=level,
            random_state=random_state,
            n_jobs=n_jobs,
        ),
        "shap": lambda: shap_importance(model, X_val, loss=loss),
    }
    return ImportanceComparison({method: runs[method]() for method in methods})
