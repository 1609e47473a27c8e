"""The runner: resuming, killing, failing, several processes, a Dask cluster."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from experiments import studies
from experiments.jobs import Chain, Job
from experiments.progress import Progress
from experiments.runner import run
from experiments.store import Store
from experiments.studies.bench import Bench
from experiments.workers import Workers
from study_tables import ROOT


def measure(job: Job, history: list[dict[str, Any]], bench: Any) -> dict[str, Any]:
    """Stand in for a study: adds up the chain so far, fails or dies where the table's name says so."""
    if job.table == "broken":
        raise RuntimeError("this table is broken")
    if job.table == "endless":
        while True:
            time.sleep(0.01)
    if job.table == "deadly":
        os._exit(1)
    return {"value": job.seed + sum(row["value"] for row in history) + 1}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setitem(studies.MEASURES, "stand-in", __name__)


def chains(*tables: str, length: int = 3) -> list[Chain]:
    return [Chain(Job("stand-in", table, "m", seed), length=length) for table in tables for seed in (0, 1)]


def run_quietly(
    jobs: list[Chain], store: Store, workers: Workers | None = None, bench: Bench | None = None, **options: Any
) -> Any:
    return run(jobs, store, workers or Workers(), bench or Bench(), Progress("test", terminal=False), **options)


def without_times(store: Store) -> list[str]:
    rows = [{name: value for name, value in row.items() if not name.endswith("_seconds")} for row in store.rows()]
    return sorted(map(repr, rows))


def test_a_chain_sees_its_own_rows_in_order(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    assert run_quietly(chains("a"), store).measured == 6
    assert {(row["seed"], row["number"]): row["value"] for row in store.rows()} == {
        (0, 0): 1, (0, 1): 2, (0, 2): 4, (1, 0): 2, (1, 1): 4, (1, 2): 8,
    }  # fmt: skip


def test_what_is_there_is_not_measured_again_and_a_longer_chain_goes_on(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    run_quietly(chains("a", length=2), store)
    assert run_quietly(chains("a", length=2), store).measured == 0
    assert run_quietly(chains("a", length=3), store).measured == 2
    straight = Store(tmp_path / "straight.jsonl")
    run_quietly(chains("a", length=3), straight)
    assert without_times(store) == without_times(straight)


def test_a_table_that_fails_is_reported_and_does_not_stop_the_others(tmp_path, capsys):
    store = Store(tmp_path / "rows.jsonl")
    outcome = run_quietly(chains("a", "broken", "b"), store)
    assert [row["table"] for row in outcome.failures] == ["broken", "broken"]
    assert "this table is broken" in outcome.failures[0]["error"]
    assert "broken" in capsys.readouterr().err
    assert sum("error" not in row for row in store.rows()) == 12
    assert run_quietly(chains("a", "broken", "b"), store).measured == 0
    assert run_quietly(chains("a", "broken", "b"), store, retry_failed=True).measured == 2


def test_a_job_that_hangs_is_given_up(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    outcome = run_quietly(chains("endless", "a", length=1), store, bench=Bench(time_limit=0.2))
    assert ["0.2 seconds" in row["error"] for row in outcome.failures] == [True, True]
    assert sum("error" not in row for row in store.rows()) == 2


def test_a_method_can_be_measured_again(tmp_path):
    store = Store(tmp_path / "rows.jsonl")
    run_quietly(chains("a"), store)
    assert run_quietly(chains("a"), store, redo=["another"]).measured == 0
    assert run_quietly(chains("a"), store, redo=["m"]).measured == 6


def command(generated, path, *more: str) -> list[str]:
    arguments = ["--methods", "lightgbm,xgboost", "--iterations", "3", "--store", str(path), *generated.arguments]
    return [sys.executable, "-m", "experiments", "tune", *arguments, *more]


def test_killed_at_random_and_resumed_the_store_is_the_same(generated, tmp_path):
    """The whole command, killed without warning a few times, against one run that was left alone."""
    straight, killed = tmp_path / "straight.jsonl", tmp_path / "killed.jsonl"
    subprocess.run(command(generated, straight), cwd=ROOT, check=True, capture_output=True)
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen(command(generated, killed), cwd=ROOT, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        had = len(Store(killed).rows())
        while len(Store(killed).rows()) == had and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command(generated, killed), cwd=ROOT, check=True, capture_output=True)
    assert len(Store(straight).rows()) == 2 * 2 * 3
    assert without_times(Store(killed)) == without_times(Store(straight))


def test_several_processes_give_the_same_rows(generated, tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for path, processes in ((one, "1"), (two, "2")):
        subprocess.run(command(generated, path, "--processes", processes), cwd=ROOT, check=True, capture_output=True)
    assert without_times(Store(one)) == without_times(Store(two))


def test_workers_leave_when_the_runner_is_killed(generated, tmp_path):
    psutil = pytest.importorskip("psutil")
    path = tmp_path / "rows.jsonl"
    long = command(generated, path, "--processes", "2", "--iterations", "1000")
    process = subprocess.Popen(long, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not Store(path).rows() and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []


DEADLY = """
import sys
sys.path.insert(0, {tests!r})
from test_study_runner import *
studies.MEASURES["stand-in"] = "test_study_runner"
if __name__ == "__main__":
    outcome = run_quietly(chains("a", "deadly", "b", length=1), Store({path!r}), Workers(processes=2))
    assert [row["table"] for row in outcome.failures] == ["deadly", "deadly"], outcome.failures
"""


def test_a_job_that_kills_its_worker_fails_alone(tmp_path):
    script = tmp_path / "deadly.py"
    store = Store(tmp_path / "rows.jsonl")
    script.write_text(DEADLY.format(tests=str(ROOT / "tests" / "experiments"), path=str(store.path)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(row["table"] for row in store.rows() if "error" not in row) == ["a", "a", "b", "b"]


def test_a_dask_cluster_measures_by_address(generated, tmp_path):
    distributed = pytest.importorskip("distributed")
    from experiments.studies.untuned import chains as untuned_chains

    source = Bench().tables.__class__(str(generated.folder), str(generated.catalogue))
    tables = {name: source.entry(name) for name in ("numbers", "categories")}
    jobs = untuned_chains(tables, ["lightgbm"], {}, splits=1, max_rows=None)
    here, there = Store(tmp_path / "here.jsonl"), Store(tmp_path / "there.jsonl")
    run(jobs, here, Workers(), Bench(source), Progress("test", terminal=False))
    small = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**small) as cluster:
        run(jobs, there, Workers(0, cluster.scheduler_address), Bench(source), Progress("test", terminal=False))
    assert without_times(here) == without_times(there)
    assert len(there.rows()) == 2
