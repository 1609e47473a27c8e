"""Rows that belong together: what it is worth to say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.methods import title
from experiments.reports.markdown import markdown_table
from experiments.reports.rows import measured, scores
from experiments.store import Row
from experiments.studies.groups import MEANING

METRICS = {"test_auc": ("AUC", True), "test_log_loss": ("log loss", False), "test_rmse": ("RMSE", False)}


def write(rows: Iterable[Row], out: Path, methods: Sequence[str]) -> list[Path]:
    """Write ``groups.md``: scores on groups that no method has seen, means over the splits."""
    frame = measured(row for row in rows if row["method"] in methods)
    if frame.empty:
        return []
    n_groups = frame.groupby("table", sort=False)["groups"].first()
    facts = pd.DataFrame(
        {"a group is": [MEANING[name] for name in n_groups.index], "groups": n_groups}, index=n_groups.index
    )
    parts = [
        "# Rows that belong together",
        "Two thirds of the groups of rows train, the other groups test: "
        f"means over {frame['seed'].nunique()} splits, at most 20,000 rows to train and as many to test, every method "
        "at its defaults. All methods have the same columns, those that name the groups included; one is told the "
        "groups (`fit(X, y, groups=...)`).",
        markdown_table(facts, corner="table"),
    ]
    for column, (name, greater) in METRICS.items():
        if column in frame and frame[column].notna().any():
            found = scores(frame[frame[column].notna()], column).reindex(columns=list(methods)).dropna()
            parts.append(f"## {name}\n\n{_table(found, greater)}")
    page = out / "groups.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return [page]


def _table(found: pd.DataFrame, greater: bool) -> str:
    """Scores of tables and methods, the best of each table in bold."""
    best = found.max(axis=1) if greater else found.min(axis=1)
    cells = {
        title(method): [
            f"**{value:.4g}**" if value == top else f"{value:.4g}"
            for value, top in zip(found[method], best, strict=True)
        ]
        for method in found
    }
    return markdown_table(pd.DataFrame(cells, index=found.index), corner="table")
