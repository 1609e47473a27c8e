"""The team: every chunk is done once, whoever is there; nobody is waited for in vain."""

import threading
import time

import numpy as np
import pytest

from unbiasedgbm.kernels import kernel
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.team import (
    FINISHED,
    LIMIT,
    N_CHUNKS,
    NEXT,
    NODE,
    STOP,
    count,
    look,
    new_board,
    next_chunk,
    post,
    show,
    wait,
)


@kernel
def work_together(member, board, n_tasks, done):
    """Task t has 1 + t % 7 chunks; chunk c of it adds t + 1 to done[t, c]."""
    looks = 0
    t = 0
    while True:
        chunk = np.int64(-1)
        if member == 0 and look(board, FINISHED) == look(board, LIMIT):
            if t == n_tasks:
                show(board, STOP, 1)
                return
            post(board, 0, t, 0, 1 + t % 7)
            chunk = np.int64(0)
            t += 1
        else:
            chunk = next_chunk(board)
        if chunk >= 0:
            looks = 0
            done[board[NODE], chunk] += board[NODE] + 1 if chunk < board[N_CHUNKS] else -1
            count(board, FINISHED)
        elif member > 0 and look(board, STOP) != 0:
            return
        else:
            looks = wait(looks)


@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_every_chunk_is_done_once(n_members):
    n_tasks = 5000
    board, done = new_board(), np.zeros((n_tasks, 8), np.int64)
    others = [threading.Thread(target=work_together, args=(k, board, n_tasks, done)) for k in range(1, n_members)]
    for thread in others:
        thread.start()
    work_together(0, board, n_tasks, done)
    for thread in others:
        thread.join(30)
        assert not thread.is_alive()
    task, chunk = np.indices(done.shape)
    np.testing.assert_array_equal(done, np.where(chunk < 1 + task % 7, task + 1, 0))
    assert board[NEXT] == board[LIMIT] == board[FINISHED] == (1 + np.arange(n_tasks) % 7).sum()


def test_a_team_without_others():
    calls = []
    assert Pool(1).run_team(lambda: "found", [], lambda: calls.append("stop")) == "found"
    assert calls == ["stop"]


def test_others_work_until_they_are_stopped():
    stopped, seen = threading.Event(), []
    begun = threading.Barrier(3)

    def other():
        begun.wait(30)
        seen.append(stopped.wait(30))

    assert Pool(3).run_team(lambda: begun.wait(30) >= 0, [other, other], stopped.set)
    assert seen == [True, True]


def test_helpers_that_have_not_begun_are_called_off():
    """One worker is busy with another team; nobody waits for it."""
    release, busy, calls = threading.Event(), threading.Event(), []

    def hold():
        busy.set()
        release.wait(30)

    outer = threading.Thread(target=lambda: Pool(2).run_team(lambda: release.wait(30), [hold] * 8, lambda: None))
    outer.start()
    assert busy.wait(30)
    begin = time.monotonic()
    # more than there are workers: some are never begun
    found = Pool(2).run_team(lambda: "found", [lambda: calls.append(1)] * 20, lambda: None)
    assert found == "found"
    assert Pool(2).run(lambda k: k, [(k,) for k in range(5)]) == list(range(5))
    assert time.monotonic() - begin < 10
    release.set()
    outer.join(30)
    assert not outer.is_alive()


def test_an_error_of_the_lead_stops_the_others():
    stopped = threading.Event()

    def lead():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Pool(2).run_team(lead, [lambda: stopped.wait(30)], stopped.set)
    assert stopped.is_set()
