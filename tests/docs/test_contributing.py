"""The recipes of CONTRIBUTING are whole changes: they apply to the sources, and their tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, blocks

RECIPES = [block.code for block in blocks((ROOT / "CONTRIBUTING.md").read_text("utf-8")) if block.language == "diff"]

# What each recipe adds to the tests, in their order.
TESTS = ("log_cosh", "agreement and by_the_book", "Bagging", "root_count", "lightgbm_extra")
FILES = (
    "tests/test_losses.py", "tests/training/test_splitting.py", "tests/importance/adapters/test_bagging.py",
    "tests/importance/test_baselines.py", "tests/experiments/test_study_methods.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> Path:
    """A copy of the sources with all recipes applied."""
    folder = tmp_path_factory.mktemp("recipes")
    for name in ("src", "tests", "experiments"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?", "golden"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for code in RECIPES:
        # -C1: a recipe may be a little behind the lines around it
        done = subprocess.run(["git", "apply", "-C1", "-"], cwd=folder, input=code, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}\n{code}"
    return folder


def test_recipes_work(changed):
    environment = {
        **os.environ,
        "PYTHONPATH": str(changed / "src"),
        "NUMBA_CACHE_DIR": str(changed / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    select = " or ".join(f"({words})" for words in TESTS)
    call = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *FILES, "-k", select, "-vv"]
    done = subprocess.run(call, cwd=changed, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in TESTS:
        assert words.split()[0] in done.stdout, f"no test of {words}"


def test_recipes_pass_the_linters(changed):
    names = [line[6:] for code in RECIPES for line in code.splitlines() if line.startswith("+++ b/")]
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache", *names],
            cwd=changed,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_all_five_are_there():
    assert len(RECIPES) == len(TESTS)
