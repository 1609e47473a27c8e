"""Estimators to files and back."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

from unbiasedgbm._version import __version__
from unbiasedgbm.exceptions import ModelFileError, UnsavedParameterWarning
from unbiasedgbm.files import container, fields
from unbiasedgbm.files.document import model_from_dict, model_to_dict, to_json
from unbiasedgbm.files.values import classes_from_dict, classes_to_dict, from_plain, holds_unsaved, to_plain
from unbiasedgbm.parameters import check_parameters
from unbiasedgbm.training.splitting import SPLIT_RULES

FORMAT = "unbiasedgbm-model"
FORMAT_VERSION = 5

# A file may ask for threads, but not for a flood of them.
_MAX_THREADS = 4096

_KEYS = {
    "format", "format_version", "library_version", "estimator", "parameters", "split_rule", "classes", "table", "trees",
    "training", "history", "notes",
}  # fmt: skip

Note = str | int | float


def save_model(estimator: Any, path: str | os.PathLike[str], notes: Mapping[str, Note] | None = None) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : UnbiasedGBMClassifier or UnbiasedGBMRegressor
    path : path
        Gzipped if it ends with ``.gz``. The file is replaced in one step: a full disk or a crash leaves the old one.
    notes : mapping of text to text or finite numbers, default=None
        What a tool wants to find again with `load_notes`. They are the file's, not the estimator's.
    """
    kept = _read_notes({} if notes is None else notes)
    container.write(path, to_json({**estimator_to_dict(estimator), "notes": kept}))


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a file that `save_model` wrote.

    The file may come from anybody: nothing in it is run, and everything is checked before it is used.

    Parameters
    ----------
    path : path
        JSON, plain or gzipped.

    Returns
    -------
    UnbiasedGBMClassifier or UnbiasedGBMRegressor

    Raises
    ------
    ModelFileError
        If the file is damaged, is no model file, or was written by a newer version of the format.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier, load_model
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y)
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> model.save_model(path)
    >>> bool((load_model(path).predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    try:
        estimator = estimator_from_dict(container.read(path))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}.") from None
    lost = [name for name, value in estimator.get_params(deep=False).items() if holds_unsaved(value)]
    if lost:
        warnings.warn(
            f"{os.fspath(path)}: the file could not hold {', '.join(lost)}. Predictions do not need it (with a loss of "
            "your own they are raw predictions); set it with set_params() before fitting again.",
            UnsavedParameterWarning,
            stacklevel=2,
        )
    return estimator


def load_notes(path: str | os.PathLike[str]) -> dict[str, Note]:
    """Read the notes of a model file; older formats have none.

    Raises
    ------
    ModelFileError
        If the file is damaged, is no model file, or holds something else in their place.
    """
    try:
        data = container.read(path)
        _read_version(data)
        return _read_notes(data.get("notes", {}))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}.") from None


def estimator_to_dict(estimator: Any) -> dict[str, Any]:
    """All of a fitted estimator, with arrays where files have lists."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "estimator": _class_name(estimator),
        "parameters": {name: to_plain(value) for name, value in estimator.get_params(deep=False).items()},
        "split_rule": estimator.split_rule_,
        "classes": classes_to_dict(estimator.classes_) if hasattr(estimator, "classes_") else None,
        **model_to_dict(estimator._model),
        "notes": {},
    }


def estimator_from_dict(data: dict[str, Any]) -> Any:
    """Fitted estimator from an untrusted document; raises ModelFileError."""
    try:
        return _read_estimator(data)
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError("it is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise ModelFileError(str(error).rstrip(".")) from None


def _read_version(data: dict[str, Any]) -> int:
    if data.get("format") != FORMAT:
        raise ModelFileError("it is no model file of UnbiasedGBM")
    version = fields.integer(data.get("format_version"), "format_version", 1, 2**31)
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it has format {version}, written by UnbiasedGBM {data.get('library_version')!s:.40}; this version "
            f"({__version__}) reads formats up to {FORMAT_VERSION}. Install a newer one"
        )
    return version


def _read_notes(data: Any) -> dict[str, Note]:
    notes = dict(fields.mapping(data, "notes"))
    for value in notes.values():
        if type(value) not in (str, int, float) or (type(value) is float and not math.isfinite(value)):
            raise ModelFileError("'notes' must hold text and finite numbers only")
    return notes


def _read_estimator(data: dict[str, Any]) -> Any:
    version = _read_version(data)
    fields.mapping(data, "file", _KEYS if version > 4 else _KEYS - {"notes"})
    _read_notes(data.get("notes", {}))
    if version < 2:
        data = _from_format_1(data)
    if version < 3:
        data = _from_format_2(data)
    if version < 4:
        data = _from_format_3(data)
    fields.text(data["library_version"], "library_version")
    estimator = _class(data["estimator"])(**_read_parameters(data["parameters"], _class(data["estimator"])))
    model = model_from_dict({key: data[key] for key in ("table", "trees", "training", "history")})
    if fields.text(data["split_rule"], "split_rule") not in SPLIT_RULES:
        raise ModelFileError("'split_rule' is unknown")
    if (data["classes"] is None) == hasattr(estimator, "predict_proba"):
        raise ModelFileError("'classes' must be there for a classifier, and for nothing else")
    if data["classes"] is not None:
        estimator.classes_ = classes_from_dict(data["classes"])
    if estimator._make_loss().n_outputs != model.n_outputs:
        raise ModelFileError("'n_outputs' does not fit the loss and the classes")
    return estimator._accept(model, data["split_rule"])


def _from_format_1(data: dict[str, Any]) -> dict[str, Any]:
    """A document of format 1, which knew of one chain of trees only, in format 2."""
    training = fields.mapping(data["training"], "training")
    n_outputs = fields.integer(training.get("n_outputs"), "n_outputs", 1, 2**16)
    return {
        **data,
        "parameters": {**fields.mapping(data["parameters"], "parameters"), "n_bags": 1},
        "training": {**training, "n_bags": 1, "start_squares": ["nan"] * n_outputs},
    }


def _from_format_2(data: dict[str, Any]) -> dict[str, Any]:
    """A document of format 2, which knew of no line, in format 3."""
    return {
        **data,
        "parameters": {**fields.mapping(data["parameters"], "parameters"), "linear_start": False},
        "training": {**fields.mapping(data["training"], "training"), "n_line": 0},
    }


def _from_format_3(data: dict[str, Any]) -> dict[str, Any]:
    """A document of format 3, which did not count what splits are worth, in format 4: as if they had just been."""
    training = fields.mapping(data["training"], "training")
    return {**data, "training": {**training, "worth": 0.0, "peak": training.get("n_iterations"), "peak_worth": 0.0}}


def _read_parameters(data: Any, cls: type) -> dict[str, Any]:
    """Parameters of an estimator; one that an older version did not have gets its default."""
    plain = fields.mapping(data, "parameters")
    table = cls._parameters  # type: ignore[attr-defined]
    unknown = set(plain) - {parameter.name for parameter in table}
    if unknown:
        raise ModelFileError(f"'parameters' has {min(unknown)!r:.80}, which this version does not know")
    values = {name: from_plain(value, name) for name, value in plain.items()}
    check_parameters(table, {name: value for name, value in values.items() if not holds_unsaved(value)})
    n_jobs = values.get("n_jobs")
    if n_jobs is not None:
        fields.integer(abs(n_jobs) if type(n_jobs) is int else n_jobs, "n_jobs", 1, _MAX_THREADS)
    return values


def _classes() -> dict[str, type]:
    from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor

    return {cls.__name__: cls for cls in (UnbiasedGBMClassifier, UnbiasedGBMRegressor)}


def _class(name: Any) -> type:
    known = _classes()
    if not isinstance(name, str) or name not in known:
        raise ModelFileError(f"'estimator' must be one of {', '.join(known)}")
    return known[name]


def _class_name(estimator: Any) -> str:
    """The name of the library's class, also of an estimator that inherits from it."""
    for cls in type(estimator).__mro__:
        if cls.__name__ in _classes() and _classes()[cls.__name__] is cls:
            return cls.__name__
    raise TypeError(f"save_model: cannot save a {type(estimator).__name__}.")
