"""The paper's example: one weak binary feature beside a useless category and a useless number.

X1 is binary, X2 has 6 levels, X3 is standard normal, y = 0.1 X1 + noise. Gain ranks the useless features first;
unbiased gain does not. One job is a block of repetitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.jobs import Chain, Job
from experiments.studies.bench import Bench, quiet

STUDY = "toy"
TREES = (1, 100)
KINDS = ("gain", "unbiased_gain", "paper_sums")
BLOCK = 20
ROWS = 1000
"""Training rows, and as many held-out rows; the paper does not say how many it used."""


def chains(repetitions: int) -> list[Chain]:
    """Return the jobs for one tree and for a hundred."""
    return [
        Chain(Job(STUDY, "toy", f"{trees} tree" + "s" * (trees > 1), block, options={"trees": trees, "rows": ROWS}))
        for trees in TREES
        for block in range(-(-repetitions // BLOCK))
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Return gain, unbiased gain and the paper's sums of the three features, (repetitions, 3) each."""
    rng = np.random.default_rng([job.seed, job.options["trees"]])
    rows, trees = job.options["rows"], job.options["trees"]
    with quiet(bench.threads):
        values = [importances(sample(rows, rng), sample(rows, rng), trees, bench.threads) for _ in range(BLOCK)]
    return {kind: np.round(column, 9).tolist() for kind, column in zip(KINDS, zip(*values, strict=True), strict=True)}


def sample(rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw features (rows, 3) and target (rows,) of the paper's Example 1."""
    X = pd.DataFrame(
        {
            "X1": rng.integers(2, size=rows),
            "X2": pd.Categorical.from_codes(rng.integers(6, size=rows), list("abcdef")),
            "X3": rng.normal(size=rows),
        }
    )
    return X, 0.1 * X["X1"].to_numpy() + rng.normal(size=rows)


def importances(
    train: tuple[pd.DataFrame, np.ndarray], held_out: tuple[pd.DataFrame, np.ndarray], trees: int, threads: int
) -> tuple[np.ndarray, ...]:
    """Return gain, in units of the loss a row, unbiased gain and the paper's sums, each (3,), of a LightGBM model.

    LightGBM's own regularisation of categories is off, since the example is about what happens without any.
    """
    from lightgbm import LGBMRegressor

    from unbiasedgbm.importance.gain import unbiased_gain

    plain = {"cat_smooth": 0.0, "cat_l2": 0.0, "min_data_per_group": 1}
    model = LGBMRegressor(n_estimators=trees, n_jobs=threads, verbose=-1, **plain).fit(*train)
    gain = model.booster_.feature_importance("gain") / (2 * len(train[1]))
    ours, papers = (
        unbiased_gain(model, *train, *held_out, paper_sums=paper_sums, n_jobs=threads).importance
        for paper_sums in (False, True)
    )
    return gain, ours, papers
