"""The result of an importance: values with standard errors, tests, intervals, a table and a plot."""

from __future__ import annotations

import difflib
import html
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

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
    >>> result["x22"].p_adjusted < 0.001
    True
    >>> "x22" in result.significant()
    True
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
            return np.where(self.importance == 0.0, 0.0, self.importance / self.se)

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

    def __getitem__(self, feature: str | int) -> FeatureImportance:
        """What is known of one feature, by name or number."""
        if isinstance(feature, str):
            if feature not in self.feature_names:
                near = difflib.get_close_matches(feature, self.feature_names, 1)
                raise KeyError(f"no feature {feature!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
            feature = self.feature_names.index(feature)
        j = operator.index(feature)
        values = {name: getattr(self, name)[j].item() for name in FeatureImportance._fields[1:]}
        return FeatureImportance(feature=self.feature_names[j], **values)

    def __len__(self) -> int:
        return len(self.feature_names)

    def __iter__(self) -> Iterator[FeatureImportance]:
        """All features, in column order."""
        return (self[j] for j in range(len(self)))

    def significant(self, level: float = 0.05) -> tuple[str, ...]:
        """Features whose adjusted p-value is at most ``level``, in the order of `ranking`.

        Of the features named, a share of ``level`` is expected to be useless.

        Parameters
        ----------
        level : float, default=0.05

        Returns
        -------
        tuple of str
        """
        if not self.tested:
            raise ValueError(f"{self.method} has no p-values.")
        return tuple(self.feature_names[j] for j in self.ranking() if self.p_adjusted[j] <= level)

    def ranking(self) -> IntArray:
        """Feature numbers from the most to the least important.

        Where values are tested, by the lower end of their confidence intervals, which does not put a large but
        uncertain value first, and features without a split come last. Ties are in column order.
        """
        if not (self.tested and np.isfinite(self.se).any()):
            return np.argsort(-self.importance, kind="stable")
        low = np.where(np.isfinite(self.ci_low), self.ci_low, self.importance)
        return np.lexsort((-low, self.n_splits == 0))

    def to_frame(self, backend: str = "pandas") -> Any:
        """Table with one row a feature, the most important first.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"

        Returns
        -------
        data frame
            Columns feature, importance, se, z, p_value, ci_low, ci_high, n_splits, p_adjusted, and unjudged if known.
        """
        order = self.ranking()
        columns: dict[str, Any] = {"feature": [self.feature_names[j] for j in order]}
        for name in ("importance", "se", "z", "p_value", "ci_low", "ci_high", "n_splits", "p_adjusted"):
            columns[name] = getattr(self, name)[order]
        if self.unjudged is not None:
            columns["unjudged"] = self.unjudged[order]
        return frame_from_columns(columns, backend)

    def plot(self, ax: Any = None, *, max_features: int = 20, legend: bool = True) -> Any:
        """Bars with confidence intervals, sorted, with a line at zero.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Drawn on; a new figure otherwise.
        max_features : int, default=20
            The most important ones are shown.
        legend : bool, default=True
            Whether to say what the colours mean.

        Returns
        -------
        matplotlib.axes.Axes
        """
        order = self.ranking()[:max_features]
        if ax is None:
            _, ax = import_pyplot().subplots(figsize=(6.4, 1.6 + 0.28 * len(order)), layout="constrained")
        place = np.arange(len(order))
        found = self.p_adjusted <= 1.0 - self.level
        kinds = [(found, "#2b6cb0", f"adjusted p ≤ {1.0 - self.level:.2g}"), (~found, "#b3b3b3", "not significant")]
        for kind, colour, label in kinds if self.tested else [(found | True, "#64748b", None)]:
            shown = kind[order]
            ax.barh(place[shown], self.importance[order][shown], color=colour, height=0.7, label=label)
        if np.isfinite(self.se[order]).any():
            ax.errorbar(
                self.importance[order],
                place,
                xerr=np.nan_to_num(self._half_width()[order]),
                fmt="none",
                ecolor="#1a202c",
                elinewidth=1.0,
                capsize=2.5,
                label=f"{self.level:.0%} interval",
            )
        ax.axvline(0.0, color="#1a202c", linewidth=0.8)
        ax.set_yticks(place, [self.feature_names[j] for j in order])
        ax.invert_yaxis()
        ax.set_xlabel(self.method)
        ax.spines[["top", "right"]].set_visible(False)
        if self.tested and legend:
            ax.legend(frameon=False, fontsize="small", loc="lower right")
        return ax

    def __repr__(self) -> str:
        """The ten most important features as a table."""
        header, *rows = self._cells(10)
        widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
        lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
                 for row in (header, *rows)]  # fmt: skip
        return "\n".join([self._title(), *(line.rstrip() for line in lines), *self._notes(10)])

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        header, *rows = self._cells(30)
        right = ' style="text-align: right"'

        def line(tag: str, row: Sequence[str]) -> str:
            cells = "".join(f"<{tag}{right if k else ''}>{html.escape(cell)}</{tag}>" for k, cell in enumerate(row))
            return f"<tr>{cells}</tr>"

        body = "".join(line("td", row) for row in rows)
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self._notes(30))
        return (
            f"<div><div><b>{html.escape(self._title())}</b></div><table><thead>{line('th', header)}</thead>"
            f"<tbody>{body}</tbody></table>{notes}</div>"
        )

    def _title(self) -> str:
        return f"{self.method}: {len(self)} features"

    def _cells(self, n_rows: int) -> list[list[str]]:
        """Header and rows of the printed table."""
        some_se = bool(np.isfinite(self.se).any())
        header = ["feature", "importance"]
        if some_se:
            header.append(f"± {self.level:.0%}")
        if self.tested:
            header += ["z", "p (adjusted)"]
        cells = [header]
        for j in self.ranking()[:n_rows]:
            row = [self.feature_names[j], f"{self.importance[j]:.4g}"]
            if some_se:
                row.append(f"{self._half_width()[j]:.2g}" if np.isfinite(self.se[j]) else "")
            if self.tested:
                row += [f"{self.z[j]:.2f}", f"{self.p_adjusted[j]:.2g}"] if self.n_splits[j] else ["", "no split"]
            cells.append(row)
        return cells

    def _notes(self, n_rows: int) -> list[str]:
        """What stands below the printed table."""
        more = len(self) - n_rows
        return [f"and {more} more: to_frame() has all"] if more > 0 else []


class FeatureImportance(NamedTuple):
    """What is known of one feature; see `Importance`."""

    feature: str
    importance: float
    se: float
    z: float
    p_value: float
    p_adjusted: float
    ci_low: float
    ci_high: float
    n_splits: int


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
