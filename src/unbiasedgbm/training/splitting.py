"""Split finding: the paper's Algorithm 1 and its relatives, formula for formula.

A node's rows are divided into roles S1, S2, S3 (the paper's D, D1', D2'). For a set A and a side s, ``G`` and ``H``
are sums of gradients and hessians and λ is `reg_lambda`:

    gain(A)      = 1/2 [ (G_A^L)²/(H_A^L+λ) + (G_A^R)²/(H_A^R+λ) − (G_A)²/(H_A+λ) ]
    cross(A → B) = 1/2 [ G_A^L G_B^L/(H_B^L+λ) + G_A^R G_B^R/(H_B^R+λ) − G_A G_B/(H_B+λ) ]

The first role finds each feature's threshold (`scan_features`), the others judge it (`judge`), and `choose` takes the
best feature. Sums stay packed integers until a gain is computed; gains are computed in the packing's units and scaled
once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, inline_kernel
from unbiasedgbm.training.gradients import LOW_MASK, sum_g, sum_h
from unbiasedgbm.training.levels import DIGITS, order_levels
from unbiasedgbm.vectors import LANES

EVIDENCE, MERGED, SEPARATE, WITHOUT_SE, WITHOUT_UB, STANDARD = range(6)

SPLIT_RULES = {
    "evidence": EVIDENCE,
    "merged": MERGED,
    "separate": SEPARATE,
    "without_se": WITHOUT_SE,
    "without_ub": WITHOUT_UB,
    "standard": STANDARD,
}

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
        ("middle", np.float64),  # midpoint of the children's values, of monotone features
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
    min_hessian: int
    unit: float
    """A gain in packed units times this is a gain in units of the loss (evidence: of the noise)."""
    limit: float
    """What gain(S2) has to exceed, in units of noise: what a useless feature's is on average, or somewhat more."""
    node_share: float
    """Share of the features that a node may use."""
    node_key: np.uint64


class Scratch(NamedTuple):
    """Working memory of one thread; every array is as long as the longest feature."""

    prefix: npt.NDArray[np.int64]
    """Sum of S1 left of each cut."""
    order: npt.NDArray[np.int64]
    """Bins in the order in which they are added up."""
    identity: npt.NDArray[np.int64]
    """0, 1, 2, ..."""
    gain: npt.NDArray[np.float64]
    gain_bits: npt.NDArray[np.int64]
    """The same memory: numbers ≥ 0 and −inf are in the order of their bits, and integers have a vector maximum."""
    key: npt.NDArray[np.int64]
    """G/(H + smoothing) of each level, as an integer of the same order."""
    digits: npt.NDArray[np.int64]
    """Counters of a sort of levels."""
    local: npt.NDArray[np.int64]
    """Of a node of few rows: the histogram of one feature, three roles one after the other."""
    value: npt.NDArray[np.int64]
    """Of a node of few rows: the packed gradient of each."""
    word: npt.NDArray[np.uint64]
    """And its bins of eight features."""
    row_bin: npt.NDArray[np.int64]
    """And its bin of one feature, if it is of S1."""


# Rows of S1, and of all roles, up to which a node is looked through row by row: from there on a histogram is faster.
FEW_SEARCH = 48
FEW_ROWS = 256


def new_scratch(longest: int) -> Scratch:
    """Working memory for features of at most ``longest`` bins."""
    # vectors are read and written to their ends
    length = max(longest, FEW_SEARCH) + LANES
    gain = np.zeros(length)
    return Scratch(
        prefix=np.zeros(length, np.int64),
        order=np.zeros(length, np.int64),
        identity=np.arange(length),
        gain=gain,
        gain_bits=gain.view(np.int64),
        key=np.zeros(length, np.int64),
        digits=np.zeros(DIGITS, np.int64),
        local=np.zeros(3 * longest, np.int64),
        value=np.zeros(FEW_ROWS + 3 * LANES, np.int64),
        word=np.zeros(FEW_ROWS + 3 * LANES, np.uint64),
        row_bin=np.zeros(FEW_SEARCH + LANES, np.int64),
    )


@inline_kernel
def enough_rows(packed, rule):
    """Whether a set has `min_samples` rows.

    The count field is kept modulo 2**bits, more than twice the number asked for. It is exact for small sets; a set
    whose hessians add up to more than `min_samples` rows can have is large. So a child with too few rows never passes.
    One of thousands of rows might be turned away whose hessians are much smaller than the largest: all together less
    than those of `min_samples` rows may be.
    """
    low = packed & LOW_MASK
    count = low & ((np.int64(1) << rule.bits) - np.int64(1))
    return (count >= rule.min_samples) | ((low >> rule.bits) >= rule.sure_hessian)


@inline_kernel
def gain(left, total, rule):
    """Twice gain(A) in packed units."""
    right = total - left
    gl, gr, g = sum_g(left), sum_g(right), sum_g(total)
    hl, hr, h = sum_h(left, rule.bits), sum_h(right, rule.bits), sum_h(total, rule.bits)
    lam = rule.reg_lambda
    return gl * gl / (hl + lam) + gr * gr / (hr + lam) - g * g / (h + lam)


@inline_kernel
def cross(left_a, total_a, left_b, total_b, rule):
    """Twice cross(A → B) in packed units."""
    right_a, right_b = total_a - left_a, total_b - left_b
    lam = rule.reg_lambda
    return (
        sum_g(left_a) * sum_g(left_b) / (sum_h(left_b, rule.bits) + lam)
        + sum_g(right_a) * sum_g(right_b) / (sum_h(right_b, rule.bits) + lam)
        - sum_g(total_a) * sum_g(total_b) / (sum_h(total_b, rule.bits) + lam)
    )


@inline_kernel
def pooled_cross(left_a, total_a, left_b, total_b, rule):
    """G_A·G_B over the hessians of both sets: the evidence of one node, mean 0 under no signal."""
    right_a, right_b = total_a - left_a, total_b - left_b
    lam = rule.reg_lambda
    return (
        sum_g(left_a) * sum_g(left_b) / (sum_h(left_a + left_b, rule.bits) + lam)
        + sum_g(right_a) * sum_g(right_b) / (sum_h(right_a + right_b, rule.bits) + lam)
        - sum_g(total_a) * sum_g(total_b) / (sum_h(total_a + total_b, rule.bits) + lam)
    )


@inline_kernel
def fill_gains(scratch, first, last, total1, skip1, sign, low, high, rule):
    """Fill ``scratch.gain`` with G_L²/(H_L+λ) + G_R²/(H_R+λ) on S1 for the cuts first..last−1.

    Parameters
    ----------
    scratch : Scratch
    first, last : uint64
    total1 : int64
        Sum of S1 over the node.
    skip1 : int64
        What goes right although it comes first: the missing values, or nothing.
    sign : int
        Monotone constraint; cuts against it get −inf.
    low, high : float
    rule : Rule
    """
    prefix, value = scratch.prefix, scratch.gain
    lam = rule.reg_lambda
    bits = rule.bits
    for k in range(first, last):
        left = prefix[k] - skip1
        right = total1 - left
        gl, gr = sum_g(left), sum_g(right)
        hl, hr = sum_h(left, bits) + lam, sum_h(right, bits) + lam
        # one division instead of two
        value[k] = (gl * gl * hr + gr * gr * hl) / (hl * hr)
    if sign != 0:
        for k in range(first, last):
            left = prefix[k] - skip1
            if (node_value(total1 - left, low, high, rule) - node_value(left, low, high, rule)) * sign < 0.0:
                value[k] = _NO_SPLIT


@inline_kernel
def first_largest(scratch, first, last):
    """First of the largest gains: of equal thresholds the smallest wins."""
    bits = scratch.gain_bits
    top = np.int64(-0x7FFFFFFFFFFFFFFF)
    for k in range(first, last):
        top = max(top, bits[k])
    for k in range(first, last):
        if bits[k] == top:
            return np.int64(k)
    return np.int64(first)


@inline_kernel
def side_is_large(sum1, sum2, sum3, rule):
    """Whether a child has enough rows in every role, and enough hessian in all of them together."""
    if not enough_rows(sum1, rule):
        return False
    if rule.n_roles > 1 and not enough_rows(sum2, rule):
        return False
    if rule.n_roles > 2 and not enough_rows(sum3, rule):
        return False
    return ((sum1 + sum2 + sum3) & LOW_MASK) >> rule.bits >= rule.min_hessian


@inline_kernel
def judge(f, left1, left2, left3, total1, total2, total3, bonus, rule, out):
    """Score feature f's best split by the rule; the table in the parameter reference, row by row."""
    code = rule.code
    half = 0.5 * rule.unit
    evidence = 0.0
    if code == EVIDENCE:
        select = gain(left2, total2, rule) * rule.unit - rule.limit + bonus
        accept = select
        evidence = pooled_cross(left1, total1, left2, total2, rule) * rule.unit
    elif code == MERGED:
        select = cross(left1 + left2, total1 + total2, left2, total2, rule) * half
        accept = select
    elif code == SEPARATE:
        select = cross(left1, total1, left2, total2, rule) * half
        accept = cross(left1 + left2, total1 + total2, left3, total3, rule) * half
    elif code == WITHOUT_SE:
        # the first role holds the paper's D and D1' together, the second D2'
        select = gain(left1, total1, rule) * half
        accept = cross(left1, total1, left2, total2, rule) * half
    elif code == WITHOUT_UB:
        select = gain(left2, total2, rule) * half
        accept = select
    else:
        select = gain(left1, total1, rule) * half
        accept = select
    out[f].select = select
    out[f].accept = accept
    out[f].evidence = evidence


@inline_kernel
def fill_prefix(hist, at, n, n_search, levels, categorical, rule, scratch):
    """Sum S1 up from the left into ``scratch.prefix``; bins not taken as they come are listed in ``scratch.order``.

    Levels of a category come in the order of their gradients. S1 can tell only cuts behind bins that it has rows in
    apart: where most bins are empty, only the others are listed.

    Returns
    -------
    m : int
        Bins listed.
    listed : bool
        Whether they are in ``scratch.order``; otherwise they are all bins.
    """
    prefix, order = scratch.prefix, scratch.order
    total = np.int64(0)
    if levels is not None and categorical:
        m = order_levels(hist, at, n, rule, scratch)
        for k in range(np.uint64(m)):
            total += hist[at + np.uint64(order[k])]
            prefix[k] = total
        return m, True
    if 2 * n_search < n:
        j = np.uint64(0)
        for b in range(np.uint64(n)):
            word = hist[at + b]
            total += word
            # written in any case, kept only where the bin is filled: no branch
            prefix[j] = total
            order[j] = np.int64(b)
            j += np.uint64(word != 0)
        return np.int64(j), True
    for b in range(np.uint64(n)):
        total += hist[at + b]
        prefix[b] = total
    return n, False


@inline_kernel
def role_sum(hist, at, order, begin, end, levels, categorical):
    """Sum of a role over the bins from cut begin − 1 (from the first bin, if 0) to cut end − 1.

    Bins that S1 has no rows in belong to the cut before them if they are numbers; levels that it has not seen to none.
    """
    total = np.int64(0)
    if levels is not None and categorical:
        for k in range(begin, end):
            total += hist[at + np.uint64(order[k])]
    elif end > begin:
        low = np.uint64(0) if begin == 0 else np.uint64(order[begin - 1] + 1)
        for b in range(low, np.uint64(order[end - 1] + 1)):
            total += hist[at + b]
    return total


@inline_kernel
def first_large(hist, at2, at3, order, n_cuts, skip1, skip2, skip3, levels, categorical, rule, scratch):
    """First cut whose left side is large. There are more rows left of those behind it, so that theirs are, too."""
    sum2 = -skip2
    sum3 = -skip3
    for k in range(n_cuts):
        if rule.n_roles > 1:
            sum2 += role_sum(hist, at2, order, k, k + 1, levels, categorical)
        if rule.n_roles > 2:
            sum3 += role_sum(hist, at3, order, k, k + 1, levels, categorical)
        if side_is_large(scratch.prefix[k] - skip1, sum2, sum3, rule):
            return k
    return n_cuts


@inline_kernel
def behind_last_large(hist, at2, at3, order, n_cuts, right1, right2, right3, levels, categorical, rule, scratch):
    """The cut behind the last one whose right side is large.

    Parameters
    ----------
    right1, right2, right3 : int64
        The node's sums, and once more what is skipped, which the sums left of a cut hold, too.
    """
    sum2 = right2
    sum3 = right3
    if rule.n_roles > 1:
        sum2 -= role_sum(hist, at2, order, 0, n_cuts, levels, categorical)
    if rule.n_roles > 2:
        sum3 -= role_sum(hist, at3, order, 0, n_cuts, levels, categorical)
    for k in range(n_cuts - 1, -1, -1):
        if side_is_large(right1 - scratch.prefix[k], sum2, sum3, rule):
            return k + 1
        if rule.n_roles > 1:
            sum2 += role_sum(hist, at2, order, k, k + 1, levels, categorical)
        if rule.n_roles > 2:
            sum3 += role_sum(hist, at3, order, k, k + 1, levels, categorical)
    return np.int64(0)


@inline_kernel
def goes_with_most(left1, total1, rule):
    """Whether what S1 has not seen goes left: with most of S1's rows."""
    return sum_h(left1, rule.bits) >= sum_h(total1 - left1, rule.bits)


@inline_kernel
def enter(f, left1, left2, left3, total1, total2, total3, bonus, sign, rule, low, high, out):
    """Judge feature f's best split; ``sign`` is its monotone constraint."""
    if sign != 0:
        out[f].middle = 0.5 * (node_value(left1, low, high, rule) + node_value(total1 - left1, low, high, rule))
    judge(f, left1, left2, left3, total1, total2, total3, bonus[f], rule, out)


@inline_kernel
def scan_features(
    begin, end, hist, origin, size, n_search, features, levels, allowed, bonus, rule, low, high, scratch, out
):
    """Find and judge the best split of the features begin..end−1 in one node.

    Numbers are cut between bins, and both sides are tried for the missing values that S1 has. Levels of a category are
    put in the order of S1's gradients and cut in two. One rule for what S1 has not seen at the node, be it missing
    values or levels: it goes with most of S1's rows.

    Parameters
    ----------
    begin, end : int
    hist : ndarray, int64
    origin, size : int
        Where the node's histogram begins, and the size of one role's part.
    n_search : int
        Rows of S1 in the node.
    features : ndarray of shape (p,), FEATURE
    levels : ndarray or None
        None for a table without categories.
    allowed : ndarray of shape (p,), uint8
    bonus : ndarray of shape (p,), float64
        Evidence gathered so far.
    rule : Rule
    low, high : float
        Bounds on the node's value by monotone constraints.
    scratch : Scratch
    out : ndarray of shape (p,), CANDIDATE
    """
    prefix = scratch.prefix
    two = rule.n_roles > 1
    three = rule.n_roles > 2
    none = np.int64(0)
    total1 = none
    total2 = none
    total3 = none
    # any feature's bins add up to the node
    at = np.uint64(origin + features[begin].offset)
    for b in range(np.uint64(features[begin].n_bins)):
        total1 += hist[at + b]
        if two:
            total2 += hist[at + b + np.uint64(size)]
        if three:
            total3 += hist[at + b + np.uint64(2 * size)]
    for f in range(begin, end):
        out[f].select = _NO_SPLIT
        if allowed[f] == 0:
            continue
        n = features[f].n_bins
        sign = features[f].monotone
        categorical = features[f].categorical != 0
        at1 = np.uint64(origin + features[f].offset)
        # unused roles read S1's place; what they read is not used
        at2 = at1 + np.uint64(size) if two else at1
        at3 = at2 + np.uint64(size) if three else at1
        m, listed = fill_prefix(hist, at1, n, n_search, levels, categorical, rule, scratch)
        if m == 0:
            continue
        order = scratch.order if listed else scratch.identity
        # what is on one side of a cut or the other: of a category, the levels that S1 has seen
        known2 = total2
        known3 = total3
        missing1 = hist[at1]
        missing2 = hist[at2] if two else none
        missing3 = hist[at3] if three else none
        if levels is not None and categorical:
            known2 = role_sum(hist, at2, order, none, m, levels, categorical) if two else none
            known3 = role_sum(hist, at3, order, none, m, levels, categorical) if three else none
            missing1 = none
        # S1 chooses: where to cut, and the side of its missing values
        top = _NO_SPLIT
        best = np.int64(-1)
        best_side = 0
        left2 = none
        left3 = none
        n_sides = 1 if missing1 == 0 else 2
        for side in range(n_sides):
            skip1 = missing1 if side == 1 else none
            skip2 = missing2 if side == 1 else none
            skip3 = missing3 if side == 1 else none
            # rows only get more from the left and fewer to the right: the cuts with enough on both sides are a range;
            # missing values alone on a side: all values left, they right; so the last cut is one only with them right
            first = none
            last = m - 1 + side
            while first < last and not enough_rows(prefix[first] - skip1, rule):
                first += 1
            while first < last and not enough_rows(total1 - prefix[last - 1] + skip1, rule):
                last -= 1
            left_is_large = False
            right_is_large = False
            if first < last:
                fill_gains(scratch, np.uint64(first), np.uint64(last), total1, skip1, sign, low, high, rule)
            while first < last:
                if not categorical and (order[first] == 0 or hist[at1 + np.uint64(order[first])] == 0):
                    # a cut behind the missing values alone, or behind a bin that S1 has no rows in
                    first += 1
                    continue
                k = first_largest(scratch, np.uint64(first), np.uint64(last))
                if not scratch.gain[k] > top:
                    break
                # the other roles' rows are counted at the best cut alone; only if there are too few, from the ends
                sum1 = prefix[k] - skip1
                sum2 = role_sum(hist, at2, order, none, k + 1, levels, categorical) - skip2 if two else none
                sum3 = role_sum(hist, at3, order, none, k + 1, levels, categorical) - skip3 if three else none
                if not left_is_large and not side_is_large(sum1, sum2, sum3, rule):
                    start = first_large(
                        hist, at2, at3, order, last, skip1, skip2, skip3, levels, categorical, rule, scratch
                    )
                    first = max(first, start)
                    left_is_large = True
                    if k < first:
                        continue
                if not right_is_large and not side_is_large(total1 - sum1, known2 - sum2, known3 - sum3, rule):
                    rest = (total1 + skip1, known2 + skip2, known3 + skip3)
                    last = behind_last_large(
                        hist, at2, at3, order, last, rest[0], rest[1], rest[2], levels, categorical, rule, scratch
                    )
                    right_is_large = True
                    if k >= last:
                        continue
                top = scratch.gain[k]
                best = k
                best_side = side
                left2 = sum2 + skip2
                left3 = sum3 + skip3
                break
        if best < 0:
            continue
        left1 = prefix[best]
        missing_left = goes_with_most(left1, total1, rule) if n_sides == 1 else best_side == 0
        out[f].missing_left = missing_left
        if levels is not None and categorical:
            out[f].bin = best + 1
            if missing_left:
                for b in range(np.uint64(n)):
                    left2 += hist[at2 + b] if hist[at1 + b] == 0 else none
                    left3 += hist[at3 + b] if hist[at1 + b] == 0 else none
        else:
            out[f].bin = order[best]
            if not missing_left:
                left1 -= missing1
                left2 -= missing2
                left3 -= missing3
        # what S1 has not seen may leave a side without enough rows
        if not side_is_large(left1, left2, left3, rule):
            continue
        if not side_is_large(total1 - left1, total2 - left2, total3 - left3, rule):
            continue
        enter(f, left1, left2, left3, total1, total2, total3, bonus, sign, rule, low, high, out)


@inline_kernel
def node_value(packed, low, high, rule):
    """Newton step of a set within bounds, in packed units."""
    value = -sum_g(packed) / (sum_h(packed, rule.bits) + rule.reg_lambda)
    return min(max(value, low), high)


@inline_kernel
def choose(features, out):
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
def allow(tree_allowed, groups, compatible, features, rule, node, allowed):
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
