"""``python -m unbiasedgbm``: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from unbiasedgbm.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "pandas"):
            raise
        print(f"The command line needs {error.name}: pip install 'unbiasedgbm[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    app(prog_name="unbiasedgbm")


if __name__ == "__main__":
    main()
