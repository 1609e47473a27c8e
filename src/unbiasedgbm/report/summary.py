"""Scores, learning curves, parameters and the table in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics

from unbiasedgbm.files.values import to_plain
from unbiasedgbm.frames import Table
from unbiasedgbm.report.rows import FloatArray, ReportRows, predict_scale, thin
from unbiasedgbm.threads import Pool

_CURVE_ROWS = 2000
_CURVE_POINTS = 200


def scores(model: Any, rows: ReportRows) -> list[dict[str, Any]]:
    """Scores on training and held-out rows: name, both values, and whether more is better."""
    train, val = predict_scale(model, rows.train), predict_scale(model, rows.val)
    pairs = ((train, rows.target_train), (val, rows.target_val))
    if not hasattr(model, "classes_"):
        named: list[tuple[str, Any, bool]] = [
            ("R²", lambda p, y: metrics.r2_score(y, p[:, 0]), True),
            ("RMSE", lambda p, y: metrics.root_mean_squared_error(y, p[:, 0]), False),
            ("Mean absolute error", lambda p, y: metrics.mean_absolute_error(y, p[:, 0]), False),
        ]
    else:
        n = len(model.classes_)
        named = [
            ("Log loss", lambda p, y: metrics.log_loss(y, _both(p), labels=range(n)), False),
            ("Accuracy", lambda p, y: metrics.accuracy_score(y, _both(p).argmax(axis=1)), True),
        ]
        if n == 2:
            named.insert(0, ("ROC AUC", _auc, True))
    return [
        {"name": name, "train": _number(score, *pairs[0]), "val": _number(score, *pairs[1]), "more_is_better": more}
        for name, score, more in named
    ]


def _both(p: FloatArray) -> FloatArray:
    return np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p


def _auc(p: FloatArray, y: FloatArray) -> float:
    return float(metrics.roc_auc_score(y, p[:, 0])) if len(np.unique(y)) == 2 else float("nan")


def _number(score: Any, p: FloatArray, y: FloatArray) -> float:
    return float(score(p, y))


def curves(model: Any, rows: ReportRows) -> dict[str, Any]:
    """Mean loss after each iteration, on training and on held-out rows."""
    n = model.best_iteration_
    kept = np.unique(np.linspace(1, n, min(n, _CURVE_POINTS)).astype(int)) if n else np.zeros(0, int)
    return {
        "loss": model._make_loss().name.replace("_", " "),
        "iteration": kept.tolist(),
        "train": _curve(model, rows.train, rows.target_train, kept),
        "val": _curve(model, rows.val, rows.target_val, kept),
    }


def _curve(model: Any, table: Table, target: FloatArray, kept: Any) -> list[float]:
    chosen = thin(table.n_rows, _CURVE_ROWS)
    loss, wanted = model._make_loss(), set(kept.tolist())
    y = target[chosen]
    stages = enumerate(model._model.staged(table.take(chosen), Pool(1)), start=1)
    return [loss.mean(y, raw[:, 0] if raw.shape[1] == 1 else raw) for k, raw in stages if k in wanted]


def parameter_table(model: Any) -> list[dict[str, Any]]:
    """Every parameter with its meaning, and whether it was changed."""
    return [
        {
            "name": parameter.name,
            "value": repr(getattr(model, parameter.name)),
            "changed": to_plain(getattr(model, parameter.name)) != to_plain(parameter.default),
            "meaning": parameter.meaning,
        }
        for parameter in model._parameters
    ]


def table_summary(model: Any, rows: ReportRows) -> dict[str, Any]:
    """What the training table is made of."""
    schema = model._model.schema
    chosen = thin(rows.train.n_rows, 20_000)
    columns = []
    for j, levels in enumerate(schema.categories):
        column = rows.train.column(j, chosen)
        present = column[~np.isnan(column)]
        entry: dict[str, Any] = {
            "name": schema.feature_names[j] if schema.feature_names is not None else f"x{j}",
            "kind": "number" if levels is None else "category",
            "missing": 1.0 - len(present) / len(column),
            "distinct": len(np.unique(present)),
        }
        if levels is None and len(present):
            entry.update(zip(("low", "middle", "high"), np.quantile(present, [0.0, 0.5, 1.0]).tolist(), strict=True))
        elif levels:
            top = np.bincount(present.astype(np.int64), minlength=len(levels)).argmax() if len(present) else 0
            entry["top"] = str(levels[int(top)])
        columns.append(entry)
    return {
        "n_train": rows.train.n_rows,
        "n_val": rows.val.n_rows,
        "n_features": schema.n_features,
        "columns": columns,
        "target": _target_summary(model, rows),
    }


def _target_summary(model: Any, rows: ReportRows) -> list[dict[str, Any]]:
    """Share of each class in both sets of rows, or the range of the target."""
    if hasattr(model, "classes_"):
        shares = [
            np.bincount(y.astype(np.int64), minlength=len(model.classes_)) / len(y)
            for y in (rows.target_train, rows.target_val)
        ]
        labels = [str(label) for label in model.classes_]
    else:
        points = (0.0, 0.25, 0.5, 0.75, 1.0)
        shares = [np.quantile(y, points) for y in (rows.target_train, rows.target_val)]
        labels = ["smallest", "lower quartile", "median", "upper quartile", "largest"]
    return [{"name": name, "train": float(a), "val": float(b)} for name, a, b in zip(labels, *shares, strict=True)]
