"""The paper's toy figure: box plots of gain and unbiased gain over repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.reports.markdown import markdown_table
from experiments.reports.rows import measured
from experiments.reports.style import colour, new_figure, save
from experiments.store import Row

KINDS = {"gain": "Gain importance", "unbiased_gain": "Unbiased gain", "paper_sums": "The paper's sums"}
FEATURES = ("X1 (binary, weak)", "X2 (6 levels, useless)", "X3 (continuous, useless)")


def write(rows: Iterable[Row], out: Path) -> list[Path]:
    """Write ``toy.md`` and ``toy.svg`` from the rows of the toy study."""
    frame = measured(rows)
    if frame.empty:
        return []
    values = {
        (method, kind): np.concatenate(part[kind].map(np.asarray).to_list())
        for method, part in frame.groupby("method", sort=False)
        for kind in KINDS
    }
    figure = _plot(values, out / "toy.svg")
    repetitions = len(next(iter(values.values())))
    page = out / "toy.md"
    page.write_text(
        f"# The paper's example\n\ny = 0.1 X1 + noise; X2 and X3 are useless. {repetitions} repetitions.\n\n"
        f"![Importance by feature]({figure.name})\n\n{_table(values)}\n\n"
        "The unbiased gain of a useless feature has mean zero, with one tree and with a hundred. The paper's sums are "
        "unbiased for one tree only: after many trees they are far below zero, for the useful feature as well. They "
        "are not multiplied by the learning rate, and so are larger than what the model takes away from the loss.\n"
    )
    return [page, figure]


def _table(values: dict[tuple[str, str], np.ndarray]) -> str:
    lines = {}
    for (method, kind), sample in values.items():
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
        cells = [f"{mean:.5f} ± {width:.5f}" for mean, width in zip(sample.mean(axis=0), error, strict=True)]
        lines[f"{KINDS[kind]}, {method}"] = cells
    table = pd.DataFrame.from_dict(lines, orient="index", columns=list(FEATURES))
    return markdown_table(table, corner="mean ± standard error")


def _plot(values: dict[tuple[str, str], np.ndarray], path: Path) -> Path:
    methods = list(dict.fromkeys(method for method, _ in values))
    figure, axes = new_figure(len(methods), len(KINDS), width=3.6, height=2.8)
    for line, method in zip(axes, methods, strict=True):
        for axis, (kind, name) in zip(line, KINDS.items(), strict=True):
            look = {"showfliers": False, "patch_artist": True, "boxprops": {"facecolor": colour(kind), "alpha": 0.35}}
            axis.boxplot(values[method, kind], tick_labels=["X1", "X2", "X3"], **look)
            axis.axhline(0, color="0.5", lw=0.8, zorder=0)
            axis.set_title(f"{name}, {method}")
    return save(figure, path)
