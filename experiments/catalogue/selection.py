"""The paper's Algorithm "Select 60 Datasets"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from experiments.catalogue.entry import Entry
from experiments.catalogue.table import Table

QUOTAS: Mapping[tuple[str, bool], int] = {
    ("small", False): 20,
    ("small", True): 20,
    ("medium", False): 10,
    ("medium", True): 10,
}
"""How many tables of each Type (scale, categorical) are enough: the four tables of the paper's appendix."""

TOO_EASY, TOO_HARD = 0.95, 0.55
MINIMUM_ROWS = 500


def select_datasets(
    reservoir: Iterable[Entry],
    baseline: Callable[[Entry], float],
    quotas: Mapping[tuple[str, bool], int] = QUOTAS,
) -> list[Entry]:
    """Select data sets as the paper did.

    Parameters
    ----------
    reservoir : iterable of Entry
        The candidates (the paper had 654). Those with fewer than 500 rows or more features than rows are left out, as
        the paper's text says.
    baseline : callable
        The AUC on held-out rows of a default LightGBM, see :func:`baseline_auc`. Asked only for candidates of a type
        that is still wanted, in the order of the algorithm.
    quotas : mapping of (scale, has categories) to int
        How many are enough of each type.

    Returns
    -------
    selected : list of Entry
        In ascending order of rows.
    """
    result: list[Entry] = []
    taken: Counter[tuple[str, bool]] = Counter()
    for entry in sorted(reservoir, key=lambda entry: entry.rows):
        if entry.rows < MINIMUM_ROWS or entry.features > entry.rows:
            continue
        kind = (entry.scale, entry.categorical > 0)
        if taken[kind] >= quotas.get(kind, 0):
            continue
        score = baseline(entry)
        if score > TOO_EASY or score < TOO_HARD:
            continue
        result.append(entry)
        taken[kind] += 1
    return result


def baseline_auc(table: Table, seed: int = 0) -> float:
    """AUC of a default LightGBM, trained on two thirds of a binary table, on the other third."""
    from experiments.methods import get_method
    from experiments.metrics import area_under_curve
    from experiments.splits import untuned_parts

    parts = untuned_parts(table, seed)
    model = get_method("lightgbm").fit(table.task, parts.train.X, parts.train.y, {}, seed=seed, threads=1)
    return area_under_curve(parts.test.y, model.predict(parts.test.X))
