"""The QSAR bioconcentration table: what happens when a feature with many values is taken away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.methods import title
from experiments.reports import paper
from experiments.reports.markdown import markdown_table, p_value
from experiments.reports.rows import measured
from experiments.store import Row

TABLE = "qsar_bioconcentration"
FEATURES = {"": "all features", "nHM": "without nHM", "PCD": "without PCD"}
READINGS = {"": "As numbers", "^": "As categories"}
"""The paper speaks of nHM and PCD as features with 11 and 224 categories; in the file they are numbers."""


def view(feature: str, reading: str = "") -> str:
    """The name of the table without a feature, the others of the two read as numbers or as categories."""
    as_categories = "".join(f"^{column}" for column in ("nHM", "PCD") if reading and column != feature)
    return TABLE + (f"~{feature}" if feature else "") + as_categories


def views() -> list[str]:
    """All tables of the report."""
    return [view(feature, reading) for reading in READINGS for feature in FEATURES]


def write(rows: Iterable[Row], out: Path, methods: Sequence[str]) -> list[Path]:
    """Write ``qsar.md``: mean test AUC over the splits, and what the removal of a feature changes, split by split."""
    frame = measured(row for row in rows if row["method"] in methods)
    if frame.empty:
        return []
    auc = frame.pivot_table(index=["method", "seed"], columns="table", values="test_auc").reindex(columns=views())
    reported = pd.DataFrame({f"{title(method)}, paper": _paper_column(method) for method in paper.QSAR_AUC})
    parts = [
        "# QSAR bioconcentration",
        f"Test AUC, mean ± standard error over {auc.index.get_level_values('seed').nunique()} splits, methods at their "
        "defaults. The changes are paired by split; p by a two-sided t-test, too bold because the splits share rows.",
    ]
    for reading, heading in READINGS.items():
        part = auc[[view(feature, reading) for feature in FEATURES]].dropna().set_axis(list(FEATURES), axis=1)
        if part.empty:
            continue
        present = [method for method in methods if method in part.index]
        lines = pd.DataFrame({title(method): _column(part.loc[method]) for method in present})
        parts.append(f"## {heading}\n\n{markdown_table(lines.join(reported), corner='features')}")
    page = out / "qsar.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return [page]


def _column(auc: pd.DataFrame) -> pd.Series:
    """The cells of one method; `auc` has splits in lines and the feature that was left out in columns."""
    from scipy.stats import ttest_rel

    cells = {}
    full = auc[""]
    for feature, name in FEATURES.items():
        values = auc[feature]
        cells[name] = f"{values.mean():.3f} ± {values.sem():.3f}"
        if feature:
            p = ttest_rel(values, full).pvalue if len(auc) > 1 and not np.allclose(values, full) else 1.0
            cells[name] += f" (change {values.mean() - full.mean():+.3f}, p {p_value(p).lstrip()})"
    return pd.Series(cells)


def _paper_column(method: str) -> pd.Series:
    return pd.Series({name: f"{paper.QSAR_AUC[method][feature]:.3f}" for feature, name in FEATURES.items()})
