"""Parameters and class labels in a model file: data as it is, a note in place of what is code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import fields

_LABEL_TYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "str",
    "object",
}  # fmt: skip
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "b": (bool,), "i": (int,), "u": (int,), "f": (float,), "s": (str,), "o": (bool, int, float, str),
}  # fmt: skip


class Unsaved:
    """Stands where a function or another object was that a file cannot hold; calling it says so.

    Parameters
    ----------
    what : str
        Name of the object.
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<{self.what}: not saved in the model file>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unsaved) and other.what == self.what

    def __hash__(self) -> int:
        return hash(self.what)

    def __call__(self, *arguments: Any) -> Any:
        """Say what is missing."""
        raise ValueError(f"A model file could not hold {self.what}; set the parameter again with set_params().")


def to_plain(value: Any) -> Any:
    """A parameter's value as JSON can hold it.

    Lists, tuples, sets and arrays become lists, mappings ``{"mapping": [[key, value], …]}``, infinite numbers
    ``{"number": "inf"}``, anything else ``{"unsaved": name}``.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, set | frozenset):
        return sorted((to_plain(entry) for entry in value), key=repr)
    if isinstance(value, list | tuple | np.ndarray):
        return [to_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {"mapping": [[to_plain(key), to_plain(entry)] for key, entry in value.items()]}
    if isinstance(value, Unsaved):
        return {"unsaved": value.what}
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return {"unsaved": f"{getattr(value, '__module__', None) or type(value).__module__}.{name}"}


def from_plain(value: Any, name: str) -> Any:
    """What `to_plain` was given, but for `Unsaved`; untrusted."""
    if isinstance(value, list):
        return [from_plain(entry, name) for entry in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ModelFileError(f"{name!r} holds an object of unknown kind")
    kind, content = next(iter(value.items()))
    if kind == "number":
        return fields.number(fields.text(content, name), name)
    if kind == "unsaved":
        return Unsaved(fields.text(content, name))
    if kind == "mapping":
        pairs = [fields.sequence(pair, name, 2) for pair in fields.sequence(content, name)]
        try:
            return {from_plain(key, name): from_plain(entry, name) for key, entry in pairs}
        except TypeError:
            raise ModelFileError(f"{name!r} has a mapping with a key that is none") from None
    raise ModelFileError(f"{name!r} holds an object of unknown kind")


def holds_unsaved(value: Any) -> bool:
    """Whether something in a parameter's value could not be saved."""
    if isinstance(value, list):
        return any(holds_unsaved(entry) for entry in value)
    if isinstance(value, dict):
        return any(holds_unsaved(entry) for entry in value.values())
    return isinstance(value, Unsaved)


def classes_to_dict(classes: npt.NDArray[Any]) -> dict[str, Any]:
    """Class labels and their type."""
    kind = {"U": "str", "O": "object", "T": "str"}.get(classes.dtype.kind, classes.dtype.name)
    labels = classes.tolist()
    if kind not in _LABEL_TYPES or any(type(label) not in (bool, int, float, str) for label in labels):
        raise TypeError(
            f"classes: labels of type {classes.dtype} cannot be saved in a model file; use text or numbers."
        )
    return {"dtype": kind, "labels": labels}


def classes_from_dict(data: Any) -> npt.NDArray[Any]:
    """Sorted, distinct labels, shape (n_classes,); untrusted."""
    data = fields.mapping(data, "classes", {"dtype", "labels"})
    kind, labels = fields.text(data["dtype"], "dtype"), fields.sequence(data["labels"], "labels")
    if kind not in _LABEL_TYPES or len(labels) < 2:
        raise ModelFileError("'classes' must have a known type and at least two labels")
    if any(type(label) not in _PYTHON_TYPES[kind[0]] for label in labels):
        raise ModelFileError(f"'labels' must all be of type {kind}")
    try:
        classes = np.array(labels, dtype=kind)
        ordered = len(labels) == len(np.unique(classes)) and bool((classes[:-1] < classes[1:]).all())
    except (TypeError, ValueError, OverflowError):
        ordered = False
    if not ordered or classes.tolist() != labels:
        raise ModelFileError("'labels' must be sorted, distinct and within the range of their type")
    return classes
