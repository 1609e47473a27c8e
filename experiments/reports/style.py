"""One look for all figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {
    "unbiasedgbm": "#c0392b",
    "merged": "#e67e22",
    "without_se": "#8e6c3a",
    "without_ub": "#b7950b",
    "separate_111": "#7d3c98",
    "separate_411": "#5d6d7e",
    "standard": "#909497",
    "catboost": "#2e86c1",
    "lightgbm": "#27ae60",
    "xgboost": "#16537e",
    "chimeraboost": "#17a589",
    "perpetual": "#85929e",
    "hist_gradient_boosting": "#566573",
    "shap": "#2e86c1",
    "permutation": "#27ae60",
    "gain": "#16537e",
    "unbiased_gain": "#c0392b",
    "paper_sums": "#e08e79",
}
OTHER_COLOUR = "#444444"
GROUP_TITLES = {
    "small_num": "small, numerical",
    "small_cat": "small, with categories",
    "medium_num": "medium, numerical",
    "medium_cat": "medium, with categories",
    "highdim": "high-dimensional",
    "multiclass": "multiclass",
    "regression": "regression",
    "large": "large",
}


def colour(name: str) -> str:
    """The colour of a method or an importance."""
    return COLOURS.get(name, OTHER_COLOUR)


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 4.2, height: float = 3.2) -> tuple[Any, Any]:
    """Return a figure and its axes as an array (rows, columns); `width` and `height` are those of one panel."""
    import matplotlib as mpl

    mpl.use("Agg")
    # A fixed salt and no date make equal figures equal files.
    mpl.rcParams.update({"svg.hashsalt": "unbiasedgbm", "font.size": 9, "axes.spines.top": False})
    mpl.rcParams.update({"axes.spines.right": False, "legend.frameon": False, "axes.titlesize": 9})
    import matplotlib.pyplot as plt

    size = (width * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def save(figure: Any, path: Path) -> Path:
    """Write a figure and forget it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return path
