"""Data, models and slow twins shared by the tests of the importance."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
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
    groups: dict[str, list[int]] | None = None,
    paper_sums: bool = False,
) -> tuple[Any, Any]:
    """Importance and standard errors, split by split, straight from the formulas.

    Parameters
    ----------
    tables : X_train, y_train, X_val, y_val

    Returns
    -------
    importance, se : ndarray of shape (n_features + n_groups,)
    """
    train, held = _sides(model, tables, weights, offsets)
    mass, n_features = train.weight.sum(), len(model.feature_names)
    paper_sums = paper_sums or model.averaged
    sets = [{s} for s in range(n_features)] + [set(members) for members in (groups or {}).values()]
    importance, psi = np.zeros(len(sets)), np.zeros((len(held.y), len(sets)))
    taken_out: dict[frozenset[int], Any] = {}
    iterations = sorted({tree.iteration for tree in model.trees})
    for iteration in iterations:
        numbers = [t for t, tree in enumerate(model.trees) if tree.iteration == iteration]
        before = {unit: held.start + moved for unit, moved in taken_out.items()}
        full = held.raw.copy(), train.raw.copy()
        for t in numbers:
            tree = model.trees[t]
            means = node_means(tree, train, t)
            for v in np.flatnonzero(tree.is_split):
                own = frozenset(model.sources[tree.source[v]])
                for column, members in enumerate(sets):
                    if not own & members:
                        continue
                    unit = own if column < n_features else frozenset(members)
                    raw = full[0] if paper_sums else before.get(unit, full[0])
                    share = len(own & members) / len(own)
                    for position, output in enumerate(tree.outputs):
                        g, h = _gradients(model, held, raw, output)
                        pull, scale = (
                            -_weight_below(tree, train, t) * (means[:, position] - means[v, position]),
                            1 / mass,
                        )
                        masses = held.weight
                        if paper_sums:
                            g_train, _ = _gradients(model, train, full[1], output)
                            pull = rows_inside(tree, train, t) @ g_train
                            scale, masses = tree.share / (2 * mass), h
                        score, contributions = judge(tree, int(v), held, t, g, masses, pull, min_rows)
                        importance[column] += share * scale * score
                        psi[:, column] += share * scale * contributions
        for t in numbers:
            tree = model.trees[t]
            means = node_means(tree, train, t)
            for unit in {frozenset(s) for s in model.sources} | {frozenset(s) for s in sets[n_features:]}:
                found = taken_out.setdefault(unit, np.zeros_like(held.raw))
                found[:, list(tree.outputs)] += value_without(model, tree, means, held.nodes[:, t], unit)
            for side in (train, held):
                side.raw[:, list(tree.outputs)] += tree.value[side.nodes[:, t]]
    if paper_sums:
        return importance, np.sqrt((psi**2).sum(axis=0))
    share = realised(model, train)
    return share * importance, share * np.sqrt((psi**2).sum(axis=0))


def realised(model: TreeModel, train: Any) -> float:
    """Training loss that the model takes away, over what the slope at the beginning promises."""

    def slope(place: float) -> float:
        way = train.raw - train.start
        raw = train.start + place * way
        return sum((_gradients(model, train, raw, k)[0] * way[:, k]).sum() for k in range(model.n_outputs))

    places = np.linspace(0.0, 1.0, 301)
    slopes = np.array([slope(place) for place in places])
    return float(np.clip(np.trapezoid(slopes, places) / slopes[0], 0.0, 1.0)) if slopes[0] < 0 else 0.5


def _sides(model: TreeModel, tables: Any, weights: Any, offsets: Any) -> list[Any]:
    """Training and held-out rows: targets, weights, start values, raw predictions so far and leaves."""
    sides = []
    X_train, y_train, X_val, y_val = tables
    for X, y, weight, offset in ((X_train, y_train, weights[0], offsets[0]), (X_val, y_val, weights[1], offsets[1])):
        rows, encoded = model.bind(X, 1), model.encode(y)
        start = rows.base() + (0 if offset is None else np.asarray(offset).reshape(rows.base().shape))
        weight = np.ones(len(encoded)) if weight is None else np.asarray(weight, dtype=float)
        nodes = rows.nodes(0, len(model.trees))
        sides.append(SimpleNamespace(y=encoded, weight=weight, start=start, raw=start.copy(), nodes=nodes, inside={}))
    if model.class_weight is not None:
        by_class = model.class_weight(sides[0].y, None)
        for side in sides:
            side.weight = side.weight * by_class[side.y.astype(int)]
    return sides


def _nodes(tree: Tree) -> range:
    return range(len(tree.left))


def _weight_below(tree: Tree, train: Any, t: int) -> Any:
    return rows_inside(tree, train, t) @ train.weight


def rows_inside(tree: Tree, side: Any, t: int) -> Any:
    """Whether each row passes through each node of tree ``t``, shape (n_nodes, n_rows)."""
    if t not in side.inside:
        side.inside[t] = np.array([below(tree, u, side.nodes[:, t]) for u in _nodes(tree)])
    return side.inside[t]


def node_means(tree: Tree, train: Any, t: int) -> Any:
    """Mean value of the leaves below each node, by training weight, shape (n_nodes, outputs of the tree)."""
    weight = _weight_below(tree, train, t)

    def mean(v: int) -> Any:
        if tree.left[v] < 0:
            return tree.value[v]
        sides = [mean(int(c)) for c in (tree.left[v], tree.right[v])]
        at = [weight[tree.left[v]], weight[tree.right[v]]]
        return np.average(sides, axis=0, weights=at if sum(at) > 0 else None)

    return np.array([mean(v) if tree.depth[v] >= 0 else np.zeros(len(tree.outputs)) for v in _nodes(tree)])


def value_without(model: TreeModel, tree: Tree, means: Any, leaves: Any, unit: frozenset[int]) -> Any:
    """What a tree adds to each row as far as no feature of the unit is asked: down to its first split on one."""
    end = {}
    for leaf in np.unique(leaves):
        end[leaf], u = leaf, int(leaf)
        while tree.parent[u] >= 0:
            u = int(tree.parent[u])
            if unit & set(model.sources[tree.source[u]]):
                end[leaf] = u
    return np.array([means[end[leaf]] for leaf in leaves])


def _gradients(model: TreeModel, side: Any, raw: Any, output: int) -> tuple[Any, Any]:
    g, h = model.loss.gradients(side.y, raw[:, 0].copy() if model.loss.n_outputs == 1 else raw)
    g, h = g.reshape(len(raw), -1)[:, output], h.reshape(len(raw), -1)[:, output]
    return g * side.weight, h * side.weight


def judge(tree: Tree, v: int, held: Any, t: int, g: Any, masses: Any, pull: Any, min_rows: int) -> tuple[float, Any]:
    """Score of one split and what each row adds to it, both without their scale."""
    family = (v, int(tree.left[v]), int(tree.right[v]))
    rows = [rows_inside(tree, held, t)[u] & (held.weight > 0) for u in family]
    k, own = min(rows[1].sum(), rows[2].sum()), np.zeros(len(g))
    observed = [_observed(tree, u, held, t, masses) for u in family]
    if k < 2 or min(observed[1:]) < min_rows - 0.5:
        return 0.0, own
    # pull that sums to zero over the children has no part in the parent
    ours = abs(pull[family[1]] + pull[family[2]] - pull[v]) > 1e-9 * abs(pull[list(family)]).max()
    pulls = [0.0 if ours else pull[v], pull[family[1]], pull[family[2]]]
    score, per_g = 0.0, []
    for sign, P, inside, n_eff in zip((-1.0, 1.0, 1.0), pulls, rows, observed, strict=True):
        n, gs, ms = inside.sum(), g[inside], masses[inside]
        r0 = gs.sum() / ms.sum()
        r = r0 + (1 / k - 1 / n) * (r0 * np.var(ms, ddof=1) - np.cov(gs, ms)[0, 1]) / ms.mean() ** 2
        score += sign * P * r
        per_g.append(P / ms.sum() * np.sqrt(n_eff / (n_eff - 1)))
        own[inside] += sign * per_g[-1] * (gs - r0 * ms)
    residuals = [g[i] - g[i].sum() / masses[i].sum() * masses[i] for i in rows[1:]]
    variance = (np.concatenate(residuals) ** 2).mean()
    pooled = sum((w - per_g[0]) ** 2 * inside.sum() * variance for w, inside in zip(per_g[1:], rows[1:], strict=True))
    return score, own * max(1.0, np.sqrt(pooled / (own**2).sum()) if own.any() else 1.0)


def _observed(tree: Tree, v: int, held: Any, t: int, masses: Any) -> float:
    """Rows of a node, or fewer if here or above a few rows have most of the mass."""
    share, u = 1.0, v
    while u >= 0:
        inside = rows_inside(tree, held, t)[u] & (held.weight > 0)
        share = min(
            share, masses[inside].sum() ** 2 / (masses[inside] ** 2).sum() / inside.sum() if inside.any() else 0
        )
        u = int(tree.parent[u])
    return share * (rows_inside(tree, held, t)[v] & (held.weight > 0)).sum()


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
