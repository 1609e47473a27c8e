"""Memory: what the process holds, and what a fit will need."""

from __future__ import annotations

import math
import os
from typing import Any

# Measured: copies of a column's sample that a helper thread leaves behind, bytes of a node in all its arrays, and rows
# of the smallest role to one leaf that waits to be split, in units of `min_samples_leaf`, by task.
_SORT_COPIES = 3
_NODE_BYTES = 75
_WAITING_ROWS = (6, 8)  # regression, classification
# Leaves of few rows have no histogram; the others have so many times as many rows as the smallest of them.
_LARGE_LEAVES = 3.0


def resident_bytes() -> int:
    """Memory that this process holds now, in bytes."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import psutil
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Watching memory on this system needs psutil: pip install psutil.") from error
    return int(psutil.Process().memory_info().rss)


def estimate_memory(n_rows: int, n_features: int, *, n_classes: int = 2, **params: Any) -> int:
    """Memory that a fit needs at its peak, beyond the table and the target that it is given.

    Parameters
    ----------
    n_rows, n_features : int
        Size of the table; features of at most 255 categories count as any other, though their levels may take a line
        up to 80 MB more.
    n_classes : int, default=2
        1 for regression. With more than two, every class has raw predictions of its own.
    **params
        Parameters of the estimator: ``num_leaves``, ``min_samples_leaf``, ``split_rule``, ``role_ratio``, ``n_jobs``,
        ``n_estimators``, ``n_bags`` and ``linear_start`` matter.

    Returns
    -------
    int
        Bytes. Where trees have far fewer splits than their rows allow, less is needed: without signal, or with
        ``split_rule="separate"`` and hundreds of leaves.

    Examples
    --------
    >>> from unbiasedgbm import estimate_memory
    >>> estimate_memory(1_000_000, 28, n_jobs=2) < 400e6
    True
    """
    from unbiasedgbm.binning import COLUMNS_BYTES, SAMPLE_ROWS, STRIDE
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS, check_parameters
    from unbiasedgbm.threads import effective_n_jobs
    from unbiasedgbm.training.defaults import DEFAULT_BAGS, most_leaves, rule_and_leaf
    from unbiasedgbm.training.line import LINE_ROWS, MOST_FEATURES, MOST_TREES
    from unbiasedgbm.training.roles import role_shares
    from unbiasedgbm.training.splitting import FEW_ROWS, FEW_SEARCH
    from unbiasedgbm.training.workspace import HIST_BYTES, count_lanes, team_size

    parameters = REGRESSOR_PARAMETERS if n_classes == 1 else CLASSIFIER_PARAMETERS
    table = {parameter.name: parameter for parameter in parameters}
    unknown = set(params) - set(table)
    if unknown:
        raise TypeError(f"estimate_memory: {min(unknown)!r} is not a parameter of the estimators.")
    check_parameters(tuple(table.values()), params)
    if n_rows < 1 or n_features < 1 or n_classes < 1:
        raise ValueError("n_rows, n_features and n_classes must be at least 1.")
    values = {name: params.get(name, parameter.default) for name, parameter in table.items()}
    n_threads = effective_n_jobs(values["n_jobs"])
    n_outputs = n_classes if n_classes > 2 else 1

    bins = 8 * ((n_features + 7) // 8) * n_rows
    if bins >= COLUMNS_BYTES:
        bins += n_features * n_rows
    loss = str(values["loss"]) if n_classes == 1 else "log_loss" if n_outputs == 1 else "multiclass_log_loss"
    ratio, asked = values["role_ratio"], values["min_samples_leaf"]
    rule, min_samples = rule_and_leaf(values["split_rule"], ratio, n_rows, asked, loss)
    num_leaves = most_leaves(values["num_leaves"], rule, n_rows, loss)
    n_bags = values["n_bags"] or DEFAULT_BAGS[rule]
    n_lanes = count_lanes(n_rows, n_features, n_bags, n_threads)
    # class numbers, raw predictions, of bags, too; of each lane role, packed gradient, two row numbers, two derivatives
    rows = 8 * (n_classes > 1) + 8 * n_outputs * (1 + n_bags * (n_bags > 1))
    rows = n_rows * (rows + n_lanes * (1 + 8 + 4 + 4 + (4 + 4) * n_outputs))
    shares = role_shares(rule, ratio)
    shares = shares[shares > 0]
    histogram = 8 * len(shares) * STRIDE * n_features
    n_slots = min(max(2, num_leaves), max(4, HIST_BYTES // (histogram * n_lanes)))
    # leaves that are large enough to be split by one wait with their histograms, besides two that have just been made;
    # memory of the others is never touched
    smallest = _WAITING_ROWS[n_classes > 1] * min_samples / float(shares.min())
    room = n_rows / max(smallest, _LARGE_LEAVES * min(FEW_SEARCH / float(shares[0]), FEW_ROWS))
    waiting = 2 + math.ceil(room * -math.expm1(-num_leaves / room))
    n_members = team_size(n_rows, n_threads // n_lanes)
    histograms = histogram * n_lanes * (min(n_slots, waiting) + n_members - 1)
    # quantiles sort samples of columns, and the allocator of a thread keeps what it has once had
    sorting = 8 * _SORT_COPIES * min(n_rows, SAMPLE_ROWS) * min(n_threads - 1, n_features)
    nodes = 2 * min(num_leaves, max(2, n_rows // min_samples))
    trees = _NODE_BYTES * nodes * values["n_estimators"] * n_outputs * n_bags
    # a line is looked for before the first tree is grown
    looks = rule == "evidence" if values["linear_start"] is None else values["linear_start"]
    line = 0
    if looks and n_features <= MOST_FEATURES and n_features * n_outputs <= MOST_TREES:
        line = min(n_rows, LINE_ROWS) * (16 * n_features + 64) + histogram * min(n_slots, waiting, 32)
        trees += _NODE_BYTES * 128 * n_features * n_outputs
    return int(bins + rows + max(histograms, line) + sorting + trees)
