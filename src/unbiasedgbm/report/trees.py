"""Trees for browsing: the first ones, as many as a page can carry."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm.export.parts import feature_labels, node_sets, trees_and_schema

_MAX_NODES = 6000
_LEVELS_SHOWN = 6


def tree_pages(model: Any) -> dict[str, Any]:
    """The first trees as nested lists.

    Returns
    -------
    dict
        ``n_trees`` in all, and ``shown``: for each tree its ``output`` and its ``nodes``, every one of them
        ``[left, test, cover, value, missing goes left, score]``; left is −1 for a leaf, whose test is empty.
    """
    trees, schema = trees_and_schema(model)
    names, sets = feature_labels(schema), node_sets(trees)
    ends = trees.tree_start[1:]
    n_shown = max(1, int(np.searchsorted(ends, _MAX_NODES, side="right"))) if trees.n_trees else 0
    shown = []
    for t in range(min(n_shown, trees.n_trees)):
        nodes = []
        for node in range(int(trees.tree_start[t]), int(trees.tree_start[t + 1])):
            left = int(trees.left[node])
            test, missing_left = "", False
            if left >= 0:
                j = int(trees.feature[node])
                if node in sets:
                    table = schema.categories[j] or ()
                    inside = [str(v) for v, goes_left in zip(table, sets[node][1:], strict=False) if goes_left]
                    more = f", … ({len(inside)})" if len(inside) > _LEVELS_SHOWN else ""
                    test = f"{names[j]} in {{{', '.join(inside[:_LEVELS_SHOWN])}{more}}}"
                    missing_left = bool(sets[node][0])
                elif trees.threshold[node] == -np.inf:
                    test, missing_left = f"{names[j]} is missing", True
                else:
                    test = f"{names[j]} ≤ {trees.threshold[node]:.6g}"
                    missing_left = bool(trees.missing_left[node])
            nodes.append(
                [
                    left, test, float(trees.cover[node]), float(f"{trees.value[node]:.4g}"), int(missing_left),
                    float(f"{trees.score[node]:.4g}"),
                ]
            )  # fmt: skip
        shown.append({"output": int(trees.output[t]), "nodes": nodes})
    return {"n_trees": trees.n_trees, "shown": shown}
