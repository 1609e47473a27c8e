"""Two small generated tables with a catalogue of their own, so that no test needs the study's data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from study_tables import ROOT, categories_frame, numbers_frame

# The study is a package beside the library, not installed with it.
sys.path.insert(0, str(ROOT))

ENTRY = """
[[table]]
name = "{name}"
title = "{name}"
group = "{group}"
rows = {rows}
numeric = {numeric}
categorical = {categorical}
task = "{task}"
raw_task = "{raw_task}"
paper = true
half = "{half}"
checksum = "{checksum}"
{more}
"""


@dataclass(frozen=True)
class Generated:
    """A folder with tables, and their catalogue."""

    folder: Path
    catalogue: Path

    @property
    def arguments(self) -> list[str]:
        return ["--data", str(self.folder), "--catalogue", str(self.catalogue)]


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    from experiments.catalogue.table import checksum

    folder = tmp_path_factory.mktemp("tables")
    frames = {"numbers": numbers_frame(), "categories": categories_frame()}
    common = {"half": "search"}
    entries = [
        ENTRY.format(
            name="numbers", group="small_num", rows=150, numeric=32, categorical=0, task="binary", raw_task="binary",
            checksum=checksum(frames["numbers"]), more="", **common,
        ),
        ENTRY.format(
            name="categories", group="small_cat", rows=180, numeric=1, categorical=2, task="binary", half="check",
            raw_task="regression", checksum=checksum(frames["categories"]),
            more='binarise = { op = "gt", value = 0.3, rule = "above 0.3" }',
        ),
    ]  # fmt: skip
    for name, frame in frames.items():
        frame.to_parquet(folder / f"{name}.parquet")
    catalogue = folder / "catalogue.toml"
    catalogue.write_text("".join(entries))
    return Generated(folder, catalogue)
