"""Split finding: the paper's Algorithm 1 and its relatives, formula for formula.

A node's rows are divided into roles S1, S2, S3 (the paper's D, D1', D2'). For a set A and a side s, ``G`` and ``H`` are sums
of gradients and hessians and λ is `reg_lambda`:

    gain(A)      = 1/2 [ (G_A^L)²/(H_A^L+λ) + (G_A^R)²/(H_A^R+λ) − (G_A)²/(H_A+λ) ]
    cross(A → B) = 1/2 [ G_A^L G_B^L/(H_B^L+λ) + G_A^R G_B^R/(H_B^R+λ) − G_A G_B/(H_B+λ) ]

The first role finds each feature's threshold (`scan_features`), the others judge it (`judge`), and `choose` takes the best
feature. Sums stay packed integers until a gain is computed; gains are computed in the packing's units and scaled once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, inline_kernel, kernel
from unbiasedgbm.training.gradients import G_SHIFT

EVIDENCE, MERGED, SEPARATE, WITHOUT_SE, WITHOUT_UB, STANDARD = range(6)

SPLIT_RULES = {
    "evidence": EVIDENCE,
    "merged": MERGED,
    "separate": SEPARATE,
    "without_se": WITHOUT_SE,
    "without_ub": WITHOUT_UB,
    "standard": STANDARD,
}

_LOW_MASK = np.int64((1 << G_SHIFT) - 1)
_NO_SPLIT = -np.inf


FEATURE = np.dtype(
    [
        ("offset", np.int64),  # where its bins begin in a role's histogram; bin 0 is for missing values
        ("n_bins", np.int64),  # bin 0 included
        ("column", np.int64),  # position among the narrow features, or −1 − position among the wide ones
        ("categorical", np.int64),
        ("monotone", np.int64),  # −1, 0 or 1
        ("tie", np.uint64),  # content hash: of two features with equal scores the smaller hash wins
    ]
)
"""What the split search knows of a feature; fixed during a fit."""

CANDIDATE = np.dtype(
    [
        ("bin", np.int64),  # last bin on the left; for categories, number of levels on the left in their order
        ("missing_left", np.int64),  # numeric: whether bin 0 goes left; categories: whether levels unknown to S1 do
        ("select", np.float64),  # the score that chooses the feature; −inf where there is no split
        ("accept", np.float64),  # the score that the node is judged by
        ("evidence", np.float64),  # the honest score with mean 0 under no signal
        ("middle", np.float64),  # midpoint of the children's values, for monotone features
    ]
)
"""A feature's best split of one node."""


class Rule(NamedTuple):
    """The split rule and its limits in the units of one tree's packing."""

    code: int
    n_roles: int
    bits: int
    """Bits of the count field."""
    reg_lambda: float
    cat_smooth: float
    min_samples: int
    sure_hessian: int
    """A hessian sum that no `min_samples` − 1 rows can reach."""
    min_hessian: float
    unit: float
    """A gain in packed units times this is a gain in units of the loss (evidence: of the noise)."""
    null_mean: float
    """Mean of an evidence score under no signal."""
    node_share: float
    """Share of the features that a node may use."""
    node_key: np.uint64


class Scratch(NamedTuple):
    """Working memory of one thread."""

    prefix: npt.NDArray[np.int64]
    """(3, longest feature) sums of the roles over the first bins."""
    order: npt.NDArray[np.int64]
    """(longest feature,) levels in the order of their gradients."""
    gain: npt.NDArray[np.float64]
    """(longest feature,)"""
    key: npt.NDArray[np.float64]
    """(longest feature,)"""


def new_scratch(longest: int) -> Scratch:
    """Working memory for features of at most ``longest`` bins."""
    return Scratch(np.zeros((3, longest), np.int64), np.zeros(longest, np.int64), np.zeros(longest), np.zeros(longest))


@inline_kernel
def sum_g(packed):  # type: ignore
    """Gradient field."""
    return np.float64(packed >> np.int64(G_SHIFT))


@inline_kernel
def sum_h(packed, bits):  # type: ignore
    """Hessian field."""
    return np.float64((packed & _LOW_MASK) >> bits)


@inline_kernel
def enough_rows(packed, rule):  # type: ignore
    """Whether a set has `min_samples` rows.

    The count field is kept modulo 2**bits, more than twice the number asked for. It is exact for small sets; a set whose
    hessians add up to more than `min_samples` rows can have is large. So a child with too few rows never passes; one of
    thousands of rows without any hessian, where there is nothing left to learn, might be turned away.
    """
    low = packed & _LOW_MASK
    count = low & ((np.int64(1) << rule.bits) - np.int64(1))
    return (count >= rule.min_samples) | ((low >> rule.bits) >= rule.sure_hessian)


@inline_kernel
def gain(left, total, rule):  # type: ignore
    """Twice gain(A) in packed units."""
    right = total - left
    gl, gr, g = sum_g(left), sum_g(right), sum_g(total)
    hl, hr, h = sum_h(left, rule.bits), sum_h(right, rule.bits), sum_h(total, rule.bits)
    lam = rule.reg_lambda
    return gl * gl / (hl + lam) + gr * gr / (hr + lam) - g * g / (h + lam)


@inline_kernel
def cross(left_a, total_a, left_b, total_b, rule):  # type: ignore
    """Twice cross(A → B) in packed units."""
    right_a, right_b = total_a - left_a, total_b - left_b
    lam = rule.reg_lambda
    return (
        sum_g(left_a) * sum_g(left_b) / (sum_h(left_b, rule.bits) + lam)
        + sum_g(right_a) * sum_g(right_b) / (sum_h(right_b, rule.bits) + lam)
        - sum_g(total_a) * sum_g(total_b) / (sum_h(total_b, rule.bits) + lam)
    )


@inline_kernel
def pooled_cross(left_a, total_a, left_b, total_b, rule):  # type: ignore
    """G_A·G_B over the hessians of both sets: the evidence of one node, mean 0 under no signal."""
    right_a, right_b = total_a - left_a, total_b - left_b
    lam = rule.reg_lambda
    return (
        sum_g(left_a) * sum_g(left_b) / (sum_h(left_a + left_b, rule.bits) + lam)
        + sum_g(right_a) * sum_g(right_b) / (sum_h(right_a + right_b, rule.bits) + lam)
        - sum_g(total_a) * sum_g(total_b) / (sum_h(total_a + total_b, rule.bits) + lam)
    )


@inline_kernel
def fill_gains(scratch, n, total1, total2, total3, skip1, skip2, skip3, sign, low, high, rule):  # type: ignore
    """Gain on S1 of every threshold whose children have enough rows in every role, −inf for the others.

    Parameters
    ----------
    scratch : Scratch
        ``prefix[r, b]`` is the sum of role r over bins 0 to b; ``gain[b]`` is filled with G_L²/(H_L+λ) + G_R²/(H_R+λ).
    n : int
        Bins; thresholds are 0 to n − 2.
    total1, total2, total3 : int64
        Sums of the roles over the node.
    skip1, skip2, skip3 : int64
        What goes right although it stands in bin 0: the missing values, or nothing.
    sign : int
        Monotone constraint.
    low, high : float
    rule : Rule
    """
    prefix, value = scratch.prefix, scratch.gain
    lam = rule.reg_lambda
    bits = rule.bits
    last = np.uint64(n - 1)
    for b in range(last):
        left = prefix[0, b] - skip1
        right = total1 - left
        gl, gr = sum_g(left), sum_g(right)
        hl, hr = sum_h(left, bits) + lam, sum_h(right, bits) + lam
        # one division instead of two
        x = (gl * gl * hr + gr * gr * hl) / (hl * hr)
        value[b] = x if (enough_rows(left, rule) & enough_rows(right, rule)) else _NO_SPLIT
    if rule.n_roles > 1:
        for b in range(last):
            left = prefix[1, b] - skip2
            if not (enough_rows(left, rule) & enough_rows(total2 - left, rule)):
                value[b] = _NO_SPLIT
    if rule.n_roles > 2:
        for b in range(last):
            left = prefix[2, b] - skip3
            if not (enough_rows(left, rule) & enough_rows(total3 - left, rule)):
                value[b] = _NO_SPLIT
    if rule.min_hessian > 0.0:
        # packed sums of the roles add up: the unused roles' prefixes and totals are zero
        total = total1 + total2 + total3
        skip = skip1 + skip2 + skip3
        for b in range(last):
            left = prefix[0, b] + prefix[1, b] + prefix[2, b] - skip
            if (sum_h(left, bits) < rule.min_hessian) | (sum_h(total - left, bits) < rule.min_hessian):
                value[b] = _NO_SPLIT
    if sign != 0:
        for b in range(last):
            left = prefix[0, b] - skip1
            if (node_value(total1 - left, low, high, rule) - node_value(left, low, high, rule)) * sign < 0.0:
                value[b] = _NO_SPLIT


@inline_kernel
def judge(f, left1, left2, left3, total1, total2, total3, bonus, rule, out):  # type: ignore
    """Score feature f's best split by the rule; the table in the parameter reference, row by row."""
    code = rule.code
    out[f].evidence = 0.0
    if code == EVIDENCE:
        score = gain(left2, total2, rule) * rule.unit - rule.null_mean + bonus
        out[f].evidence = pooled_cross(left1, total1, left2, total2, rule) * rule.unit
        out[f].select = score
        out[f].accept = score
    elif code == MERGED:
        score = 0.5 * cross(left1 + left2, total1 + total2, left2, total2, rule) * rule.unit
        out[f].select = score
        out[f].accept = score
    elif code == SEPARATE:
        out[f].select = 0.5 * cross(left1, total1, left2, total2, rule) * rule.unit
        out[f].accept = 0.5 * cross(left1 + left2, total1 + total2, left3, total3, rule) * rule.unit
    elif code == WITHOUT_SE:
        # the first role holds the paper's D and D1' together, the second D2'
        out[f].select = 0.5 * gain(left1, total1, rule) * rule.unit
        out[f].accept = 0.5 * cross(left1, total1, left2, total2, rule) * rule.unit
    elif code == WITHOUT_UB:
        score = 0.5 * gain(left2, total2, rule) * rule.unit
        out[f].select = score
        out[f].accept = score
    else:
        score = 0.5 * gain(left1, total1, rule) * rule.unit
        out[f].select = score
        out[f].accept = score


@inline_kernel
def sort_levels(key, order, n):  # type: ignore
    """Sort ``order[:n]`` by (key, level) with a heap: no allocation, no worst case."""
    start = n // 2
    end = n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            order[0], order[end] = order[end], order[0]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and _before(key, order[child], order[child + 1]):
                child += 1
            if not _before(key, order[root], order[child]):
                break
            order[root], order[child] = order[child], order[root]
            root = child


@inline_kernel
def _before(key, a, b):  # type: ignore
    return key[a] < key[b] or (key[a] == key[b] and a < b)


@inline_kernel
def order_levels(hist, at, n, rule, scratch):  # type: ignore
    """Levels that S1 has seen, sorted by G/(H + cat_smooth) on S1 alone; returns their number.

    The other roles have no say in the order, so they judge the split honestly.
    """
    m = np.int64(0)
    for b in range(n):
        word = hist[at + np.uint64(b)]
        if word != 0:
            scratch.key[b] = sum_g(word) / (sum_h(word, rule.bits) + rule.cat_smooth)
            scratch.order[m] = b
            m += 1
    sort_levels(scratch.key, scratch.order, m)
    return m


@inline_kernel
def fill_prefix(hist, at, n, order, prefix, role):  # type: ignore
    """Running sums of a role over the bins ``order[:n]``; returns the last."""
    total = np.int64(0)
    for k in range(np.uint64(n)):
        total += hist[at + np.uint64(order[k])]
        prefix[role, k] = total
    return total


@kernel
def scan_features(begin, end, hist, origin, size, features, allowed, bonus, rule, low, high, scratch, out):  # type: ignore
    """Find and judge the best split of the features begin..end−1 in one node.

    Numbers are cut between bins, and both sides are tried for the missing values that S1 has. Levels of a category are put
    in the order of S1's gradients and cut in two. One rule for what S1 has not seen at the node, be it missing values or
    levels: it goes with most of S1's rows.

    Parameters
    ----------
    begin, end : int
    hist : ndarray, int64
    origin, size : int
        Where the node's histogram begins, and the size of one role's part.
    features : ndarray of shape (p,), FEATURE
    allowed : ndarray of shape (p,), uint8
    bonus : ndarray of shape (p,), float64
        Evidence gathered so far.
    rule : Rule
    low, high : float
        Bounds on the node's value by monotone constraints.
    scratch : Scratch
    out : ndarray of shape (p,), CANDIDATE
    """
    prefix, order = scratch.prefix, scratch.order
    for f in range(begin, end):
        out[f].select = _NO_SPLIT
        if allowed[f] == 0:
            continue
        n = features[f].n_bins
        sign = features[f].monotone
        categorical = features[f].categorical != 0
        at1 = np.uint64(origin + features[f].offset)
        at2 = at1 + np.uint64(size)
        at3 = at2 + np.uint64(size)
        m = n
        if categorical:
            m = order_levels(hist, at1, n, rule, scratch)
            if m < 2:
                continue
        else:
            for k in range(np.uint64(n)):
                order[k] = np.int64(k)
        total1 = fill_prefix(hist, at1, m, order, prefix, 0)
        total2 = np.int64(0)
        total3 = np.int64(0)
        if rule.n_roles > 1:
            total2 = fill_prefix(hist, at2, m, order, prefix, 1)
        if rule.n_roles > 2:
            total3 = fill_prefix(hist, at3, m, order, prefix, 2)
        # S1 chooses: threshold, and the side of its missing values
        top = _NO_SPLIT
        best = np.int64(0)
        missing_left = True
        n_sides = 1 if categorical or hist[at1] == 0 else 2
        skip1 = np.int64(0)
        skip2 = np.int64(0)
        skip3 = np.int64(0)
        for side in range(n_sides):
            if side == 1:
                skip1, skip2, skip3 = prefix[0, 0], prefix[1, 0], prefix[2, 0]
            fill_gains(scratch, m, total1, total2, total3, skip1, skip2, skip3, sign, low, high, rule)
            for b in range(np.uint64(m - 1)):
                if scratch.gain[b] > top:
                    top = scratch.gain[b]
                    best = np.int64(b)
                    missing_left = side == 0
        if top == _NO_SPLIT:
            continue
        left1, left2, left3 = prefix[0, best], prefix[1, best], prefix[2, best]
        if categorical:
            missing_left = sum_h(left1, rule.bits) >= sum_h(total1 - left1, rule.bits)
            for b in range(np.uint64(n)):
                if hist[at1 + b] == 0:
                    # a level that S1 has not seen
                    if rule.n_roles > 1:
                        total2 += hist[at2 + b]
                        left2 += hist[at2 + b] if missing_left else 0
                    if rule.n_roles > 2:
                        total3 += hist[at3 + b]
                        left3 += hist[at3 + b] if missing_left else 0
            best += 1
        else:
            if n_sides == 1:
                missing_left = sum_h(left1, rule.bits) >= sum_h(total1 - left1, rule.bits)
            if not missing_left:
                left1, left2, left3 = left1 - prefix[0, 0], left2 - prefix[1, 0], left3 - prefix[2, 0]
        if not children_have_rows(left2, total2, left3, total3, rule):
            continue
        out[f].bin = best
        out[f].missing_left = missing_left
        out[f].middle = 0.5 * (node_value(left1, low, high, rule) + node_value(total1 - left1, low, high, rule))
        judge(f, left1, left2, left3, total1, total2, total3, bonus[f], rule, out)


@inline_kernel
def children_have_rows(left2, total2, left3, total3, rule):  # type: ignore
    """Whether both children have enough rows in the judging roles."""
    if rule.n_roles > 1 and not (enough_rows(left2, rule) and enough_rows(total2 - left2, rule)):
        return False
    return not (rule.n_roles > 2 and not (enough_rows(left3, rule) and enough_rows(total3 - left3, rule)))


@inline_kernel
def node_value(packed, low, high, rule):  # type: ignore
    """Newton step of a set within bounds, in packed units."""
    value = -sum_g(packed) / (sum_h(packed, rule.bits) + rule.reg_lambda)
    return min(max(value, low), high)


@inline_kernel
def left_levels(f, hist, origin, n_left, unknown_left, features, rule, scratch, levels, k):  # type: ignore
    """Fill the set of bins that go left at node k's categorical split.

    Parameters
    ----------
    levels : ndarray of shape (m, words), uint64
        Bin b is bit b % 64 of word b // 64.
    """
    n = features[f].n_bins
    at = np.uint64(origin + features[f].offset)
    m = order_levels(hist, at, n, rule, scratch)
    for w in range(levels.shape[1]):
        levels[k, w] = 0
    if unknown_left != 0:
        for b in range(n):
            if hist[at + np.uint64(b)] == 0:
                levels[k, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    for i in range(min(n_left, m)):
        b = scratch.order[i]
        levels[k, b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@inline_kernel
def choose(features, out):  # type: ignore
    """Feature of the best selecting score, or −1; ties go to the smaller content hash, whatever the column order."""
    best = np.int64(-1)
    for f in range(out.size):
        score = out[f].select
        if score == _NO_SPLIT or np.isnan(score):
            continue
        if best < 0 or score > out[best].select or (score == out[best].select and features[f].tie < features[best].tie):
            best = f
    return best


@inline_kernel
def allow(tree_allowed, groups, compatible, features, rule, node, allowed):  # type: ignore
    """Which features a node may use: the tree's sample, the node's sample and the interaction groups.

    Parameters
    ----------
    tree_allowed : ndarray of shape (p,), uint8
    groups : ndarray of shape (n_groups, p), uint8
    compatible : ndarray of shape (n_nodes, n_groups), uint8
        Groups that hold every feature on the node's path.
    allowed : ndarray of shape (p,), uint8
        Filled.
    """
    p = tree_allowed.size
    n_groups = groups.shape[0]
    lowest = np.uint64(0xFFFFFFFFFFFFFFFF)
    fallback = np.int64(-1)
    n_allowed = 0
    for f in range(p):
        ok = tree_allowed[f] != 0
        if ok and n_groups > 0:
            ok = False
            for g in range(n_groups):
                if compatible[node, g] != 0 and groups[g, f] != 0:
                    ok = True
        if ok and rule.node_share < 1.0:
            draw = hash64(rule.node_key ^ features[f].tie, np.uint64(node))
            if fallback < 0 or draw < lowest:
                lowest = draw
                fallback = f
            ok = np.float64(draw >> np.uint64(11)) * (1.0 / (1 << 53)) < rule.node_share
        allowed[f] = ok
        if ok:
            n_allowed += 1
    if n_allowed == 0 and fallback >= 0:
        allowed[fallback] = 1
