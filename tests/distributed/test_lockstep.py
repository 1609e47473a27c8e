"""Works in lockstep: their order, what they ask at once, and their end."""

import threading

import pytest

from unbiasedgbm.distributed import lockstep
from unbiasedgbm.distributed.lockstep import in_lockstep


def counting(name, n, log):
    """A work that asks n times."""

    def work(ask):
        heard = []
        for k in range(n):
            log.append((name, k))
            heard += ask((name, k), (name, -k))
        return heard

    return work


def echo(questions):
    return [[f"{name}{k}" for name, k in steps] for steps in questions]


def threads():
    return [thread for thread in threading.enumerate() if "lockstep" in thread.name]


def test_all_questions_of_a_round_are_sent_together_and_in_order():
    log, sent = [], []

    def send(questions):
        sent.append([steps[0] for steps in questions])
        return echo(questions)

    results = in_lockstep([counting("a", 3, log), counting("b", 1, log), counting("c", 2, log)], send)
    assert results == [["a0", "a0", "a1", "a-1", "a2", "a-2"], ["b0", "b0"], ["c0", "c0", "c1", "c-1"]]
    assert sent == [[("a", 0), ("b", 0), ("c", 0)], [("a", 1), ("c", 1)], [("a", 2)]]
    assert log == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2)]
    assert not threads()


def test_one_work_has_no_thread():
    assert in_lockstep([lambda ask: threading.current_thread()], echo) == [threading.current_thread()]
    assert in_lockstep([counting("a", 2, [])], echo) == [["a0", "a0", "a1", "a-1"]]


def test_works_that_ask_nothing():
    assert in_lockstep([lambda ask: 1, lambda ask: 2], echo) == [1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_ends_all(error):
    """Be it in a work or on the way, and no thread is left."""
    log = []

    def fails(ask):
        ask(("x", 0))
        raise error("in a work")

    with pytest.raises(error, match="in a work"):
        in_lockstep([counting("a", 5, log), fails, counting("b", 5, log)], echo)
    assert ("a", 2) not in log
    assert not threads()

    def send(questions):
        raise error("on the way")

    with pytest.raises(error, match="on the way"):
        in_lockstep([counting("a", 5, log), counting("b", 5, log)], send)
    assert not threads()


def test_a_second_ctrl_c_leaves_no_thread(monkeypatch):
    """All are told to end before the end of any is waited for."""

    def interrupted(self):
        raise KeyboardInterrupt("the second")

    def send(questions):
        raise KeyboardInterrupt("the first")

    monkeypatch.setattr(lockstep._Voice, "join", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the second"):
        in_lockstep([counting(name, 5, []) for name in "abc"], send)
    for thread in threads():
        thread.join(10)
    assert not threads()
