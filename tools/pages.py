"""Pages whose tables come from files.

A generated part stands between two comments and names the function of `tools.tables` that writes it:

    <!-- generated: fit_times --> ... <!-- end -->

On one line it is a value within a sentence, on lines of its own a block.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.tables import TABLES

ROOT = Path(__file__).parents[1]

_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->)(?P<text>.*?)(<!-- end -->)", re.S)


def pages() -> list[Path]:
    """README and every page of the docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """The page with every generated part written anew."""
    return _PART.sub(_part, text)


def parts(text: str) -> dict[str, str]:
    """The generated parts of a page by name, as they stand."""
    return {match["name"]: match["text"].strip() for match in _PART.finditer(text)}


def _part(match: re.Match[str]) -> str:
    if match["name"] not in TABLES:
        raise KeyError(f"no table is called {match['name']!r}; there are {', '.join(TABLES)}")
    text = TABLES[match["name"]]()
    inner = f"\n\n{text}\n\n" if "\n" in match["text"] else text
    return f"{match[1]}{inner}{match[4]}"
