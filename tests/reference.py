"""The split rules and Algorithm 2 in plain floats and masks: slow, obvious, and the judge of the engine.

Nothing here knows of histograms, packed words, slots or threads. Rows are masks, sums are sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from workbench import bins_of, trees_of

N_ROLES = {"evidence": 2, "merged": 2, "separate": 3, "without_se": 2, "without_ub": 2, "standard": 1}


@dataclass
class Candidate:
    """A feature's best split of a node: who goes left, and what the split is worth."""

    left: np.ndarray
    select: float
    accept: float
    evidence: float
    middle: float


@dataclass
class Node:
    rows: np.ndarray
    depth: int
    low: float
    high: float
    candidates: list


class Twin:
    """What one tree of a booster should have been, by the book.

    Parameters
    ----------
    boosted : OpenBooster
        After the iteration whose tree is checked.
    bonus : ndarray of shape (p + 32,)
        Evidence for features and node sizes before that iteration.
    limit : float
        What gain(S2) has to exceed by the default rule.
    """

    def __init__(self, boosted, bonus=None, limit=2.0):
        self.p = boosted.parameters
        self.rule = self.p.split_rule
        self.g, self.h, self.count = boosted.search_gradients()
        self.role = boosted.roles()
        self.features = boosted.features
        self.bins = [bins_of(boosted, j) for j in range(len(boosted.features))]
        self.dispersion = boosted.dispersion
        self.limit = limit
        bonus = np.zeros(len(self.bins) + 32) if bonus is None else bonus
        self.bonus, self.node_bonus = np.split(bonus, [len(self.bins)])

    # -- section 2 of the design ---------------------------------------------------------------------------------------

    def sums(self, rows, role):
        chosen = rows & (self.role == role if role is not None else self.role < 3)
        return self.g[chosen].sum(), self.h[chosen].sum()

    def gain(self, left, rows, roles):
        def part(side):
            g, h = np.sum([self.sums(side, r) for r in roles], axis=0)
            return g * g / (h + self.p.reg_lambda)

        return 0.5 * (part(left) + part(rows & ~left) - part(rows))

    def cross(self, left, rows, a, b):
        def part(side):
            ga = sum(self.sums(side, r)[0] for r in a)
            gb, hb = np.sum([self.sums(side, r) for r in b], axis=0)
            return ga * gb / (hb + self.p.reg_lambda)

        return 0.5 * (part(left) + part(rows & ~left) - part(rows))

    def evidence(self, left, rows):
        def part(side):
            (g1, h1), (g2, h2) = self.sums(side, 0), self.sums(side, 1)
            return g1 * g2 / (h1 + h2 + self.p.reg_lambda)

        return part(left) + part(rows & ~left) - part(rows)

    def judge(self, f, left, rows):
        """select, accept, evidence."""
        if self.rule == "evidence":
            score = 2 * self.gain(left, rows, [1]) / self.dispersion - self.limit + self.bonus[f]
            return score, score, self.evidence(left, rows) / self.dispersion
        if self.rule == "merged":
            score = self.cross(left, rows, [0, 1], [1])
        elif self.rule == "separate":
            return self.cross(left, rows, [0], [1]), self.cross(left, rows, [0, 1], [2]), 0.0
        elif self.rule == "without_se":
            return self.gain(left, rows, [0]), self.cross(left, rows, [0], [1]), 0.0
        elif self.rule == "without_ub":
            score = self.gain(left, rows, [1])
        else:
            score = self.gain(left, rows, [0])
        return score, score, 0.0

    # -- the search ----------------------------------------------------------------------------------------------------

    def large(self, side):
        """Enough rows in every role, and enough hessian in all of them together."""
        for role in range(N_ROLES[self.rule]):
            if self.count[side & (self.role == role)].sum() < self.p.min_samples_leaf:
                return False
        return self.sums(side, None)[1] >= self.p.min_child_weight * (1 - 1e-12)

    def value(self, side, low, high):
        g, h = self.sums(side, 0)
        return min(max(-g / (h + self.p.reg_lambda), low), high)

    def cuts(self, f, rows):
        """Left side of every cut that S1 can tell apart: what S1 has not seen is on neither side yet."""
        b, s1 = self.bins[f], rows & (self.role == 0)
        seen = np.unique(b[s1])
        known = rows & np.isin(b, seen)
        if self.features[f]["categorical"]:
            keys = []
            for level in seen:
                g, h = self.sums(rows & (b == level), 0)
                keys.append(g / (h + self.p.cat_smooth))
            order = seen[np.argsort(keys, kind="stable")]
            return [(rows & np.isin(b, order[:k]), known) for k in range(1, len(order))]
        sides = [rows & (b <= k) for k in seen[:-1] if k > 0]
        if 0 in seen:
            # behind the last one, all values that S1 has are on the left and the missing ones on the right
            sides += [rows & (b <= k) & (b > 0) for k in seen if k > 0]
        return [(side, rows) for side in sides]

    def candidate(self, f, node):
        rows, sign = node.rows, int(self.features[f]["monotone"])
        best, top = None, -np.inf
        for left, known in self.cuts(f, rows):
            right = known & ~left
            if not (self.large(left) and self.large(right)):
                continue
            if sign and sign * (self.value(right, node.low, node.high) - self.value(left, node.low, node.high)) < 0:
                continue
            score = self.gain(left, known, [0])
            if best is None or score > top + 1e-12 * abs(top):
                best, top = left, score
        if best is None:
            return None
        # what S1 has not seen at the node goes with most of its rows, by hessian
        s1 = rows & (self.role == 0)
        unseen = rows & ~np.isin(self.bins[f], np.unique(self.bins[f][s1]))
        if not self.features[f]["categorical"]:
            unseen &= self.bins[f] == 0
        most_left = self.sums(best, 0)[1] >= self.sums(rows & ~best, 0)[1]
        left = (best | unseen) if most_left else (best & ~unseen)
        if not (self.large(left) and self.large(rows & ~left)):
            return None
        middle = 0.5 * (self.value(left, node.low, node.high) + self.value(rows & ~left, node.low, node.high))
        return Candidate(left, *self.judge(f, left, rows), middle)

    def node(self, rows, depth=0, low=-np.inf, high=np.inf, allowed=None):
        node = Node(rows, depth, low, high, [])
        may_split = self.p.max_depth is None or depth < self.p.max_depth
        for f in range(len(self.bins)):
            ok = may_split and (allowed is None or f in allowed)
            node.candidates.append(self.candidate(f, node) if ok else None)
        return node

    def score(self, node):
        """Feature and score of a node's best split; −1 and −inf if it has none."""
        selects = [-np.inf if c is None else c.select for c in node.candidates]
        if not np.isfinite(selects).any():
            return -1, -np.inf
        best = int(np.argmax(selects))
        return best, node.candidates[best].accept + self.node_bonus[self.bucket(node)]

    def bucket(self, node):
        """Logarithm of a node's rows."""
        return int((node.rows & (self.role < 3)).sum()).bit_length() - 1

    def found(self, node, chosen):
        """What a node whose best feature is ``chosen`` adds to the evidence of features and of its size."""
        result = np.zeros(len(self.bins) + 32)
        for f, c in enumerate(node.candidates):
            result[f] = 0.0 if c is None else c.evidence
        if chosen >= 0:
            result[len(self.bins) + self.bucket(node)] = node.candidates[chosen].evidence
        return result


def goes_left(tree, k, X):
    """Who goes left at a node, by the words of `TreeEnsemble`."""
    x = X[:, tree.feature[k]]
    if tree.set_start[k] >= 0:
        words = tree.sets[tree.set_start[k] : tree.set_start[k] + tree.set_words[k]]
        bit = np.where(np.isnan(x), 0, np.nan_to_num(x) + 1).astype(np.int64)
        return (words[bit >> 6] >> (bit & 63).astype(np.uint64)) & np.uint64(1) == 1
    return np.where(np.isnan(x), tree.missing_left[k], x <= tree.threshold[k])


def close(a, b):
    return abs(a - b) <= 1e-7 * max(1.0, abs(a), abs(b))


def check_tree(boosted, grown, twin, groups=None, on_trial=False):
    """Assert that a grown tree is what Algorithm 2 grows, split by split; returns the evidence and the importance.

    Where two features or cuts score the same to seven digits, the engine's choice is followed. A root on trial has been
    divided although its split was turned away.
    """
    tree, p = trees_of(boosted, [grown]), boosted.parameters
    X = boosted.table.block(0, len(boosted.rows.data.y))
    rows = {0: twin.role < 4}
    nodes = {0: twin.node(rows[0])}
    n_leaves = 1
    order = sorted(np.flatnonzero(tree.left >= 0), key=lambda k: tree.left[k])
    found = np.zeros(len(twin.bins) + 32)
    importance = np.zeros(len(twin.bins))
    evaluated = [0]
    for k in order:
        scores = {i: twin.score(node)[1] for i, node in nodes.items() if node is not None}
        chosen, node = tree.feature[k], nodes[k]
        # leaf-wise: the best of all leaves was split
        assert scores[k] >= p.min_split_gain - 1e-9 or (on_trial and k == 0)
        assert close(scores[k], max(scores.values()))
        best, _ = twin.score(node)
        mine = node.candidates[chosen]
        assert mine is not None, "the engine split where there is no split"
        assert close(tree.score[k], mine.accept + twin.node_bonus[twin.bucket(node)])
        assert close(mine.select, node.candidates[best].select)
        left = goes_left(tree, k, X) & rows[k]
        in_tree = twin.role < 3
        np.testing.assert_array_equal(left & in_tree, mine.left & in_tree)
        importance[chosen] += mine.evidence * 0.5 * twin.dispersion if p.split_rule == "evidence" else mine.accept
        n_leaves += 1
        sign = int(twin.features[chosen]["monotone"])
        for side in (0, 1):
            child = int(tree.left[k]) + side
            rows[child] = left if side == 0 else rows[k] & ~left
            low, high = node.low, node.high
            if sign:
                if (sign > 0) == (side == 0):
                    high = min(high, mine.middle)
                else:
                    low = max(low, mine.middle)
            more = n_leaves < p.num_leaves
            nodes[child] = twin.node(rows[child], node.depth + 1, low, high) if more else None
            if more:
                evaluated.append(child)
        del nodes[k]
        found += twin.found(node, chosen)
    for i, node in nodes.items():
        if node is None:
            continue
        best, score = twin.score(node)
        if n_leaves < p.num_leaves:
            assert score < p.min_split_gain + 1e-9, "a leaf that should have been split was not"
        # of features that score the same, the one with the smaller content hash is taken
        chosen = int(grown.node["feature"][i])
        assert (chosen < 0) == (best < 0)
        if best >= 0:
            c = node.candidates[chosen]
            assert close(c.select, node.candidates[best].select)
            if score < p.min_split_gain:
                importance[chosen] += c.evidence * 0.5 * twin.dispersion if p.split_rule == "evidence" else c.accept
        found += twin.found(node, chosen)
        assert i in evaluated
    leaves = {i: mask for i, mask in rows.items() if tree.left[i] < 0}
    return leaves, found, importance
