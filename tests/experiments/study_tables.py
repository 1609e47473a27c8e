"""Tables that the tests of the study generate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]


def numbers_frame(rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(rows, 32)), columns=[f"x:{index}" for index in range(32)])
    return X.assign(target=np.where(X["x:0"] + X["x:1"] + rng.normal(size=rows) > 0, "yes", "no"))


def categories_frame(rows: int = 180) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    colour = rng.choice(["red", "green", "blue"], size=rows)
    number = rng.normal(size=rows)
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(rows) < 0.1, np.nan, number),
            "colour, of it": pd.Categorical(np.where(rng.random(rows) < 0.1, None, colour)),
            "name": pd.Categorical([f"n{value}" for value in rng.integers(60, size=rows)]),
        }
    )
    return frame.assign(target=2.0 * number + (colour == "red") + rng.normal(size=rows))
