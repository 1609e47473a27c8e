"""Run in an environment with nothing but the library: the core works, and what needs an extra says which one.

`test_packaging` runs this file with the interpreter of that environment; it prints one line for each thing that it saw.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier

import unbiasedgbm
from unbiasedgbm import (
    UnbiasedGainSelector,
    UnbiasedGBMClassifier,
    UnbiasedGBMRegressor,
    load_model,
    shap_importance,
    unbiased_gain,
    write_report,
)
from unbiasedgbm.callbacks import OptunaPruning, ProgressBar, TimeLimit, TrainingState
from unbiasedgbm.export import to_frame, to_onnx, to_shap, to_treelite

ABSENT = (
    "pandas", "polars", "pyarrow", "matplotlib", "shap", "optuna", "typer", "rich", "onnx", "treelite", "dask",
    "xgboost", "lightgbm", "catboost", "pytest",
)  # fmt: skip
found = [name for name in ABSENT if importlib.util.find_spec(name)]
assert not found, f"not an empty environment: {found}"
assert Path(unbiasedgbm.__file__).is_relative_to(sys.prefix), unbiasedgbm.__file__
print("version", unbiasedgbm.__version__)

X, y = load_breast_cancer(return_X_y=True)
model = UnbiasedGBMClassifier(n_estimators=20).fit(X[:400], y[:400], callbacks=[TimeLimit(600)])
assert model.score(X[400:], y[400:]) > 0.9
model.save_model("model.json")
assert np.array_equal(load_model("model.json").predict_proba(X), model.predict_proba(X))
assert UnbiasedGBMRegressor(n_estimators=20).fit(*load_diabetes(return_X_y=True)).n_iter_ == 20
print("training works")

other = HistGradientBoostingClassifier(max_iter=20).fit(X[:400], y[:400])
for explained in (model, other):
    result = unbiased_gain(explained, X[:400], y[:400], X[400:], y[400:])
    assert result.p_value.min() < 1e-3, result
assert UnbiasedGainSelector(other, mode="k_best", param=5).fit_transform(X, y).shape[1] == 5
print("importance works")

write_report(model, "report.html", X[:400], y[:400], X[400:], y[400:])
assert Path("report.html").stat().st_size > 50_000
print("report works")


def expect(extra: str, call: object, *arguments: object) -> None:
    """A call that needs an extra must say which one."""
    try:
        call(*arguments)  # type: ignore[operator]
    except ModuleNotFoundError as error:
        said = str(error)
    else:
        raise AssertionError(f"{call} works without {extra}")
    assert f"pip install {extra}" in said, said
    print("says so:", said)


expect("'unbiasedgbm[plot]'", result.plot)
expect("'unbiasedgbm[shap]'", shap_importance, other, X)
expect("'unbiasedgbm[shap]'", to_shap, model)
expect("'unbiasedgbm[export]'", to_onnx, model)
expect("'unbiasedgbm[export]'", to_treelite, model)
expect("'unbiasedgbm[cli]'", lambda: model.fit(X, y, callbacks=[ProgressBar()]))
expect("'unbiasedgbm[tune]'", OptunaPruning(None).after_iteration, TrainingState(1, 2))
expect("'unbiasedgbm[dask]'", importlib.import_module, "unbiasedgbm.distributed")
expect("pandas", result.to_frame)
expect("pandas", to_frame, model)
told = subprocess.run([sys.executable, "-m", "unbiasedgbm", "demo"], capture_output=True, text=True)
assert told.returncode == 1, told
assert told.stderr.strip().endswith("pip install 'unbiasedgbm[cli]'"), told
assert "Traceback" not in told.stderr
print("says so:", told.stderr.strip())
