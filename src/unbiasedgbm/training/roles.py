"""Who is S1, S2, S3: which rows choose a split and which judge it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# S1 : S2 : S3 of each rule; 0 where the rule does not use a role.
DEFAULT_RATIO: dict[str, tuple[float, float, float]] = {
    "evidence": (1, 2, 0),
    "merged": (1, 2, 0),
    "separate": (1, 1, 1),
    "without_se": (1, 1, 1),
    "without_ub": (1, 2, 0),
    "standard": (1, 0, 0),
}


def role_shares(split_rule: str, role_ratio: Sequence[float] | None) -> npt.NDArray[np.float64]:
    """Shares of the rows that search, judge and accept, summing to 1, shape (3,).

    `without_se` searches with D and D1' together, so its first two numbers are one role. Where a rule has no S3, a
    third number joins the second: 1:1+1 in the paper's words.
    """
    s1, s2, s3 = DEFAULT_RATIO[split_rule] if role_ratio is None else (*role_ratio, 0.0, 0.0)[:3]
    if split_rule == "without_se":
        shares = (s1 + s2, s3, 0.0)
    elif split_rule == "separate":
        shares = (s1, s2, s3)
    elif split_rule == "standard":
        shares = (1.0, 0.0, 0.0)
    else:
        shares = (s1, s2 + s3, 0.0)
    return np.array(shares, dtype=np.float64) / sum(shares)


def n_roles(split_rule: str) -> int:
    """Roles that a rule's rows are divided into."""
    return int((role_shares(split_rule, None) > 0).sum())


def usable_rule(split_rule: str, role_ratio: Sequence[float] | None, n_rows: float, min_samples_leaf: int) -> str:
    """The rule that trees of ``n_rows`` can carry: the one asked for, or `standard`.

    The one rule for small tables: every role must expect at least four times `min_samples_leaf` rows, so that a split
    with enough rows on both sides is a choice and not the only one left. A ratio that was asked for is never silently
    dropped.
    """
    shares = role_shares(split_rule, role_ratio)
    if (shares[: n_roles(split_rule)] == 0).any():
        raise ValueError(
            f"role_ratio: split_rule={split_rule!r} needs three positive numbers; got {tuple(role_ratio or ())}."
        )
    smallest = float(shares[shares > 0].min()) * n_rows
    if split_rule == "standard" or smallest >= 4 * min_samples_leaf:
        return split_rule
    if role_ratio is not None:
        raise ValueError(
            f"role_ratio={tuple(role_ratio)} leaves a role with about {smallest:.0f} of {n_rows:.0f} rows, but every "
            f"role needs at least 4 * min_samples_leaf = {4 * min_samples_leaf}. Leave role_ratio=None, or lower "
            "min_samples_leaf."
        )
    return "standard"


def role_ends(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Upper ends of the roles in [0, 1], shape (3,)."""
    ends = np.cumsum(shares)
    ends[np.flatnonzero(shares)[-1] :] = 1.0  # whatever rounding did
    return ends
