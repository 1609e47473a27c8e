"""All nodes of a model as one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm.export.parts import feature_labels, node_sets, trees_and_schema


def to_frame(model: Any, backend: str = "pandas") -> Any:
    """Table with one row a node.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"

    Returns
    -------
    data frame
        ``tree``, ``output`` (which raw prediction the tree adds to), ``node`` and ``depth`` (the root is 0 in both),
        ``left`` and ``right`` (children; -1 at leaves), ``feature`` (None at leaves), ``threshold`` (rows ≤ it go left;
        NaN where there is none), ``levels`` (levels that go left, as text; None for other nodes), ``missing_left``,
        ``value`` (what a leaf adds to the raw prediction), ``cover`` (training rows) and ``score`` (what the split, or
        a leaf's best candidate, was judged by).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y)
    >>> from unbiasedgbm.export import to_frame
    >>> bool(len(to_frame(model)) >= 10)
    True
    """
    from unbiasedgbm.importance.result import frame_from_columns

    trees, schema = trees_and_schema(model)
    names = feature_labels(schema)
    sizes = np.diff(trees.tree_start)
    first = np.repeat(trees.tree_start[:-1], sizes)
    inner = trees.left >= 0
    sets = node_sets(trees)
    levels: list[str | None] = [None] * trees.n_nodes
    missing_left = trees.missing_left.copy()
    for node, bits in sets.items():
        table = schema.categories[int(trees.feature[node])] or ()
        levels[node] = ", ".join(str(level) for level, goes_left in zip(table, bits[1:], strict=False) if goes_left)
        missing_left[node] = bits[0]
    numeric = inner & (trees.set_start < 0)
    columns = {
        "tree": np.repeat(np.arange(trees.n_trees), sizes),
        "output": np.repeat(trees.output, sizes),
        "node": np.arange(trees.n_nodes) - first,
        "depth": trees.depth,
        "left": trees.left,
        "right": np.where(inner, trees.left + 1, -1),
        "feature": [names[j] if j >= 0 else None for j in trees.feature.tolist()],
        "threshold": np.where(numeric, trees.threshold, np.nan),
        "levels": levels,
        "missing_left": missing_left,
        "value": trees.value,
        "cover": trees.cover,
        "score": trees.score,
    }
    return frame_from_columns(columns, backend)
