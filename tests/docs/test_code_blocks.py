"""Every code block of README and docs is run, and every command is run or checked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.pages import PAGES, ROOT, Block, blocks, commands, name_of, prose

RUNNABLE = {"python", "sh"}
# `diff` is applied and tested by test_contributing.
SHOWN = {"text", "bibtex", "diff"}

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))


def with_code() -> list[Path]:
    return [page for page in PAGES if any(block.language in RUNNABLE for block in blocks(page.read_text("utf-8")))]


@pytest.mark.parametrize("page", with_code(), ids=name_of)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        # what a page shows must not warn; other libraries may
        warnings.filterwarnings("error", category=UserWarning, module="unbiasedgbm")
        for block in blocks(page.read_text("utf-8")):
            if block.language == "python":
                exec(compile("\n" * (block.line - 1) + block.code, name_of(page), "exec"), namespace)
            elif block.language == "sh":
                for command in commands(block.code):
                    check_command(command, monkeypatch)


def test_the_first_block_on_clusters_is_a_script(tmp_path):
    """The workers of a local cluster import it."""
    pytest.importorskip("distributed")
    page = ROOT / "docs" / "scale" / "dask.md"
    script = tmp_path / "script.py"
    script.write_text(next(block.code for block in blocks(page.read_text("utf-8")) if block.language == "python"))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_every_block_has_a_known_language():
    for page in PAGES:
        for block in blocks(page.read_text("utf-8")):
            assert block.language in RUNNABLE | SHOWN, f"{name_of(page)}:{block.line}: ```{block.language}"


def test_targets_and_extras_named_in_prose_exist():
    for page in PAGES:
        text = prose(page.read_text("utf-8"))
        for target in re.findall(r"`make (\w+)", text):
            assert target in TARGETS, f"{name_of(page)}: make {target}"
        for extras in re.findall(r"(?:unbiasedgbm|\.)\[([\w,]+)\]", text):
            assert set(extras.split(",")) <= set(EXTRAS), f"{name_of(page)}: [{extras}]"


def test_the_readme_begins_with_two_short_blocks():
    first, second = [
        block.code for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.language == "python"
    ]
    for code in (first, second):
        assert len([line for line in code.splitlines() if line]) <= 10


def test_the_readme_lists_all_extras():
    table = (ROOT / "README.md").read_text("utf-8").partition("| extra |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.M)) >= {"`plot`", "`all`, `dev`"}
    assert set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))) == set(EXTRAS)


# -- commands --------------------------------------------------------------------------------------------------------


def check_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command of ours; of the others see that what they name exists."""
    words = shlex.split(command)
    if words[:2] == ["python", "-m"]:
        words = words[2:]
    elif words[0] == "python":
        words = ["script", *words[1:]]
    checks = {
        "unbiasedgbm": run_ours, "make": check_make, "pip": check_pip, "experiments": check_study,
        "pytest": check_pytest, "benchmarks": check_benchmarks, "tools": check_tools, "script": check_script,
        "git": check_git, ".": check_activate, "cd": lambda words, monkeypatch: None,
    }  # fmt: skip
    assert words[0] in checks, f"nothing checks {command!r}"
    checks[words[0]](words[1:], monkeypatch)


def run_ours(words, monkeypatch):
    from unbiasedgbm import demo
    from unbiasedgbm.cli import app

    monkeypatch.setattr(demo, "_TOY_REPEATS", 2)
    monkeypatch.setattr(demo, "_SPLITS", 1)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{words}: {result.output}"


def check_make(words, monkeypatch):
    assert {word for word in words if "=" not in word} <= TARGETS, words


def check_pip(words, monkeypatch):
    assert words[0] == "install", words
    (package,) = [word for word in words[1:] if not word.startswith("-")]
    match = re.fullmatch(r"(?:\.|unbiasedgbm)(?:\[([\w,]+)\])?", package)
    assert match, package
    assert set((match[1] or "all").split(",")) <= set(EXTRAS), package


def check_study(words, monkeypatch):
    from experiments.cli import app

    command, *arguments = words
    if command.startswith("-"):
        command, arguments = "", words
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, [*[command] * bool(command), "--help"])
    assert shown.exit_code == 0, shown.output
    for option in (word for word in arguments if word.startswith("--")):
        assert option in shown.output, f"{command} has no {option}"


def check_benchmarks(words, monkeypatch):
    shown = _help("benchmarks")
    assert all(word in shown for word in words if word.startswith("--")), words
    if "--sections" in words:
        from benchmarks.sections import SECTIONS

        assert set(words[words.index("--sections") + 1].split(",")) <= set(SECTIONS)


def check_tools(words, monkeypatch):
    assert set(words) <= {"--check"}


def check_script(words, monkeypatch):
    path = ROOT / words[0]
    compile(path.read_text("utf-8"), words[0], "exec")


def check_activate(words, monkeypatch):
    assert words == [".venv/bin/activate"]
    assert "VENV   ?= .venv" in (ROOT / "Makefile").read_text()


def check_git(words, monkeypatch):
    assert words[0] in ("clone", "commit", "switch"), words


def check_pytest(words, monkeypatch):
    markers = " ".join(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"])
    for option, word in zip(["", *words], words, strict=False):
        if word.startswith("tests/"):
            path, _, name = word.partition("::")
            assert (ROOT / path).exists(), word
            assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), word
        elif not word.startswith("-"):
            assert option in ("-n", "-k", "-m"), words
            assert option != "-m" or f"{word}:" in markers, words


@cache
def _help(module: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    call = [sys.executable, "-m", module, "--help"]
    return subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout


def test_blocks_are_found_with_their_lines():
    text = "a\n\n```python\nx = 1\n```\n\n<!-- setup\ny = 2\n-->\n```sh\nmake \\\n  test  # c\n```\n"
    assert blocks(text) == [
        Block("python", "x = 1\n", 4),
        Block("python", "y = 2\n", 8),
        Block("sh", "make \\\n  test  # c\n", 11),
    ]
    assert commands(blocks(text)[2].code) == ["make test"]


def test_an_unknown_command_is_noticed(monkeypatch):
    with pytest.raises(AssertionError, match="nothing checks"):
        check_command("rm -rf x", monkeypatch)
    with pytest.raises(AssertionError):
        check_command("make nonsense", monkeypatch)
    with pytest.raises(AssertionError):
        check_command("pytest tests/test_losses.py::test_nonsense", monkeypatch)
    with pytest.raises(AssertionError):
        check_command("pip install '.[nonsense]'", monkeypatch)
    with pytest.raises(AssertionError):
        check_command("python -m experiments untuned --nonsense", monkeypatch)
