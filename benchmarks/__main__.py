"""Run the benchmark: `python -m benchmarks [--sections fit,predict] [--repeats 5] [--peers LightGBM] [--out DIR]`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.sections import SECTIONS
from benchmarks.timing import setting

RESULTS = Path(__file__).parent / "results"


def show(row: dict[str, Any]) -> None:
    """One line for a row of results."""
    if "ratio" in row:
        leaves = f", {row['leaves']} leaves" if "leaves" in row else ""
        what = f"{row['rows']:,} x {row['features']}{leaves}, {row['threads']} threads"
        parts = ", ".join(f"{ratio:.2f} of {name}" for name, ratio in row["ratio"].items())
        goal = f"goal {row['goal']} of {row.get('against', 'LightGBM')}"
        print(f"{row['section']:8} {what:44} {row['model']:22} {parts}  ({goal})", flush=True)
    else:
        rest = {key: value for key, value in row.items() if key != "section"}
        print(f"{row['section']:8} {rest}", flush=True)


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write a section's rows to a temporary name and rename it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"setting": setting(), "rows": rows}, indent=1) + "\n")
    os.replace(temporary, path)


def main() -> None:
    """Parse the command line and run the sections asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS), help="comma-separated: %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated: %(default)s")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    for name in arguments.sections.split(","):
        rows: list[dict[str, Any]] = []
        for row in SECTIONS[name](arguments.repeats, arguments.peers.split(",")):
            rows.append(row)
            show(row)
            write(arguments.out, name, rows)


if __name__ == "__main__":
    main()
