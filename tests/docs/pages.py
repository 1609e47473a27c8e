"""What the tests read of a page: its code blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    ROOT / "experiments" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

# A fenced block, or a hidden one that prepares what the next blocks need: <!-- setup ... -->
_BLOCK = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$|^<!-- setup\n(?P<setup>.*?)^-->$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A code block: its language, text, and the line of the page that the text begins at."""

    language: str
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    """Code blocks of a page in order."""
    found = []
    for match in _BLOCK.finditer(text):
        group = "code" if match["setup"] is None else "setup"
        language = match["language"] if group == "code" else "python"
        found.append(Block(language, match[group], text.count("\n", 0, match.start(group)) + 1))
    return found


def commands(code: str) -> list[str]:
    """The commands of a shell block: comments cut off, continued lines joined."""
    lines = re.sub(r"\\\n\s*", "", code).splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


def prose(text: str) -> str:
    """The page without its code blocks."""
    return _BLOCK.sub("", text)


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return str(page.relative_to(ROOT))
