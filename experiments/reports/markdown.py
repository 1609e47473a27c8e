"""Data frames as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd


def markdown_table(frame: pd.DataFrame, formats: Mapping[str, str] | None = None, corner: str = "") -> str:
    """Write a frame as a Markdown table, its index first.

    Parameters
    ----------
    frame : DataFrame
    formats : mapping of column to format specification
        E.g. ``{"AUC": ".4f"}``; p-values have a format of their own, ``"p"``.
    corner : str
        Heading of the index.
    """
    formats = formats or {}
    lines = [[corner, *map(str, frame.columns)], ["---", *["---:"] * frame.shape[1]]]
    for label, row in frame.iterrows():
        lines.append([str(label), *(_cell(value, formats.get(name, "")) for name, value in row.items())])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def p_value(p: float) -> str:
    """Write a p-value: three decimals, or that it is below them."""
    return "< .001" if p < 0.001 else f"{p:.3f}"


def _cell(value: object, specification: str) -> str:
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "–"
    if specification == "p":
        return p_value(float(value))
    if specification == "" and isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return format(value, specification)
