import threading
import time

import joblib
import pytest

from unbiasedgbm import threads
from unbiasedgbm.threads import Pool, effective_n_jobs


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_in_order(n_threads):
    def slow_first(k):
        time.sleep(0.01 if k == 0 else 0)
        return k * k

    assert Pool(n_threads).run(slow_first, [(k,) for k in range(20)]) == [k * k for k in range(20)]
    assert Pool(n_threads).run(slow_first, []) == []


def test_threads_are_used_and_the_caller_helps():
    barrier = threading.Barrier(3, timeout=20)

    def meet(_):
        barrier.wait()
        return threading.current_thread()

    names = Pool(3).run(meet, [(k,) for k in range(3)])
    assert len(set(names)) == 3
    assert threading.current_thread() in names


@pytest.mark.parametrize("n_threads", [1, 3])
def test_errors_reach_the_caller(n_threads):
    def fail(k):
        if k == 7:
            raise ZeroDivisionError("seven")
        return k

    with pytest.raises(ZeroDivisionError, match="seven"):
        Pool(n_threads).run(fail, [(k,) for k in range(20)])
    assert Pool(n_threads).run(lambda k: k, [(1,), (2,)]) == [1, 2]


@pytest.mark.parametrize("n_threads", [1, 2, 8])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
@pytest.mark.parametrize("smallest", [1, 100, 10**9])
def test_blocks_cover_everything_once(n_threads, n, smallest):
    blocks = Pool(n_threads).blocks(n, smallest)
    assert [k for begin, end in blocks for k in range(begin, end)] == list(range(n))
    assert len(blocks) <= 4 * n_threads
    if len(blocks) > 1:
        assert min(end - begin for begin, end in blocks) >= smallest


def test_number_of_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 6)
    assert effective_n_jobs(None) == 6
    assert effective_n_jobs(3) == 3
    assert effective_n_jobs(99) == 99
    assert effective_n_jobs(-1) == 6
    assert effective_n_jobs(-2) == 5
    assert effective_n_jobs(-99) == 1
    # the limit that joblib sets in its workers
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert effective_n_jobs(None) == 2
    assert effective_n_jobs(-1) == 6
    with pytest.raises(ValueError, match="n_jobs == 0"):
        effective_n_jobs(0)


def test_one_thread_starts_nothing():
    threads._forget()
    Pool(1).run(lambda k: k, [(1,), (2,)])
    Pool(4).run(lambda k: k, [(1,)])
    assert threads._n_workers == 0


def test_tasks_with_pools_of_their_own_have_all_threads():
    """Three tasks of two threads each: all six meet."""
    together = threading.Barrier(6)

    def task(number):
        return Pool(2).run(lambda k: together.wait(timeout=30) >= 0 and (number, k), [(0,), (1,)])

    assert Pool(6).run(task, [(0,), (1,), (2,)]) == [[(number, 0), (number, 1)] for number in range(3)]
