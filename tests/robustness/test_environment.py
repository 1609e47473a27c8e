"""Import loads nothing heavy; without a place for compiled kernels everything still works."""

import os
import shutil
import subprocess
import sys

import pytest

import unbiasedgbm

FIT = """
import numpy as np
from unbiasedgbm import UnbiasedGBMRegressor
X = np.random.default_rng(0).normal(size=(200, 2))
model = UnbiasedGBMRegressor(n_estimators=2, split_rule="standard", n_jobs=1).fit(X, X[:, 0])
print(float(model.predict(X[:1])[0]))
"""


def run(program, **environment):
    env = {key: value for key, value in {**os.environ, **environment}.items() if value is not None}
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout.strip()


def test_import_is_light():
    heavy = ("numba", "sklearn", "scipy", "pandas", "narwhals")
    assert run(f"import sys, unbiasedgbm; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_public_names():
    assert {"UnbiasedGBMClassifier", "UnbiasedGBMRegressor", "__version__"} <= set(unbiasedgbm.__all__)
    assert set(unbiasedgbm.__all__) <= set(dir(unbiasedgbm))
    for name in unbiasedgbm.__all__:
        getattr(unbiasedgbm, name)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = unbiasedgbm.nonsense


@pytest.fixture
def no_place(tmp_path):
    """A folder that cannot be made: a file stands in its way, which stops root, too."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    return str(blocker / "cache")


def test_no_writable_cache(no_place, tmp_path):
    # a copy of the package whose own folder has a file where numba would put its cache
    source = os.path.dirname(unbiasedgbm.__file__)
    home = tmp_path / "site"
    shutil.copytree(source, home / "unbiasedgbm", ignore=shutil.ignore_patterns("__pycache__", "catboost_info"))
    for folder, _, _ in os.walk(home / "unbiasedgbm"):
        with open(os.path.join(folder, "__pycache__"), "w"):
            pass
    program = f"""
import sys
sys.path.insert(0, {str(home)!r})
{FIT}
import unbiasedgbm
assert unbiasedgbm.__file__.startswith({str(home)!r})
"""
    answer = run(program, NUMBA_CACHE_DIR=no_place, HOME=None, XDG_CACHE_HOME=no_place, PYTHONDONTWRITEBYTECODE="1")
    assert float(answer) == pytest.approx(float(run(FIT)))


def test_unwritable_cache_variable_alone(no_place):
    assert float(run(FIT, NUMBA_CACHE_DIR=no_place)) == pytest.approx(float(run(FIT)))
