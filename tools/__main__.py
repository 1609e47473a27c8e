"""Fill generated text and draw figures: `python -m tools [--check]`."""

from __future__ import annotations

import argparse
import sys

from tools.figures import FIGURES
from tools.pages import ROOT, filled, pages


def main() -> int:
    """Write what is out of date; with --check only name it, and return 1 if there is any."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if something is out of date")
    check = parser.parse_args().check
    stale = []
    made = {page: filled(page.read_text("utf-8")) for page in pages()}
    made |= {ROOT / path: draw() for path, draw in FIGURES.items()}
    for path, text in made.items():
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
    for name in stale:
        print(f"{name} {'is out of date' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
