"""The paper's normalised AUC."""

from __future__ import annotations

import numpy as np
import pandas as pd


def normalise(scores: pd.DataFrame, worst: pd.Series, best: pd.Series) -> pd.DataFrame:
    """Bring scores of tables of different difficulty to the range from 0 to 1.

    "This metric normalizes each test AUC between 0 and 1 via a min-max normalization using the worst AUC and the best
    AUC of all the models on the dataset."

    Parameters
    ----------
    scores : DataFrame, tables × anything
    worst, best : Series by table
        Over all models that were trained on the table, every method and every tuning iteration.

    Returns
    -------
    normalised : DataFrame
        0.5 throughout where all models were equally good.
    """
    width = (best - worst).replace(0.0, np.nan)
    return scores.sub(worst, axis=0).div(width, axis=0).where(width.notna(), 0.5, axis=0)
