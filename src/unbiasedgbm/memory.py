"""Memory: what the process holds, and what a fit will need."""

from __future__ import annotations

import os
from typing import Any

# Measured: copies of a column's sample that a helper thread leaves behind, and bytes of a node in all its arrays.
_SORT_COPIES = 8
_NODE_BYTES = 75


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
        Size of the table; features of at most 255 categories count as any other.
    n_classes : int, default=2
        1 for regression. With more than two, every class has raw predictions of its own.
    **params
        Parameters of the estimator: ``num_leaves``, ``split_rule``, ``n_jobs`` and ``n_estimators`` matter.

    Returns
    -------
    int
        Bytes. Where trees have far fewer splits than ``num_leaves`` allows, less is needed.

    Examples
    --------
    >>> from unbiasedgbm import estimate_memory
    >>> estimate_memory(1_000_000, 28, n_jobs=2) < 200e6
    True
    """
    from unbiasedgbm.binning import SAMPLE_ROWS, STRIDE
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS, check_parameters
    from unbiasedgbm.threads import effective_n_jobs
    from unbiasedgbm.training.roles import n_roles
    from unbiasedgbm.training.workspace import HIST_BYTES

    table = {parameter.name: parameter for parameter in (*CLASSIFIER_PARAMETERS, *REGRESSOR_PARAMETERS)}
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
    # class numbers, role, packed gradient, two row numbers; raw prediction and two derivatives of each output
    rows = (8 * (n_classes > 1) + 1 + 8 + 4 + 4) * n_rows + (8 + 4 + 4) * n_rows * n_outputs
    # as if every leaf waited for its turn with its histogram
    histogram = 8 * n_roles(values["split_rule"]) * STRIDE * n_features
    n_slots = min(max(2, values["num_leaves"]), max(4, HIST_BYTES // histogram))
    histograms = histogram * (n_slots + n_threads - 1)
    # quantiles sort samples of columns, and the allocator of a thread keeps what it has once had
    sorting = 8 * _SORT_COPIES * min(n_rows, SAMPLE_ROWS) * min(n_threads - 1, n_features)
    nodes = 2 * min(values["num_leaves"], max(2, n_rows // values["min_samples_leaf"]))
    trees = _NODE_BYTES * nodes * values["n_estimators"] * n_outputs
    return int(bins + rows + histograms + sorting + trees)
