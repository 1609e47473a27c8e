"""A polars frame with text and missing values in, an ONNX model with the same predictions out."""

import numpy as np
import onnxruntime
import polars as pl

from unbiasedgbm import UnbiasedGBMRegressor
from unbiasedgbm.export import to_onnx

rng = np.random.default_rng(0)
n = 2000
table = pl.DataFrame(
    {
        "city": rng.choice(["Bern", "Oslo", "Rome"], n),
        "rooms": rng.integers(1, 7, n),
        "year": np.where(rng.random(n) < 0.1, np.nan, rng.integers(1900, 2025, n)),
    }
)
price = 100 * table["rooms"].to_numpy() + 200 * (table["city"] == "Oslo").to_numpy() + rng.normal(0, 20, n)
model = UnbiasedGBMRegressor(n_estimators=100).fit(table, price)

session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
# a model with categories has one input of shape (n, 1) for each feature
inputs = {"city": table["city"].to_numpy().astype(object)[:, None]}
inputs |= {name: table[name].to_numpy().astype(np.float64)[:, None] for name in ("rooms", "year")}
served = session.run(None, inputs)[0].ravel()
gap = np.abs(served - model.predict(table)).max()
print(f"Largest difference between ONNX and Python on {n:,} rows: {gap:.2g}")
