"""Pages whose text stands at the root of the repository, where code hosts look for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, *, page: Any, **more: Any) -> str:
    """Text of a page, with links as seen from the docs."""
    name = FROM_ROOT.get(page.file.src_uri)
    if name is None:
        return markdown
    text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
    for page_name, root_name in FROM_ROOT.items():
        text = text.replace(f"]({root_name}", f"]({page_name}")
    return text
