"""Make the pictures of reading.md; run from anywhere: python docs/importance/make_pictures.py."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import matplotlib as mpl
import numpy as np
import pandas as pd

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from validate import model_of, toy  # noqa: E402

from unbiasedgbm.importance import compare_importances, gain_importance, unbiased_gain  # noqa: E402

BLUE, GREY, RED = "#2b6cb0", "#a0aec0", "#c05621"


def gain_and_unbiased_gain(n_repeats: int = 200) -> None:
    """The paper's toy data: gain puts the two useless features first, unbiased gain does not."""
    names = ("X1\nbinary, matters", "X2\nsix levels, noise", "X3\ncontinuous, noise")
    panels: dict[str, list[Any]] = {
        "gain (read from the model)": [],
        "unbiased gain, 1 tree": [],
        "unbiased gain, 100 trees": [],
    }
    for seed in range(n_repeats):
        X, y = toy(seed, 4000, "squared", strength=0.2)
        for n_trees in (1, 100):
            model = model_of("lightgbm", "squared", n_trees).fit(X[:2000], y[:2000])
            result = unbiased_gain(model, X[:2000], y[:2000], X[2000:], y[2000:], n_jobs=1)
            panels[f"unbiased gain, {n_trees} tree{'s' * (n_trees > 1)}"].append(result.importance)
        panels["gain (read from the model)"].append(gain_importance(model).importance)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.1), layout="constrained")
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        boxes = ax.boxplot(np.array(rows), tick_labels=names, patch_artist=True, showfliers=False, widths=0.6)
        for patch, colour in zip(boxes["boxes"], (BLUE, GREY, GREY), strict=True):
            patch.set_facecolor(colour)
        for line in boxes["medians"]:
            line.set_color("black")
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set_title(title, fontsize=10)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "gain_and_unbiased_gain.png", dpi=110)


def many_trees(n_repeats: int = 60, n_trees: int = 100) -> None:
    """What the features have earned after each tree, by the paper's sums and by ours."""
    so_far: dict[bool, list[Any]] = {True: [], False: []}
    for seed in range(n_repeats):
        X, y = toy(seed, 2000, "squared", strength=0.5)
        model = model_of("lightgbm", "squared", n_trees).fit(X[:1000], y[:1000])
        for paper_sums, curves in so_far.items():
            tables = X[:1000], y[:1000], X[1000:], y[1000:]
            result = unbiased_gain(model, *tables, paper_sums=paper_sums, n_jobs=1)
            curves.append(np.cumsum(result.per_tree, axis=0))
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.1), layout="constrained")
    for ax, title, found in zip(axes, ("the paper's sums", "unbiased gain"), so_far.values(), strict=True):
        for j, (name, colour) in enumerate((("X1, matters", BLUE), ("X2, noise", GREY), ("X3, noise", RED))):
            curves = np.array(found)[:, :, j]
            ax.plot(np.arange(1, n_trees + 1), curves.mean(axis=0), color=colour, label=name)
            band = np.quantile(curves, [0.1, 0.9], axis=0)
            ax.fill_between(np.arange(1, n_trees + 1), *band, color=colour, alpha=0.15, linewidth=0)
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set_title(title, fontsize=10)
        ax.set(xlabel="trees", ylabel="so far")
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, fontsize=8)
    figure.savefig(HERE / "many_trees.png", dpi=110)


def disagreement() -> None:
    """One table with everything that makes importances disagree."""
    rng = np.random.default_rng(4)
    n = 3000
    signal = rng.normal(size=n)
    flag = rng.integers(0, 2, n)
    X = pd.DataFrame(
        {
            "signal": signal,
            "twin of signal": signal + 0.05 * rng.normal(size=n),
            "flag": flag,
            "zip code (noise)": pd.Categorical(rng.integers(0, 300, n), categories=range(300)),
            "row id (noise)": rng.permutation(n).astype(float),
            "noise": rng.normal(size=n),
        }
    )
    y = (1.2 * signal + 0.8 * flag + rng.logistic(size=n) > 0.4).astype(int)
    # Categories this rare are what LightGBM warns against; that is the point.
    model = lightgbm.LGBMClassifier(
        n_estimators=100, num_leaves=16, learning_rate=0.1, min_data_per_group=20, cat_smooth=5.0, n_jobs=1, verbose=-1
    ).fit(X[:1800], y[:1800])
    comparison = compare_importances(model, X[:1800], y[:1800], X[1800:], y[1800:])
    figure = comparison.plot()
    figure.set_size_inches(14.5, 2.6)
    figure.savefig(HERE / "disagreement.png", dpi=90)
    print(comparison.to_frame().T.to_string())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gain_and_unbiased_gain()
    many_trees()
    disagreement()
