"""Model files of any library that importance can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unbiasedgbm.categories import Level
from unbiasedgbm.cli.tables import CommandError, as_levels, columns_of_model, read_table, text_columns
from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import container
from unbiasedgbm.files.model_file import load_model

# Rows by which the spelling of True and False is found.
_PROBED_ROWS = 2000
_SPELLINGS: tuple[dict[bool, Any], ...] = (
    {True: True, False: False},
    {True: "True", False: "False"},
    {True: "true", False: "false"},
    {True: "TRUE", False: "FALSE"},
)


@dataclass(frozen=True)
class AnyModel:
    """A trained model of some library."""

    model: Any
    library: str
    feature_names: list[str] | None

    def read_table(self, path: Path, target: str | None = None, like: pd.DataFrame | None = None) -> pd.DataFrame:
        """A table for the model, whose columns are of the type that they had in the training.

        Parameters
        ----------
        path : Path
        target : str or None
            The column to predict, if there is one.
        like : DataFrame or None
            The training table, if this is another one: models of other libraries do not say what was text.
        """
        if self.library != "unbiasedgbm":
            return read_table(path, () if like is None else text_columns(like))
        levels = self._levels(path, target)
        text = [name for name, known in levels.items() if any(isinstance(level, str) for level in known)]
        table = read_table(path, text)
        for name in levels:
            if name in table:
                table[name] = as_levels(table[name], levels[name])
        return table

    def _levels(self, path: Path, target: str | None) -> dict[str, tuple[Level, ...]]:
        """Levels of the categorical columns, and the classes if they are text, by name."""
        schema = self.model._model.schema
        names = schema.feature_names
        if names is None and schema.is_categorical.any():
            names = [name for name in read_table(path).columns if name != target]
        pairs = zip(names or (), schema.categories, strict=False)
        levels = {name: known for name, known in pairs if known is not None}
        classes = tuple(getattr(self.model, "classes_", np.empty(0)).tolist())
        if target is not None and classes and all(isinstance(label, str) for label in classes):
            levels[target] = classes
        return levels

    def prepare(self, X: pd.DataFrame, path: Path, reference: pd.DataFrame | None = None) -> pd.DataFrame:
        """The table as the library wants it; levels of text are numbered as in ``reference``, by default ``X``."""
        X, reference = (self._columns(table, path) for table in (X, X if reference is None else reference))
        if self.library == "unbiasedgbm":
            return X
        text = text_columns(reference)
        if self.library == "catboost":
            return self._prepare_for_catboost(X, reference, text)
        return X.astype({name: reference[name].astype("category").dtype for name in text})

    def _prepare_for_catboost(self, X: pd.DataFrame, reference: pd.DataFrame, text: pd.Index) -> pd.DataFrame:
        """Text without gaps; booleans as text if they were that in the training, of which a CSV file says nothing."""
        X, reference = X.copy(), reference.copy()
        for table in (X, reference):
            for name in text:
                table[name] = table[name].astype("object").where(table[name].notna(), "nan").astype(str)
        for name in (self.model.feature_names_[j] for j in self.model.get_cat_feature_indices()):
            if pd.api.types.is_bool_dtype(reference[name]) and pd.api.types.is_bool_dtype(X[name]):
                X[name] = X[name].map(self._spelling(reference, name))
        return X

    def _spelling(self, reference: pd.DataFrame, name: str) -> dict[bool, Any]:
        """What True and False of a category are to a CatBoost model: it answers otherwise than to a level unknown."""
        rows = reference.iloc[:: -(-len(reference) // _PROBED_ROWS)].copy()
        truth, answers = rows[name], []
        for spelling in (*_SPELLINGS, dict.fromkeys((True, False), "\0")):
            rows[name] = truth.map(spelling)
            answers.append(self.model.predict(rows, prediction_type="RawFormulaVal"))
        return next((s for s, a in zip(_SPELLINGS, answers, strict=False) if (a != answers[-1]).any()), _SPELLINGS[0])

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
