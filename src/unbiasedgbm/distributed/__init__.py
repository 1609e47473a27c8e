"""Training on a Dask cluster: the same model as on one machine, to the bit."""

from __future__ import annotations

try:
    import dask
    import distributed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("unbiasedgbm.distributed needs Dask: pip install 'unbiasedgbm[dask]'.") from error

from unbiasedgbm.distributed.estimators import DaskUnbiasedGBMClassifier, DaskUnbiasedGBMRegressor
from unbiasedgbm.distributed.gain import unbiased_gain

__all__ = ["DaskUnbiasedGBMClassifier", "DaskUnbiasedGBMRegressor", "unbiased_gain"]

del dask, distributed
