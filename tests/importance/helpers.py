"""Data, models and slow twins shared by the tests of the importance."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from unbiasedgbm.ensemble.adapters import Tree, TreeModel


def mixed_table(n_rows: int = 700, seed: int = 0) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Numbers, missing values, a small and a larger category; targets for regression, two and four classes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "many": pd.Categorical(rng.integers(0, 30, n_rows).astype(str), categories=[str(i) for i in range(30)]),
            "few": pd.Categorical(rng.choice(["x", "y", "z"], n_rows), categories=["x", "y", "z"]),
            "gaps": np.where(rng.random(n_rows) < 0.3, np.nan, rng.normal(size=n_rows)),
        }
    )
    signal = X["a"].to_numpy() + 2.0 * (X["many"].astype(int).to_numpy() % 2) + (X["few"] == "x").to_numpy()
    noisy = signal + rng.normal(size=n_rows)
    quarters = np.digitize(noisy, np.quantile(noisy, [0.25, 0.5, 0.75]))
    targets = {
        "regression": noisy + 50.0,
        "binary": np.where(noisy > np.median(noisy), "yes", "no"),
        "multiclass": quarters,
        "numbers": (noisy > np.median(noisy)).astype(int),
        "positive": np.exp(0.3 * noisy),
    }
    return X, targets


def numeric(X: pd.DataFrame) -> Any:
    """The mixed table without categories and missing values."""
    return np.column_stack(
        [X["a"], X["many"].cat.codes, X["few"].cat.codes, np.nan_to_num(X["gaps"].to_numpy(), nan=-1.0)]
    ).astype(np.float64)


def twin_unbiased_gain(
    model: TreeModel,
    tables: tuple[Any, Any, Any, Any],
    *,
    min_rows: int = 5,
    weights: Any = (None, None),
    offsets: Any = (None, None),
) -> tuple[Any, Any]:
    """Importance and standard errors, split by split, straight from the formulas.

    Parameters
    ----------
    tables : X_train, y_train, X_val, y_val

    Returns
    -------
    importance, se : ndarray of shape (n_features,)
    """
    X_train, y_train, X_val, y_val = tables
    sides = []
    for X, y, weight, offset in ((X_train, y_train, weights[0], offsets[0]), (X_val, y_val, weights[1], offsets[1])):
        rows = model.bind(X, 1)
        encoded = model.encode(y)
        weight = np.ones(len(encoded)) if weight is None else np.asarray(weight, dtype=float)
        raw = rows.base().copy()
        if offset is not None:
            raw += np.asarray(offset).reshape(raw.shape)
        sides.append([rows.nodes(0, len(model.trees)), encoded, raw, weight])
    if model.class_weight is not None:
        by_class = model.class_weight(sides[0][1], None)
        for side in sides:
            side[3] = side[3] * by_class[side[1].astype(int)]
    mass = sides[0][3].sum()
    n_features = len(model.feature_names)
    importance, psi = np.zeros(n_features), np.zeros((len(sides[1][1]), n_features))
    before = None
    for t, tree in enumerate(model.trees):
        if before is None or tree.iteration != model.trees[t - 1].iteration:
            before = [side[2].copy() for side in sides]
        for output in tree.outputs:
            (g, _), (g_held, h_held) = (
                _gradients(model, side, raw, output) for side, raw in zip(sides, before, strict=True)
            )
            for v in np.flatnonzero(tree.is_split):
                family = (v, tree.left[v], tree.right[v], max(tree.parent[v], 0))
                _judge(
                    importance,
                    psi,
                    [below(tree, u, sides[0][0][:, t]) for u in family[:3]],
                    [below(tree, u, sides[1][0][:, t]) & (sides[1][3] > 0) for u in family],
                    (g, g_held, h_held),
                    model.sources[tree.source[v]],
                    tree.share / (2 * mass),
                    min_rows,
                )
        for side in sides:
            for position, output in enumerate(tree.outputs):
                side[2][:, output] += tree.value[side[0][:, t], position]
    return importance, np.sqrt((psi**2).sum(axis=0))


def _gradients(model: TreeModel, side: Any, raw: Any, output: int) -> tuple[Any, Any]:
    g, h = model.loss.gradients(side[1], raw[:, 0].copy() if model.loss.n_outputs == 1 else raw)
    g, h = g.reshape(len(raw), -1)[:, output], h.reshape(len(raw), -1)[:, output]
    return g * side[3], h * side[3]


def _judge(
    importance: Any, psi: Any, train: Any, held: Any, gradients: Any, features: Any, scale: float, min_rows: int
) -> None:
    g, g_held, h_held = gradients
    k = min(held[1].sum(), held[2].sum())
    if k < 2:
        return
    held, above = held[:3], held[3]
    share = [effective(h_held[rows]) / rows.sum() for rows in (above, *held)]
    observed = [min(share[up], share[at]) * held[at - 1].sum() for up, at in ((0, 1), (1, 2), (1, 3))]
    if min(observed[1:]) < min_rows - 0.5:
        return
    score, own = 0.0, np.zeros(len(psi))
    for sign, rows_train, rows_held, n_eff in zip((-1.0, 1.0, 1.0), train, held, observed, strict=True):
        n, G = rows_held.sum(), g[rows_train].sum()
        gs, hs = g_held[rows_held], h_held[rows_held]
        r0 = gs.sum() / hs.sum()
        r = r0 + (1 / k - 1 / n) * (r0 * np.var(hs, ddof=1) - np.cov(gs, hs)[0, 1]) / hs.mean() ** 2
        own[rows_held] += scale * sign * G * (gs - r0 * hs) / hs.sum() * np.sqrt(n_eff / (n_eff - 1))
        score += scale * sign * G * r
    own *= max(1.0, spread(own, held, train, (g, g_held, h_held), scale, observed))
    for j in features:
        importance[j] += score / len(features)
        psi[:, j] += own / len(features)


def effective(h: Any) -> float:
    """Rows of like mass that say as much."""
    return h.sum() ** 2 / (h**2).sum() if len(h) else 0.0


def spread(own: Any, held: Any, train: Any, gradients: Any, scale: float, observed: Any) -> float:
    """Root of the variance of a split if rows of both children spread alike, over the one that was found."""
    g, g_held, h_held = gradients
    weight = [
        scale * g[rows_train].sum() / h_held[rows_held].sum() * np.sqrt(n / (n - 1))
        for rows_train, rows_held, n in zip(train, held, observed, strict=True)
    ]
    residuals = [g_held[rows] - g_held[rows].sum() / h_held[rows].sum() * h_held[rows] for rows in held[1:]]
    variance = (np.concatenate(residuals) ** 2).mean()
    pooled = sum((w - weight[0]) ** 2 * rows.sum() * variance for w, rows in zip(weight[1:], held[1:], strict=True))
    return float(np.sqrt(pooled / (own**2).sum())) if own.any() else 1.0


def below(tree: Tree, top: int, nodes: Any) -> Any:
    """Whether each row's leaf lies below ``top``."""
    found = np.zeros(len(nodes), dtype=bool)
    current = nodes.copy()
    while (current >= 0).any():
        found |= current == top
        current = np.where(current >= 0, tree.parent[np.maximum(current, 0)], -1)
    return found


def load_validation() -> ModuleType:
    """The script docs/importance/validate.py as a module."""
    path = Path(__file__).parents[2] / "docs" / "importance" / "validate.py"
    spec = importlib.util.spec_from_file_location("validate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
