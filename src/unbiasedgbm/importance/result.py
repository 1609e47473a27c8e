"""The result of an importance: values with standard errors, tests, intervals, a table and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# A p-value is a statement about what could have happened by chance, and that is never impossible.
SMALLEST_P = float(np.finfo(np.float64).tiny)

# Degrees of freedom beyond which Student's t is the normal distribution to the last digit that matters.
_MANY = 1e9


@dataclass(frozen=True, eq=False)
class Importance:
    """Importance of every feature, with what is known of its chance error.

    Values are neither clipped nor normalised: positive helps on unseen rows, zero is useless, negative is harmful.

    Attributes
    ----------
    method : str
        What was computed, for titles and tables.
    feature_names : tuple of str
    importance : ndarray of shape (n_features,), float64
    se : ndarray of shape (n_features,), float64
        Standard errors; NaN where the method has none.
    n_splits : ndarray of shape (n_features,), int64
        Splits that gave a score.
    df : ndarray of shape (n_features,), float64, or None
        Degrees of freedom of the standard errors; None for many. Tests and intervals use Student's t.
    level : float
        Confidence level of the intervals.
    tested : bool
        Whether zero means useless, so that z-scores and p-values make sense; NaN otherwise.
    unjudged : ndarray of shape (n_features,), float64, or None
        Share of what a feature's splits do to the training rows that could not be judged, for lack of held-out rows.
    per_tree : ndarray of shape (n_trees, n_features), float64, or None
    per_class : ndarray of shape (n_outputs, n_features), float64, or None
    per_depth : ndarray of shape (depth, n_features), float64, or None
        By the depth of the split; the root has depth 0.
    groups : Importance or None
        The groups that were asked for, tested together.
    settings : mapping
        The arguments behind the numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import unbiased_gain
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=10).fit(X[:400], y[:400])
    >>> result = unbiased_gain(model, X[:400], y[:400], X[400:], y[400:])
    >>> bool((result.ci_low <= result.importance).all())
    True
    >>> list(result.to_frame().columns[:4])
    ['feature', 'importance', 'se', 'z']
    """

    method: str
    feature_names: tuple[str, ...]
    importance: FloatArray
    se: FloatArray
    n_splits: IntArray
    df: FloatArray | None = None
    level: float = 0.95
    tested: bool = True
    unjudged: FloatArray | None = None
    per_tree: FloatArray | None = None
    per_class: FloatArray | None = None
    per_depth: FloatArray | None = None
    groups: Importance | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def z(self) -> FloatArray:
        """Importance in standard errors; 0 for a feature without a score."""
        if not self.tested:
            return np.full(len(self.importance), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.importance == 0.0, self.importance * self.se, self.importance / self.se)

    @property
    def p_value(self) -> FloatArray:
        """One-sided: how likely a useless feature scores this high. 1 for a feature without a score, never 0."""
        p = np.maximum(special.stdtr(self._df(), -self.z), SMALLEST_P)
        return np.where((self.n_splits == 0) & self.tested, 1.0, p)

    @property
    def p_adjusted(self) -> FloatArray:
        """Benjamini–Hochberg adjusted p-values: of the features below q, a share of q is expected to be false."""
        return benjamini_hochberg(self.p_value)

    @property
    def ci_low(self) -> FloatArray:
        """Lower end of the two-sided confidence interval."""
        return self.importance - self._half_width()

    @property
    def ci_high(self) -> FloatArray:
        """Upper end of the two-sided confidence interval."""
        return self.importance + self._half_width()

    @property
    def importances_mean(self) -> FloatArray:
        """`importance`, by scikit-learn's name."""
        return self.importance

    @property
    def importances_std(self) -> FloatArray:
        """`se`, by scikit-learn's name."""
        return self.se

    def _df(self) -> FloatArray:
        return np.full(len(self.se), _MANY) if self.df is None else np.minimum(self.df, _MANY)

    def _half_width(self) -> FloatArray:
        return self.se * special.stdtrit(self._df(), 0.5 + self.level / 2.0)

    def part(self, columns: slice) -> Importance:
        """Some of the features, tested by themselves.

        Parameters
        ----------
        columns : slice

        Returns
        -------
        Importance
        """

        def cut(table: FloatArray | None) -> FloatArray | None:
            return None if table is None else table[..., columns]

        return replace(
            self,
            feature_names=self.feature_names[columns],
            importance=self.importance[columns],
            se=self.se[columns],
            n_splits=self.n_splits[columns],
            df=cut(self.df),
            unjudged=cut(self.unjudged),
            per_tree=cut(self.per_tree),
            per_class=cut(self.per_class),
            per_depth=cut(self.per_depth),
        )

    def ranking(self) -> IntArray:
        """Feature numbers from the most to the least important, ties in column order."""
        return np.argsort(-self.importance, kind="stable")

    def to_frame(self, backend: str = "pandas") -> Any:
        """Table with one row a feature, the most important first.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"

        Returns
        -------
        data frame
            Columns feature, importance, se, z, p_value, ci_low, ci_high, n_splits, p_adjusted.
        """
        order = self.ranking()
        columns: dict[str, Any] = {"feature": [self.feature_names[j] for j in order]}
        for name in ("importance", "se", "z", "p_value", "ci_low", "ci_high", "n_splits", "p_adjusted"):
            columns[name] = getattr(self, name)[order]
        return frame_from_columns(columns, backend)

    def plot(self, ax: Any = None, *, max_features: int = 20) -> Any:
        """Bars with confidence whiskers, sorted, with a line at zero.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Drawn on; a new figure otherwise.
        max_features : int, default=20
            The most important ones are shown.

        Returns
        -------
        matplotlib.axes.Axes
        """
        order = self.ranking()[:max_features]
        if ax is None:
            _, ax = import_pyplot().subplots(figsize=(6.4, 1.2 + 0.28 * len(order)), layout="constrained")
        place = np.arange(len(order))
        ax.barh(place, self.importance[order], color=self._colours()[order], height=0.7)
        if np.isfinite(self.se[order]).any():
            ax.errorbar(
                self.importance[order],
                place,
                xerr=np.nan_to_num(self._half_width()[order]),
                fmt="none",
                ecolor="#1a202c",
                elinewidth=1.0,
                capsize=2.5,
            )
        ax.axvline(0.0, color="#1a202c", linewidth=0.8)
        ax.set_yticks(place, [self.feature_names[j] for j in order])
        ax.invert_yaxis()
        ax.set_xlabel(self.method)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _colours(self) -> npt.NDArray[np.str_]:
        """Blue for significant features, grey for the others; slate where nothing is tested."""
        if not self.tested:
            return np.full(len(self.importance), "#64748b")
        return np.where(self.p_value < 1.0 - self.level, "#2b6cb0", "#b3b3b3")

    def __repr__(self) -> str:
        lines = [f"{self.method}: {len(self.feature_names)} features"]
        for j in self.ranking()[:10]:
            line = f"  {self.feature_names[j]:<20.20} {self.importance[j]: .4g}"
            if np.isfinite(self.se[j]):
                line += f" ± {self.se[j]:.2g}"
            if self.tested:
                line += f"  (z = {self.z[j]:.2f}, p = {self.p_value[j]:.2g})"
            lines.append(line)
        if len(self.feature_names) > 10:
            lines.append("  …")
        return "\n".join(lines)


def effective_df(psi: FloatArray) -> FloatArray:
    """Degrees of freedom of Σψ² as an estimate of a variance, by its own variance Σψ⁴ (Satterthwaite).

    Many rows of like weight give many; a score that rests on the few rows of one small child gives few.

    Parameters
    ----------
    psi : ndarray of shape (n_rows, n_features), float64

    Returns
    -------
    ndarray of shape (n_features,), float64
        At least 1; infinite for a feature without contributions.
    """
    squares = psi * psi
    return moments_df(squares.sum(axis=0), np.einsum("ij,ij->j", squares, squares))


def moments_df(second: FloatArray, fourth: FloatArray) -> FloatArray:
    """`effective_df` from Σψ² and Σψ⁴, each of shape (n_features,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(fourth > 0.0, np.maximum(2.0 * second**2 / fourth, 1.0), np.inf)


def benjamini_hochberg(p: FloatArray) -> FloatArray:
    """Benjamini–Hochberg step-up adjustment; NaN stays NaN and does not count.

    Parameters
    ----------
    p : ndarray of shape (n,), float64

    Returns
    -------
    ndarray of shape (n,), float64
    """
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    # A larger p-value never has a smaller adjusted one.
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.minimum(adjusted, 1.0)


def frame_from_columns(columns: Mapping[str, Any], backend: str) -> Any:
    """Native data frame of the named package."""
    try:
        return nw.from_dict(dict(columns), backend=backend).to_native()  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"to_frame(backend={backend!r}) needs {backend}: pip install {backend}, or name another backend."
        ) from error


def import_pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Plots need matplotlib: pip install 'unbiasedgbm[plot]'.") from error
    return matplotlib.pyplot


def group_names(
    groups: Mapping[str, Sequence[str | int]] | None, feature_names: Sequence[str], other_names: Sequence[str] = ()
) -> dict[str, IntArray]:
    """Feature numbers of each group, checked.

    Parameters
    ----------
    groups : mapping from group name to features, or None
        Names, numbers or a mask of booleans, in a list, an array, a series or a set.
    feature_names : sequence of str
    other_names : sequence of str
        Names that the features have besides, where these are not names of other features.

    Returns
    -------
    dict from group name to ndarray, int64
    """
    if groups is not None and not hasattr(groups, "items"):
        raise TypeError(f"groups must be a mapping from a name to features, got {type(groups).__name__}.")
    number: dict[Any, int] = {name: j for names in (other_names, feature_names) for j, name in enumerate(names)}
    number |= {j: j for j in range(len(feature_names))}
    members: dict[str, IntArray] = {}
    for group, features in ({} if groups is None else groups).items():
        # An array without dimensions looks iterable, but is not.
        is_list = isinstance(features, Iterable) and not isinstance(features, str | bytes)
        is_list = is_list and getattr(features, "ndim", 1) > 0
        if not is_list or not (listed := list(features)):
            raise ValueError(f"groups[{group!r}] must be a list with at least one feature, got {features!r}.")
        if all(isinstance(f, bool | np.bool_) for f in listed):
            members[group] = _masked(listed, group, len(feature_names))
            continue
        unknown = [f for f in listed if isinstance(f, bool) or not isinstance(f, str | Integral) or f not in number]
        if unknown:
            raise ValueError(f"groups[{group!r}] names {unknown[0]!r}, which is not a feature of the model.")
        members[group] = np.unique(np.array([number[f] for f in listed], dtype=np.int64))
    return members


def _masked(mask: Sequence[Any], group: str, n_features: int) -> IntArray:
    """Numbers of the features that a mask marks."""
    if len(mask) != n_features:
        raise ValueError(f"groups[{group!r}] is a mask of length {len(mask)}, but the model has {n_features} features.")
    if not any(mask):
        raise ValueError(f"groups[{group!r}] is a mask without a feature.")
    return np.flatnonzero(mask)
