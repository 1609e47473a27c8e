"""Links and pointers lead somewhere; outside addresses are checked by their form only."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.pages import PAGES, ROOT, name_of, prose

_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
# `training/splitting.py: gain` or `training/booster.py: Booster._pack`, below src/unbiasedgbm
_POINTER = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
# `tests/docs/`, `benchmarks/results/fit.json`: paths from the root of the repository
_PATH = re.compile(r"`((?:src|tests|docs|benchmarks|experiments|examples|tools)/[\w./\-]*)`")
# Folders for copies of `slugs` on the page of the text that a hook puts there.
_ROOT_TEXT = {"docs/contributing.md": "CONTRIBUTING.md", "docs/changelog.md": "CHANGELOG.md"}


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and MkDocs both make them from plain headings."""
    page = ROOT / _ROOT_TEXT.get(name_of(page), name_of(page))
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.M)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower() for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links(page):
    for target in _LINK.findall(prose(page.read_text("utf-8"))):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            assert re.fullmatch(r"[\w.\-]+\.[a-z]{2,}", parts.netloc), target
            continue
        path = page.parent / unquote(parts.path) if parts.path else page
        assert path.exists(), f"{name_of(page)} links to {target}"
        if parts.fragment:
            assert parts.fragment in slugs(path), f"{name_of(page)} links to {target}; there are {slugs(path)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pointers_into_the_code(page):
    for file, name in _POINTER.findall(page.read_text("utf-8")):
        assert name in names(ROOT / "src" / "unbiasedgbm" / file), f"{name_of(page)}: {file} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_in_the_text(page):
    for path in _PATH.findall(prose(page.read_text("utf-8"))):
        # results that are not packed yet are not committed
        assert (ROOT / path).exists() or path.endswith(".jsonl"), f"{name_of(page)}: {path}"


def test_the_algorithm_points_at_all_that_matters():
    pointers = _POINTER.findall((ROOT / "docs" / "algorithm.md").read_text("utf-8"))
    assert len(pointers) > 25
    assert {"gain", "cross", "pooled_cross", "judge", "choose"} <= {name for _, name in pointers}


@cache
def names(path: Path) -> set[str]:
    """Functions, classes and methods that a file defines."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_links_and_pointers_are_recognised():
    text = "see [a](b.md#c), ![p](q.svg) and [[x] y](https://z.org) in `training/splitting.py: gain`"
    assert _LINK.findall(text) == ["b.md#c", "q.svg", "https://z.org"]
    assert _POINTER.findall(text) == [("training/splitting.py", "gain")]
    assert "Booster._pack" in names(ROOT / "src" / "unbiasedgbm" / "training" / "booster.py")
