"""Model files of any library that importance can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unbiasedgbm.cli.tables import CommandError, columns_of_model
from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import container
from unbiasedgbm.files.model_file import load_model


@dataclass(frozen=True)
class AnyModel:
    """A trained model of some library."""

    model: Any
    library: str
    feature_names: list[str] | None

    def prepare(self, X: pd.DataFrame, path: Path) -> pd.DataFrame:
        """The table as the library wants it."""
        X = X if self.feature_names is None else columns_of_model(X, self.feature_names, path)
        if self.library == "unbiasedgbm":
            return X
        text = X.select_dtypes(exclude=["number", "bool"]).columns
        if self.library == "catboost":
            return X.assign(
                **{name: X[name].astype("object").where(X[name].notna(), "nan").astype(str) for name in text}
            )
        return X.astype(dict.fromkeys(text, "category"))

    def encode(self, y: pd.Series) -> Any:
        """The target: our estimators know their labels, boosters of other libraries want class numbers."""
        if self.library == "unbiasedgbm" or pd.api.types.is_numeric_dtype(y):
            return y.to_numpy()
        return np.unique(y.astype(str), return_inverse=True)[1].astype(np.float64)


def read_any_model(path: Path) -> AnyModel:
    """Read a model file of ours, of XGBoost (.json, .ubj), LightGBM (.txt) or CatBoost (.cbm)."""
    if not path.exists():
        raise CommandError(f"There is no file {path}.")
    name = path.name.lower()
    try:
        if name.endswith((".json", ".json.gz", ".gz")) and _is_ours(path):
            model = load_model(path)
            names = getattr(model, "feature_names_in_", None)
            return AnyModel(model, "unbiasedgbm", None if names is None else [str(name) for name in names])
        if name.endswith((".json", ".ubj")):
            import xgboost

            booster = xgboost.Booster(model_file=str(path))
            return AnyModel(booster, "xgboost", booster.feature_names)
        if name.endswith(".txt"):
            import lightgbm

            gbm = lightgbm.Booster(model_file=str(path))
            return AnyModel(gbm, "lightgbm", gbm.feature_name())
        if name.endswith(".cbm"):
            import catboost

            cat = catboost.CatBoost().load_model(str(path))
            return AnyModel(cat, "catboost", cat.feature_names_)
    except ModuleNotFoundError as error:
        raise CommandError(f"{path} needs {error.name}: pip install {error.name}") from error
    except ModelFileError as error:
        raise CommandError(str(error)) from error
    except Exception as error:
        raise CommandError(f"{path} cannot be read as a model: {error}") from error
    raise CommandError(
        f"{path}: known are .json and .json.gz (ours), .json and .ubj (XGBoost), .txt (LightGBM), .cbm (CatBoost)."
    )


def _is_ours(path: Path) -> bool:
    """Whether a JSON file calls itself a model of ours; a damaged one of ours does, too."""
    with path.open("rb") as file:
        start = file.read(64)
    if start[:2] == b"\x1f\x8b":
        return True
    return container.FIRST_BYTES in start
