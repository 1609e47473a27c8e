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

    def prepare(self, X: pd.DataFrame, path: Path, reference: pd.DataFrame | None = None) -> pd.DataFrame:
        """The table as the library wants it; levels of text are numbered as in ``reference``, by default ``X``."""
        X, reference = (self._columns(table, path) for table in (X, X if reference is None else reference))
        if self.library == "unbiasedgbm":
            return X
        text = reference.select_dtypes(exclude=["number", "bool"]).columns
        if self.library == "catboost":
            return X.assign(
                **{name: X[name].astype("object").where(X[name].notna(), "nan").astype(str) for name in text}
            )
        return X.astype({name: reference[name].astype("category").dtype for name in text})

    def encode(self, y: pd.Series, path: Path, reference: pd.Series) -> Any:
        """The target: some models know their labels, others want numbers of the labels of ``reference``, sorted."""
        knows = self.library == "unbiasedgbm" or len(getattr(self.model, "classes_", ()))
        if knows or pd.api.types.is_numeric_dtype(reference):
            return y.to_numpy()
        labels = np.unique(reference.astype(str))
        unknown = ~y.astype(str).isin(labels)
        if unknown.any():
            raise CommandError(f"{path} has the label {y[unknown].iloc[0]!r}, which the training table does not have.")
        return np.searchsorted(labels, y.astype(str).to_numpy(dtype=str)).astype(np.float64)

    def _columns(self, table: pd.DataFrame, path: Path) -> pd.DataFrame:
        if self.feature_names is None:
            return table
        if self.library == "lightgbm":
            # LightGBM writes "_" for a space
            renamed = {name: name.replace(" ", "_") for name in map(str, table.columns)}
            table = table.rename(columns={old: new for old, new in renamed.items() if new not in table})
        return columns_of_model(table, self.feature_names, path)


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
