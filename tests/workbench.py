"""Small tables, and boosters set on them without an estimator around them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from unbiasedgbm.frames import learn_schema
from unbiasedgbm.losses import SquaredError
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Booster
from unbiasedgbm.training.gradients import G_SHIFT
from unbiasedgbm.training.harvest import to_ensemble
from unbiasedgbm.training.setup import Constraints, Rows, make_booster
from unbiasedgbm.training.workspace import TrainingParameters

ALL_RULES = ("evidence", "merged", "separate", "without_se", "without_ub", "standard")

DEFAULTS = TrainingParameters(
    learning_rate=0.1,
    split_rule="standard",
    role_ratio=None,
    role_draw="tree",
    num_leaves=31,
    max_depth=None,
    min_samples_leaf=5,
    min_child_weight=1e-3,
    min_split_gain=0.0,
    reg_lambda=1.0,
    cat_smooth=5.0,
    subsample=1.0,
    colsample_bytree=1.0,
    colsample_bynode=1.0,
    n_bags=1,
    pull=0.0,
    clip=math.inf,
    linear_start=False,
    seed=0,
)


def trees_of(boosted, grown):
    """Grown trees as a model."""
    return to_ensemble(boosted.mapper, boosted.base, grown)


class OpenBooster(Booster):
    """Keeps what it packed, so that a twin can compute with the same numbers."""

    def _pack(self, *arguments):
        self.packing = super()._pack(*arguments)
        return self.packing

    def _dispersion(self, *arguments):
        self.dispersion = super()._dispersion(*arguments)
        return self.dispersion

    def roles(self):
        """Role of each row: 0, 1, 2 for S1, S2, S3, and 3 for rows left out."""
        return self.rows.roles.copy()

    def search_gradients(self):
        """g, h and count of each row as the split search of the last tree saw them."""
        packed, (_, g_scale, h_scale, bits, *_) = self.rows.packed, self.packing
        low = packed & ((1 << G_SHIFT) - 1)
        return (packed >> G_SHIFT) / g_scale, (low >> bits) / h_scale, low & ((1 << bits) - 1)

    def candidates(self):
        """Every feature's candidate in the last node that was scanned."""
        return self._lanes[0].memory.candidates.copy()


def booster(
    X,
    y,
    *,
    categorical=(),
    loss=None,
    weight=None,
    class_weight=None,
    max_bins=128,
    monotone=None,
    groups=None,
    n_jobs=1,
    **parameters,
) -> OpenBooster:
    """A booster on a NumPy table, before its first iteration."""
    p = X.shape[1]
    schema, table = learn_schema(X, categorical_features=list(categorical) or None, handle_unknown="missing")
    constraints = Constraints(
        np.zeros(p, np.int64) if monotone is None else np.asarray(monotone, np.int64),
        np.zeros((0, p), np.uint8) if groups is None else np.asarray(groups, np.uint8),
    )
    made, _, start = make_booster(
        Rows(table, np.asarray(y, np.float64), weight),
        class_weight,
        schema,
        constraints,
        dataclasses.replace(DEFAULTS, **parameters),
        max_bins,
        SquaredError() if loss is None else loss,
        None,
        Pool(n_jobs),
    )
    fields = {f.name: getattr(made, f.name) for f in dataclasses.fields(made) if f.init}
    opened = OpenBooster(**fields)
    opened.base, opened.table, opened.schema = start.base, table, schema
    return opened


def bins_of(boosted: Booster, j: int):
    """Bins of feature j, shape (n,)."""
    bins, column = boosted.rows.data.bins, int(boosted.features[j]["column"])
    n = len(boosted.rows.data.y)
    if column >= 0:
        return bins.narrow.reshape(n, bins.n_bytes)[:, column].astype(np.int64)
    return bins.wide.reshape(n, -1)[:, -1 - column].astype(np.int64)


def mixed_table(n=400, seed=0, n_levels=300):
    """Numbers (one with missing values, one of few values), a small category, a wide one; and a target that needs them.

    Returns
    -------
    X : ndarray of shape (n, 6)
        Columns 4 and 5 are categories (level numbers, NaN for missing).
    y : ndarray of shape (n,)
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n),
            rng.normal(size=n),
            rng.integers(0, 5, n),
            rng.exponential(size=n),
            rng.integers(0, 7, n),
            rng.integers(0, n_levels, n),
        ]
    ).astype(np.float64)
    effect = rng.normal(size=n_levels)
    y = X[:, 0] + np.abs(X[:, 1]) + 0.5 * (X[:, 4] % 3) + effect[X[:, 5].astype(int)] + rng.normal(size=n) * 0.3
    X[rng.random(n) < 0.2, 1] = np.nan
    X[rng.random(n) < 0.1, 4] = np.nan
    X[rng.random(n) < 0.1, 5] = np.nan
    y += np.isnan(X[:, 1])
    return X, y


def same_trees(a, b):
    """Whether two ensembles are equal in every bit of every array."""
    names = [f.name for f in dataclasses.fields(a)]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)
