"""The page: content as data inside a template that draws it."""

from __future__ import annotations

import json
import math
import os
from datetime import date
from importlib.resources import files
from typing import Any

from unbiasedgbm._version import __version__
from unbiasedgbm.files.atomic import write_atomically
from unbiasedgbm.report.effects import effects
from unbiasedgbm.report.importances import importances
from unbiasedgbm.report.rows import ReportRows
from unbiasedgbm.report.summary import curves, parameter_table, scores, table_summary
from unbiasedgbm.report.trees import tree_pages

_SLOT = "/*CONTENT*/null"


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X_train: Any,
    y_train: Any,
    X_val: Any,
    y_val: Any,
    *,
    row_groups_val: Any = None,
    title: str = "Model report",
    notes: str = "",
    n_effects: int = 6,
    n_jobs: int | None = None,
) -> None:
    """Write a page about a model: importance beside plain gain, learning curves, effects, trees, parameters, data.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor
    path : path
        An HTML file; it needs no other file and no network.
    X_train, y_train
        The rows that the model was trained on.
    X_val, y_val
        Rows that it was not trained on.
    row_groups_val : array-like, optional
        As in `unbiased_gain`.
    title, notes : str
        Shown at the top.
    n_effects : int, default=6
        Features, the most important ones, whose effect is drawn.
    n_jobs : int or None, default=None

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier, write_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X[:400], y[:400])
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> write_report(model, path, X[:400], y[:400], X[400:], y[400:])
    >>> os.path.getsize(path) > 50_000
    True
    """
    rows = ReportRows.read(model, X_train, y_train, X_val, y_val, row_groups_val)
    content = report_content(model, rows, n_effects=n_effects, n_jobs=n_jobs)
    content.update(title=title, notes=notes)
    write_atomically(path, render(content).encode())


def report_content(model: Any, rows: ReportRows, *, n_effects: int, n_jobs: int | None) -> dict[str, Any]:
    """Everything that the page shows."""
    importance = importances(model, rows, n_jobs)
    strongest = [entry["j"] for entry in importance["features"][:n_effects]]
    return {
        "version": __version__,
        "date": date.today().isoformat(),
        "model": {
            "kind": type(model).__name__,
            "split_rule": model.split_rule_,
            "n_trees": model.ensemble_.n_trees,
            "n_iterations": model.best_iteration_,
            "n_leaves": int((model.ensemble_.left < 0).sum()),
            "classes": [str(label) for label in model.classes_] if hasattr(model, "classes_") else None,
        },
        "scores": scores(model, rows),
        "importance": importance,
        "curves": curves(model, rows),
        "effects": effects(model, rows, strongest),
        "trees": tree_pages(model),
        "parameters": parameter_table(model),
        "table": table_summary(model, rows),
    }


def render(content: dict[str, Any]) -> str:
    """The page with its content."""
    template = files("unbiasedgbm.report").joinpath("template.html").read_text(encoding="utf-8")
    data = json.dumps(_finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # inside a script element only "<" can end it or start a comment
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return template.replace(_SLOT, data.encode("utf-8", "replace").decode(), 1)


def _finite(value: Any) -> Any:
    """The same with null in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
