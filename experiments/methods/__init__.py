"""The methods of the study, one file each. To add one: write its class, and name it here."""

from __future__ import annotations

from experiments.methods.base import Fitted, Method
from experiments.methods.by_groups import ByGroups
from experiments.methods.catboost import CatBoost
from experiments.methods.chimeraboost import ChimeraBoost
from experiments.methods.evidence import Evidence
from experiments.methods.hist_gradient_boosting import HistGradientBoosting
from experiments.methods.lightgbm import LightGBM
from experiments.methods.merged import Merged
from experiments.methods.perpetual import Perpetual
from experiments.methods.separate_111 import Separate111
from experiments.methods.separate_411 import Separate411
from experiments.methods.standard import Standard
from experiments.methods.without_se import WithoutSE
from experiments.methods.without_ub import WithoutUB
from experiments.methods.xgboost import XGBoost

__all__ = ["METHODS", "RIVALS", "TUNED", "UNTUNED", "Fitted", "Method", "get_method", "title"]

METHODS: dict[str, Method] = {
    kind.name: kind()
    for kind in (
        Evidence,
        ByGroups,
        Merged,
        Separate111,
        Separate411,
        WithoutSE,
        WithoutUB,
        Standard,
        XGBoost,
        LightGBM,
        CatBoost,
        HistGradientBoosting,
        ChimeraBoost,
        Perpetual,
    )
}

RIVALS = ("catboost", "chimeraboost", "perpetual", "lightgbm", "xgboost", "hist_gradient_boosting")
"""The methods of other libraries in the untuned comparison."""

UNTUNED = ("unbiasedgbm", *RIVALS)
"""The seven of the untuned comparison."""

TUNED = tuple(name for name, method in METHODS.items() if method.tuned and name != "standard")
"""Everything that the tuned study runs."""


def get_method(name: str) -> Method:
    """Return a method by name."""
    try:
        return METHODS[name]
    except KeyError:
        raise KeyError(f"no method named {name!r}; there are {', '.join(METHODS)}") from None


def title(name: str) -> str:
    """Return how a method is called in figures; a variant's label stands for itself."""
    return METHODS[name].title if name in METHODS else name
