"""Wheel and sdist are built and installed; the small core works alone; types are seen from a user's side."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import unbiasedgbm
from docs.pages import ROOT

CORE = Path(__file__).with_name("core_only.py")
# What wheels of pure Python have beyond modules.
DATA = {"unbiasedgbm/py.typed", "unbiasedgbm/files/model.schema.json", "unbiasedgbm/report/template.html"}


def run(*words: object, **options: object) -> str:
    """Run a command in an environment that knows nothing of this checkout; its output."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    call = [str(word) for word in words]
    done = subprocess.run(call, capture_output=True, text=True, env={**clean, "PIP_NO_INPUT": "1"}, **options)
    assert done.returncode == 0, f"{call}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[str, Path]:
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return {"sdist": next(folder.glob("*.tar.gz")), "wheel": next(folder.glob("*.whl"))}


@pytest.fixture(scope="module")
def interpreter(packages, tmp_path_factory) -> Path:
    """Python of an environment with the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", packages["wheel"])
    return python


def test_the_wheel_holds_the_package_and_nothing_else(packages):
    names = set(zipfile.ZipFile(packages["wheel"]).namelist())
    folder = ROOT / "src" / "unbiasedgbm"
    modules = {f"unbiasedgbm/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}
    ours = {name for name in names if name.startswith("unbiasedgbm/")}
    assert ours == modules | DATA
    assert all(name.startswith(f"unbiasedgbm-{unbiasedgbm.__version__}.dist-info/") for name in names - ours)


def test_the_sdist_installs_the_same_files(packages, tmp_path):
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-compile",
        "--target", tmp_path, packages["sdist"],
    )  # fmt: skip
    wheel = zipfile.ZipFile(packages["wheel"])
    for name in wheel.namelist():
        if name.startswith("unbiasedgbm/"):
            assert (tmp_path / name).read_bytes() == wheel.read(name), name


USER = """\
import numpy as np
import unbiasedgbm
from unbiasedgbm import Importance, UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model, unbiased_gain

X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
model = UnbiasedGBMClassifier(n_estimators=5, split_rule="merged").fit(X, y)
reveal_type(model)
reveal_type(model.predict_proba(X))
result: Importance = unbiased_gain(model, X, y, X, y)
reveal_type(result.p_value)
reveal_type(unbiasedgbm.__version__)
UnbiasedGBMRegressor(n_estimators="many")
unbiased_gain(model, X, y)
unbiasedgbm.nonsense
"""


def test_an_empty_environment(interpreter, tmp_path):
    # one test for both, so that only one environment is made, whatever process runs it
    check_core(interpreter, tmp_path)
    check_types(interpreter, tmp_path)


def check_core(interpreter: Path, tmp_path: Path) -> None:
    """The core works alone, and says what the extras are."""
    seen = run(interpreter, CORE, cwd=tmp_path)
    assert f"version {unbiasedgbm.__version__}" in seen
    for words in ("training works", "importance works", "report works"):
        assert words in seen
    extras = {"plot", "shap", "export", "cli", "tune", "dask"}
    assert extras == {extra for extra in extras if f"pip install 'unbiasedgbm[{extra}]'" in seen}


def check_types(interpreter: Path, tmp_path: Path) -> None:
    """Mypy sees our types in a user's file, and the user's mistakes."""
    (tmp_path / "user.py").write_text(USER)
    call = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(interpreter), "user.py"]
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    shown = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, env=clean).stdout
    lines = {int(line.split(":")[1]): line for line in shown.splitlines() if line.startswith("user.py:")}
    for number, words in {
        7: "UnbiasedGBMClassifier",
        8: "float64",
        10: "float64",
        11: "str",
        12: 'incompatible type "str"; expected "int"',
        13: "Missing positional arguments",
        14: 'no attribute "nonsense"',
    }.items():
        assert words in lines[number], shown
    assert set(lines) == {7, 8, 10, 11, 12, 13, 14}, shown


def test_workflows_name_what_exists():
    """The GitHub workflows are for use outside; here they are read."""
    targets = {line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        names.add(path.stem)
        workflow = yaml.safe_load(path.read_text())
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        for command in "\n".join(step.get("run", "") for step in steps).splitlines():
            words = command.split()
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets, command
            if ".[" in command:
                assert set(command.partition(".[")[2].partition("]")[0].split(",")) <= set(extras), command
        assert all("@" in step["uses"] for step in steps if "uses" in step)
    assert names == {"test", "docs", "release"}
