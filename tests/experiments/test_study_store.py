"""The store: appending, torn lines, several writers, compression."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from experiments.store import Store, pack, read_lines
from study_tables import ROOT

WRITER = """
import sys
from experiments.store import Store
store = Store(sys.argv[1])
for number in range(50):
    store.append({"study": "s", "table": "t", "method": sys.argv[2], "seed": 0, "number": number, "options": {}})
"""


def a_row(number: int = 0, **more: object) -> dict:
    return {"study": "s", "table": "t", "method": "m", "seed": 0, "number": number, "options": {"a": 1}, **more}


def test_rows_come_back_in_order_and_the_latest_of_a_key_counts(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    assert store.rows() == []
    for row in (a_row(0, x=1), a_row(1, x=2), a_row(0, x=3)):
        store.append(row)
    assert [row["x"] for row in store.rows()] == [3, 2]
    assert store.rows("another study") == []


@pytest.mark.parametrize("torn", [b'{"study": "s", "ta', b"x" * 10_000])
def test_a_torn_last_line_is_ignored_and_cut_off(tmp_path, torn):
    store = Store(tmp_path / "rows.jsonl")
    store.append(a_row(0))
    with store.path.open("ab") as file:
        file.write(torn)
    assert len(store.rows()) == 1
    store.append(a_row(1))
    assert [row["number"] for row in store.rows()] == [0, 1]
    assert store.path.read_bytes().count(b"\n") == 2


def test_a_file_that_is_one_torn_line_is_empty(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    store.path.write_bytes(b'{"study"')
    assert store.rows() == []
    store.append(a_row(0))
    assert len(store.rows()) == 1


def test_several_processes_may_write_at_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    rows = Store(path).rows()
    assert sorted((row["method"], row["number"]) for row in rows) == [(m, n) for m in "abc" for n in range(50)]


def test_a_packed_store_reads_alike_and_equal_rows_give_equal_bytes(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    for number in range(3):
        store.append(a_row(number))
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        pack(store.path, tmp_path / name)
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    packed = Store(tmp_path / "one.jsonl.gz")
    assert packed.rows() == store.rows()
    with pytest.raises(ValueError, match="read only"):
        packed.append(a_row())


def test_the_stores_own_rows_win_over_those_of_other_files(tmp_path):
    Store(tmp_path / "rivals.jsonl").append(a_row(0, x="rival"))
    store = Store(tmp_path / "rows.jsonl", also=[tmp_path / "rivals.jsonl"])
    assert [row["x"] for row in store.rows()] == ["rival"]
    store.append(a_row(0, x="own"))
    assert [row["x"] for row in store.rows()] == ["own"]


def test_a_number_that_json_lacks_is_refused(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        store.append(a_row(0, x=float("nan")))
    assert list(read_lines(store.path)) == []
    store.append(a_row(0, x=0.1 + 0.2))
    assert json.loads(store.path.read_text())["x"] == 0.1 + 0.2


def test_reports_can_read_every_committed_row():
    files = sorted((ROOT / "experiments" / "results").glob("*.jsonl.gz"))
    assert files
    for file in files:
        rows = Store(file).rows()
        assert rows
        studies = {row["study"] for row in rows}
        assert studies <= {"untuned", "tuned", "selection", "qsar", "toy", "groups", "unseen", "times"}, file.name
