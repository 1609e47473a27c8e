"""Defaults that depend on the table: what a parameter is that was not asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unbiasedgbm.training.roles import DEFAULT_RATIO, usable_rule

# Chains of trees of each rule. One draw of roles is one of many; the default takes the mean over three.
DEFAULT_BAGS = {rule: 3 if rule == "evidence" else 1 for rule in DEFAULT_RATIO}


# A table of fewer rows is none to divide into roles, whatever the leaves.
_FEWEST_ROWS = 30

# Losses of classes.
_CLASS_LOSSES = ("log_loss", "multiclass_log_loss")


def leaf_rows(asked: int | None, split_rule: str, n_rows: float, loss: str) -> int:
    """Rows of the smallest leaf: as many as are asked for, or by default few; numbers have more to tell than classes.

    Under the default rule, which judges every split, there are fewer, but in a tiny table. Of means it is one row of
    every role: what few rows are like, far from all others, counts most where errors are squared. Of anything else, it
    is at most a hundredth of all rows, and no less than two.
    """
    if asked is not None:
        return asked
    most = 5 if loss in _CLASS_LOSSES else 3
    if split_rule != "evidence" or n_rows < _FEWEST_ROWS:
        return most
    return 1 if _honest_means(split_rule, loss) else min(most, max(2, int(n_rows) // 100))


# Rows up to which steps and trees are the smallest: a table of more rows has more to tell than two hundred iterations
# of small trees and small steps can take in.
_SMALL_ROWS = 20_000

# Leaves of a tree at most, however large the table, and rows for each of them where every class has trees of its own.
_MOST_LEAVES = 1023
_CLASS_LEAF_ROWS = 130


def most_leaves(asked: int | None, split_rule: str, n_rows: float, loss: str) -> int:
    """Leaves of a tree at most: as asked for, or by default many, but for trees of which every class has its own.

    Under the default rule, which turns away splits that are worth nothing, there are more in a large table.
    """
    if asked is not None:
        return asked
    classes = loss == "multiclass_log_loss"
    if split_rule != "evidence":
        return 31 if classes else 127
    most = (255 if _honest_means(split_rule, loss) else 127) * max(n_rows / _SMALL_ROWS, 1.0) ** 0.5
    most = min(most, _MOST_LEAVES)
    return int(max(31, min(most, n_rows / _CLASS_LEAF_ROWS)) if classes else most)


def pull(split_rule: str, loss: str) -> float:
    """Rows that draw the value of a leaf to what its parent's would be, where leaves may have very few of their own."""
    return 4.0 if _honest_means(split_rule, loss) else 0.0


def clip(split_rule: str, loss: str) -> float:
    """Root mean squares that a row's gradient counts at most where splits are chosen and judged."""
    return 3.0 if _honest_means(split_rule, loss) else math.inf


def _honest_means(split_rule: str, loss: str) -> bool:
    """Whether leaves hold means under the default rule: there is more to find in few rows."""
    return split_rule == "evidence" and loss == "squared_error"


# Smallest and largest rate.
_RATES = (0.1, 0.2)


def rate(asked: float | None, split_rule: str, n_rows: float) -> float:
    """Factor on leaf values: as asked for, or by default 0.1; under the default rule more in a large table."""
    smallest, largest = _RATES
    if asked is not None or split_rule != "evidence":
        return smallest if asked is None else asked
    return round(min(smallest * max(n_rows / _SMALL_ROWS, 1.0) ** (1 / 3), largest), 3)


def rule_and_leaf(
    split_rule: str, role_ratio: Sequence[float] | None, n_rows: float, asked: int | None, loss: str
) -> tuple[str, int]:
    """The rule that trees of ``n_rows`` can carry, and the rows of its smallest leaf."""
    rule = usable_rule(split_rule, role_ratio, n_rows, leaf_rows(asked, split_rule, n_rows, loss))
    return rule, leaf_rows(asked, rule, n_rows, loss)
