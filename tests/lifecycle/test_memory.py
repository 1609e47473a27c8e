"""What a fit needs is what was estimated."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from unbiasedgbm import estimate_memory

# Peak of a second fit beyond what was held before it; the first one compiles all that the second one needs.
SCRIPT = """
import ctypes, gc, json, sys
import numpy as np
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

n, p, n_classes, params = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
kind = UnbiasedGBMRegressor if n_classes == 1 else UnbiasedGBMClassifier
X = rng.normal(size=(n, p))
y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)
if n_classes > 1:
    y = np.digitize(y, np.linspace(-1, 1, n_classes - 1))
for n_estimators in (1, 5):
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    kind(n_estimators=n_estimators, min_split_gain=-np.inf, **params).fit(X, y)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc, which only Linux has")
@pytest.mark.parametrize(
    ("n", "p", "n_classes", "params"),
    [
        (400_000, 20, 2, {"n_jobs": 2}),
        (200_000, 10, 5, {"n_jobs": 1}),
        (400_000, 8, 1, {"n_jobs": 2, "num_leaves": 127, "split_rule": "standard"}),
        (20_000, 250, 2, {"n_jobs": 2}),
        # histograms are nearly all of it, and trees are too small to need them all
        (5_000, 1_000, 2, {"n_jobs": 1}),
        (1_500, 2_000, 1, {"n_jobs": 2}),
        (5_000, 400, 1, {"n_jobs": 1, "num_leaves": 255, "split_rule": "standard"}),
        (10_000, 300, 2, {"n_jobs": 1, "num_leaves": 127, "min_samples_leaf": 20}),
    ],
)
def test_the_estimate_is_within_30_percent_of_the_peak(n, p, n_classes, params):
    argument = json.dumps([n, p, n_classes, params])
    done = subprocess.run([sys.executable, "-c", SCRIPT, argument], capture_output=True, text=True, check=True)
    ratio = estimate_memory(n, p, n_classes=n_classes, n_estimators=5, **params) / int(done.stdout)
    assert 0.7 <= ratio <= 1.3


def test_estimate_grows_with_what_matters():
    base = estimate_memory(100_000, 20, n_jobs=1)
    assert estimate_memory(1_000_000, 20, n_jobs=1) > 3 * base
    # the default's trees take as much room as 100,000 rows; with smaller ones it is the rows that count
    small = {"n_estimators": 500, "num_leaves": 31, "n_bags": 1, "n_jobs": 1}
    assert estimate_memory(200_000, 20, **small) > 1.5 * estimate_memory(100_000, 20, **small)
    assert estimate_memory(100_000, 200, n_jobs=1) > base
    assert estimate_memory(100_000, 20, n_classes=10, n_jobs=1) > base
    assert estimate_memory(100_000, 20, num_leaves=511, n_jobs=1) > base
    assert estimate_memory(100_000, 20, split_rule="standard", n_jobs=1) < base
    # histograms are kept within a limit
    assert estimate_memory(1000, 20_000, num_leaves=100_000, n_jobs=1) < 2 << 30


def test_estimate_checks_its_arguments():
    with pytest.raises(TypeError, match="depth"):
        estimate_memory(10, 10, depth=3)
    with pytest.raises(ValueError, match="num_leaves"):
        estimate_memory(10, 10, num_leaves=1)
    with pytest.raises(ValueError, match="n_rows"):
        estimate_memory(0, 10)
