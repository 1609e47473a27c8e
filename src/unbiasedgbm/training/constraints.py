"""Monotone and interaction constraints: from what users write to what the split search reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt


def monotone_signs(
    monotonic_cst: Any, n_features: int, names: Sequence[str] | None, categorical: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """−1, 0 or 1 for every feature, shape (n_features,).

    Parameters
    ----------
    monotonic_cst : None, sequence of n_features numbers, or mapping of feature name (or position) to number
    """
    signs = np.zeros(n_features, dtype=np.int64)
    if monotonic_cst is None:
        return signs
    if isinstance(monotonic_cst, Mapping):
        for feature, sign in monotonic_cst.items():
            signs[_position(feature, n_features, names, "monotonic_cst")] = _sign(sign)
    else:
        if isinstance(monotonic_cst, str) or not isinstance(monotonic_cst, Iterable):
            raise ValueError(
                f"monotonic_cst must be a sequence of -1, 0 and 1, or a mapping of features to them; "
                f"got {monotonic_cst!r}."
            )
        given = list(monotonic_cst)
        if len(given) != n_features:
            raise ValueError(f"monotonic_cst has {len(given)} entries, but X has {n_features} features.")
        signs[:] = [_sign(sign) for sign in given]
    if (categorical & (signs != 0)).any():
        j = int(np.flatnonzero(categorical & (signs != 0))[0])
        label = names[j] if names is not None else j
        raise ValueError(f"monotonic_cst: feature {label!r} is categorical and has no order to be monotone in.")
    return signs


def _sign(sign: Any) -> int:
    if sign not in (-1, 0, 1):
        raise ValueError(f"monotonic_cst: must be -1, 0 or 1 for each feature; got {sign!r}.")
    return int(sign)


def interaction_groups(interaction_cst: Any, n_features: int, names: Sequence[str] | None) -> npt.NDArray[np.uint8]:
    """Members of the groups, shape (n_groups, n_features); no rows without constraints.

    Features that no group names form a group of their own, as in scikit-learn.
    """
    if interaction_cst is None:
        return np.zeros((0, n_features), dtype=np.uint8)
    groups: list[Iterable[Any]]
    if isinstance(interaction_cst, str):
        if interaction_cst == "no_interactions":
            groups = [(j,) for j in range(n_features)]
        elif interaction_cst == "pairwise":
            groups = list(combinations(range(n_features), 2)) or [(0,)]
        else:
            raise ValueError(
                f"interaction_cst must be 'pairwise', 'no_interactions' or a list of groups; got {interaction_cst!r}."
            )
    else:
        try:
            groups = [tuple(group) for group in interaction_cst]
        except TypeError:
            raise ValueError(
                f"interaction_cst must be a list of groups of features; got {interaction_cst!r}."
            ) from None
    members = np.zeros((len(groups), n_features), dtype=np.uint8)
    for k, group in enumerate(groups):
        for feature in group:
            members[k, _position(feature, n_features, names, "interaction_cst")] = 1
    rest = members.sum(axis=0) == 0
    return np.vstack([members, rest[None].astype(np.uint8)]) if rest.any() else members


def _position(feature: Any, n_features: int, names: Sequence[str] | None, argument: str) -> int:
    if isinstance(feature, str):
        if names is None or feature not in names:
            raise ValueError(f"{argument}: {feature!r} is not a column of X.")
        return list(names).index(feature)
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < n_features:
        raise ValueError(f"{argument}: {feature!r} is not a column of X, which has {n_features} features.")
    return int(feature)
