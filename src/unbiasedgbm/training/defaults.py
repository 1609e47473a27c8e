"""Defaults that depend on the table: what a parameter is that was not asked for."""

from __future__ import annotations

from collections.abc import Sequence

from unbiasedgbm.training.roles import DEFAULT_RATIO, usable_rule

# Chains of trees of each rule. One draw of roles is one of many; the default takes the mean over three.
DEFAULT_BAGS = {rule: 3 if rule == "evidence" else 1 for rule in DEFAULT_RATIO}


# A table of fewer rows is none to divide into roles, whatever the leaves.
_FEWEST_ROWS = 30

# Rows of the smallest leaf, of values and of classes, unless it is said: numbers have more to tell than classes.
_LEAF_ROWS = (3, 5)


def leaf_rows(asked: int | None, split_rule: str, n_rows: float, classes: bool) -> int:
    """Rows of the smallest leaf: as many as are asked for, or by default few.

    Of a small table, but not of a tiny one, they are fewer under the default rule, which judges every split: a
    hundredth of all rows, and no less than two.
    """
    if asked is not None:
        return asked
    most = _LEAF_ROWS[classes]
    return min(most, max(2, int(n_rows) // 100)) if split_rule == "evidence" and n_rows >= _FEWEST_ROWS else most


def most_leaves(asked: int | None, n_outputs: int) -> int:
    """Leaves of a tree at most: as asked for, or the default, which is smaller where every class has its own trees."""
    return asked if asked is not None else 127 if n_outputs == 1 else 31


# Smallest and largest rate, and the rows up to which the smallest one is taken: a table of more rows has more to tell
# than two hundred iterations of small steps can take in.
_RATES = (0.1, 0.2)
_SMALL_STEPS_ROWS = 20_000


def rate(asked: float | None, split_rule: str, n_rows: float) -> float:
    """Factor on leaf values: as asked for, or by default 0.1; under the default rule more in a large table."""
    smallest, largest = _RATES
    if asked is not None or split_rule != "evidence":
        return smallest if asked is None else asked
    return round(min(smallest * max(n_rows / _SMALL_STEPS_ROWS, 1.0) ** (1 / 3), largest), 3)


def rule_and_leaf(
    split_rule: str, role_ratio: Sequence[float] | None, n_rows: float, asked: int | None, classes: bool
) -> tuple[str, int]:
    """The rule that trees of ``n_rows`` can carry, and the rows of its smallest leaf."""
    rule = usable_rule(split_rule, role_ratio, n_rows, leaf_rows(asked, split_rule, n_rows, classes))
    return rule, leaf_rows(asked, rule, n_rows, classes)
