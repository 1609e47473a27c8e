"""Categories: which cells are one level, how levels are sorted, and how a column becomes level numbers.

One rule for all tables: two cells are the same level when Python calls them equal (``1``, ``1.0`` and ``True`` are,
``1`` and ``"1"`` are not). Levels are sorted, numbers before text, so neither the order of the rows nor the order of a
frame's own category codes matters.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Level = str | int | float | bool
HandleUnknown = Literal["missing", "error"]

MAX_LEVELS = 65_535
# Level numbers are stored in 16 bits; the one number that no level can have stands for a missing value.
MISSING_NUMBER = MAX_LEVELS

# Above this, a whole float stays a float: its digits as an integer would only look exact.
_LARGEST_EXACT_INTEGER = 2**53


def is_missing(value: object) -> bool:
    """Whether a cell is missing: None, NaN of any float type, NaT, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | Decimal) and math.isnan(value)


def as_level(value: object) -> Level | None:
    """The canonical form of a cell: text, bool, int, or float; None if it is missing.

    Raises
    ------
    TypeError
        If the cell is neither a number nor text.
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | Decimal):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) <= _LARGEST_EXACT_INTEGER else number
    raise TypeError(f"argument must be a string or a real number, not {type(value).__name__!r}")


def level_order(level: Level) -> tuple[int, float | int, str]:
    """Sort key of a level: numbers by value, then text by code point."""
    return (1, 0, level) if isinstance(level, str) else (0, level, "")


def sorted_levels(values: Iterable[object], label: str) -> tuple[Level, ...]:
    """The table of levels of one column.

    Parameters
    ----------
    values : iterable
        The distinct cells of the column, in any order; missing ones are left out.
    label : str
        What an error calls the column.

    Returns
    -------
    tuple of str, int, float or bool
        Distinct levels, sorted.
    """
    levels = sorted({level for level in map(as_level, values) if level is not None}, key=level_order)
    if len(levels) > MAX_LEVELS:
        raise ValueError(
            f"{label} has {len(levels):,} levels, but a categorical column may have at most {MAX_LEVELS:,}. "
            "Drop it if it is an identifier, or group its rare levels."
        )
    if any(isinstance(level, float) and math.isinf(level) for level in levels):
        raise ValueError(f"{label} is categorical and holds an infinite value; replace it by a finite one.")
    return tuple(levels)


def level_numbers(
    values: Sequence[object],
    codes: NDArray[np.int64],
    levels: Sequence[Level],
    *,
    handle_unknown: HandleUnknown,
    label: str,
) -> NDArray[np.uint16]:
    """Number of the level in every row.

    Parameters
    ----------
    values : sequence
        The distinct cells of the column, in any order.
    codes : ndarray of shape (n_rows,), int64
        Position in ``values`` of each row's cell, -1 for missing.
    levels : sequence of str, int, float or bool
        The model's table of levels.
    handle_unknown : {"missing", "error"}
        What becomes of a cell that is in no level.
    label : str
        What an error calls the column.

    Returns
    -------
    ndarray of shape (n_rows,), uint16
        Positions in ``levels``, or ``MISSING_NUMBER``.
    """
    number_of = {level: number for number, level in enumerate(levels)}
    # one entry more than there are values: code -1 finds the last one
    lookup = np.full(len(values) + 1, MISSING_NUMBER, dtype=np.uint16)
    unknown: list[Level] = []
    occurs = np.zeros(len(lookup), dtype=np.bool_)
    occurs[codes] = True
    for position, value in enumerate(values):
        level = as_level(value)
        if level is None:
            continue
        number = number_of.get(level)
        if number is not None:
            lookup[position] = number
        elif occurs[position]:
            unknown.append(level)
    if unknown and handle_unknown == "error":
        raise ValueError(_unknown_message(unknown, label))
    return lookup[codes]


def _unknown_message(unknown: list[Level], label: str) -> str:
    shown = ", ".join(repr(level) for level in sorted(unknown, key=level_order)[:5])
    rest = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    return (
        f"{label} has levels that were not seen during fit: {shown}{rest}. "
        'With handle_unknown="missing" they are read as missing values.'
    )


def checked_levels(levels: Any, label: str) -> tuple[Level, ...]:
    """A table of levels from an untrusted file, or ValueError."""
    if not isinstance(levels, list | tuple):
        raise ValueError(f"The levels of {label} must be a list, got {type(levels).__name__}.")
    if len(levels) > MAX_LEVELS:
        raise ValueError(f"{label} has {len(levels):,} levels; at most {MAX_LEVELS:,} are possible.")
    for level in levels:
        if type(level) not in (str, int, float, bool) or (isinstance(level, float) and not math.isfinite(level)):
            raise ValueError(f"A level of {label} must be text or a finite number, got {type(level).__name__}.")
    for before, after in pairwise(levels):
        if not level_order(before) < level_order(after):
            raise ValueError(f"The levels of {label} must be sorted and distinct.")
    return tuple(levels)
