"""The committed results that tables and figures are made of."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks" / "results"
STUDY = ROOT / "experiments" / "results"

# Features of a wide table are more than these.
WIDE = 1000


@cache
def benchmark(name: str) -> Any:
    """A file of `python -m benchmarks`."""
    return json.loads((BENCHMARKS / f"{name}.json").read_text("utf-8"))


@cache
def validation() -> Any:
    """What `docs/importance/validate.py` found."""
    return json.loads((ROOT / "docs" / "importance" / "validation.json").read_text("utf-8"))


@cache
def untuned() -> pd.DataFrame:
    """The untuned comparison: our defaults and the rivals, one line a measurement, with the table's half."""
    from experiments.catalogue import TableSource
    from experiments.methods import UNTUNED
    from experiments.reports.rows import measured
    from experiments.store import Store

    files = sorted(STUDY.glob("untuned*.jsonl.gz"))
    rows = Store(files[-1], also=files[:-1]).rows("untuned")
    tables = TableSource()
    frame = measured(row for row in rows if row["method"] in UNTUNED)
    halves = {name: tables.entry(name).half for name in frame["table"].unique()}
    return frame.assign(half=frame["table"].map(halves))


@cache
def unseen() -> pd.DataFrame:
    """The untuned comparison on tables that chose next to nothing, one line a measurement."""
    from experiments.reports.rows import measured
    from experiments.store import Store

    return measured(Store(STUDY / "unseen.jsonl.gz").rows("unseen"))


@cache
def study_times() -> pd.DataFrame:
    """Processor time of our untuned fits in units of LightGBM's, one line a table, with its kind."""
    from experiments.catalogue import TableSource
    from experiments.reports.rows import measured
    from experiments.store import Store

    frame = measured(Store(STUDY / "times.jsonl.gz").rows("times"))
    seconds = frame.pivot_table(index=["table", "task"], columns="method", values="fit_cpu_seconds").clip(lower=1e-3)
    ratio = (seconds["unbiasedgbm"] / seconds["lightgbm"]).rename("ratio").reset_index()
    tables = TableSource()
    wide = [tables.entry(name).features > WIDE for name in ratio["table"]]
    return ratio.assign(kind=ratio["task"].mask(wide, "wide"))


@cache
def groups() -> pd.DataFrame:
    """Mean loss on new groups of rows, log loss or RMSE, tables × methods; one method is told the groups."""
    from experiments.reports.rows import complete, measured, scores
    from experiments.store import Store

    frame = measured(Store(STUDY / "groups.jsonl.gz").rows("groups"))
    loss = frame["test_log_loss"].fillna(frame["test_rmse"])
    return complete(scores(frame.assign(loss=loss), "loss"))


@cache
def toy() -> dict[str, Any]:
    """The paper's example: gain and unbiased gain by number of trees, arrays of shape (repeats, 3)."""
    import numpy as np
    from experiments.store import Store

    rows = Store(STUDY / "toy.jsonl.gz").rows("toy")
    found: dict[str, Any] = {}
    for key in ("gain", "unbiased_gain"):
        for method in ("1 tree", "100 trees"):
            found[f"{key}, {method}"] = np.concatenate([row[key] for row in rows if row["method"] == method])
    return found
