"""Effects of features: partial dependence, how much it differs between rows, and where the data lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm.report.rows import FloatArray, ReportRows, predict_scale, table_of, thin

_ROWS = 200
_POINTS = 24
_BARS = 24
_LEVELS = 15
_OUTPUTS = 6


def effects(model: Any, rows: ReportRows, features: list[int]) -> list[dict[str, Any]]:
    """Effect of each feature, from the training rows.

    Parameters
    ----------
    model : fitted estimator
    rows : ReportRows
    features : list of int

    Returns
    -------
    list of dict
        ``x`` (numbers, or names of levels), ``curves`` (one an output: ``mean``, and ``low`` and ``high``, between
        which the effect lies for the middle 80 % of single rows), and ``data`` (``edges`` and ``counts``; counts alone
        for levels).
    """
    table = rows.train.take(thin(rows.train.n_rows, _ROWS))
    block = table.block(0, table.n_rows).copy()
    everything = rows.train.take(thin(rows.train.n_rows, 20_000))
    return [_effect(model, rows, block, everything.column(j), j) for j in features]


def _effect(model: Any, rows: ReportRows, block: FloatArray, column: FloatArray, j: int) -> dict[str, Any]:
    schema = model._model.schema
    levels = schema.categories[j]
    present = column[~np.isnan(column)]
    if levels is None:
        points = _grid(present)
        x: list[Any] = points.tolist()
        counts, edges = _histogram(present)
        data = {"edges": edges.tolist(), "counts": counts.tolist()}
    else:
        share = np.bincount(present.astype(np.int64), minlength=len(levels))
        chosen = np.sort(np.argsort(-share, kind="stable")[:_LEVELS])
        points = chosen.astype(np.float64)
        x = [str(levels[k]) for k in chosen]
        data = {"edges": None, "counts": share[chosen].tolist()}
    missing = int(np.isnan(column).sum())
    if missing:
        points = np.append(points, np.nan)
    curves = _curves(model, rows, block, j, points)
    return {
        "name": schema.feature_names[j] if schema.feature_names is not None else f"x{j}",
        "categorical": levels is not None,
        "x": x,
        "missing": missing / len(column),
        "n_hidden": 0 if levels is None else max(0, len(levels) - _LEVELS),
        "curves": curves,
        "data": data,
    }


def _grid(present: FloatArray) -> FloatArray:
    """Points from the first to the last percentile: half of them evenly spaced, half where the data are."""
    if len(present) == 0:
        return np.zeros(1)
    finite = present[np.isfinite(present)]
    distinct = np.unique(finite)
    if len(distinct) <= _POINTS:
        return distinct if len(distinct) else np.zeros(1)
    low, high = np.quantile(finite, [0.01, 0.99])
    dense = np.quantile(finite, np.linspace(0.01, 0.99, _POINTS // 2))
    return np.unique(np.concatenate([np.linspace(low, high, _POINTS // 2 + 1), dense]))


def _histogram(present: FloatArray) -> tuple[FloatArray, FloatArray]:
    finite = present[np.isfinite(present)]
    if len(finite) == 0:
        return np.zeros(1), np.array([0.0, 1.0])
    low, high = np.quantile(finite, [0.01, 0.99])
    if low == high:
        low, high = float(finite.min()), float(finite.max())
    counts, edges = np.histogram(np.clip(finite, low, high), bins=_BARS, range=(low, high) if high > low else None)
    return counts, edges


def _curves(model: Any, rows: ReportRows, block: FloatArray, j: int, points: FloatArray) -> list[dict[str, Any]]:
    """Predictions of all rows with the feature set to each point; the last point may stand for missing values."""
    stacked = np.repeat(block[None], len(points), axis=0)
    stacked[:, :, j] = points[:, None]
    answers = predict_scale(model, table_of(stacked.reshape(-1, block.shape[1]), rows.train))
    answers = answers.reshape(len(points), len(block), -1)[:, :, :_OUTPUTS]
    mean = answers.mean(axis=1)
    # rows differ in level for many reasons; here only what the feature does to them matters
    change = answers - answers.mean(axis=0) + mean.mean(axis=0)
    low, high = np.quantile(change, [0.1, 0.9], axis=1)
    return [
        {"mean": mean[:, k].tolist(), "low": low[:, k].tolist(), "high": high[:, k].tolist()}
        for k in range(answers.shape[2])
    ]
