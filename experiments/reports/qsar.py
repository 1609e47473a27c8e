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
VIEWS = {"": "all features", "nHM": "without nHM", "PCD": "without PCD"}


def view(feature: str) -> str:
    """The name of the table without a feature."""
    return f"{TABLE}~{feature}" if feature else TABLE


def write(rows: Iterable[Row], out: Path, methods: Sequence[str]) -> list[Path]:
    """Write ``qsar.md``: mean test AUC over the splits, and what the removal of a feature changes, split by split."""
    wanted = {view(feature) for feature in VIEWS}
    frame = measured(row for row in rows if row["table"] in wanted and row["method"] in methods)
    if frame.empty:
        return []
    auc = frame.pivot_table(index=["method", "seed"], columns="table", values="test_auc").reindex(
        columns=sorted(wanted)
    )
    auc = auc.dropna()
    lines = pd.DataFrame({title(method): _column(auc.loc[method]) for method in methods if method in auc.index})
    reported = pd.DataFrame({f"{title(method)}, paper": _paper_column(method) for method in paper.QSAR_AUC})
    page = out / "qsar.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        "# QSAR bioconcentration\n\n"
        f"Test AUC, mean ± standard error over {auc.index.get_level_values('seed').nunique()} splits, methods at their "
        "defaults. The changes are paired by split; p by a two-sided t-test.\n\n"
        f"{markdown_table(lines.join(reported), corner='features')}\n"
    )
    return [page]


def _column(auc: pd.DataFrame) -> pd.Series:
    """The cells of one method; `auc` of shape (splits, views)."""
    from scipy.stats import ttest_rel

    cells = {}
    full = auc[view("")]
    for feature, name in VIEWS.items():
        values = auc[view(feature)]
        cells[name] = f"{values.mean():.3f} ± {values.sem():.3f}"
        if feature:
            p = ttest_rel(values, full).pvalue if len(auc) > 1 and not np.allclose(values, full) else 1.0
            cells[name] += f" (change {values.mean() - full.mean():+.3f}, p {p_value(p).lstrip()})"
    return pd.Series(cells)


def _paper_column(method: str) -> pd.Series:
    return pd.Series({name: f"{paper.QSAR_AUC[method][feature]:.3f}" for feature, name in VIEWS.items()})
