"""While kernels are compiled: a notice on a terminal, and the garbage collector as it was before."""

import gc
import io
import sys
from types import SimpleNamespace

import numba
import pytest

from unbiasedgbm.compiling import WhileCompiling
from unbiasedgbm.kernels import kernel


class Terminal(io.StringIO):
    def isatty(self):
        return True


def compilation(module="unbiasedgbm.binning"):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.fixture
def collector():
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_it_says_so_once_on_a_terminal(monkeypatch, collector):
    monkeypatch.setattr(sys, "stderr", Terminal())
    listener = WhileCompiling()
    for _ in range(2):
        listener.on_start(compilation())
        listener.on_end(compilation())
    assert sys.stderr.getvalue().count("compiling kernels") == 1


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_it_is_silent_elsewhere(monkeypatch, collector, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    listener = WhileCompiling()
    listener.on_start(compilation())
    listener.on_end(compilation())
    assert stream is None or stream.getvalue() == ""


def test_the_collector_rests_until_the_outermost_is_done(collector):
    listener = WhileCompiling()
    listener.on_start(compilation())
    listener.on_start(compilation())
    listener.on_end(compilation())
    assert not gc.isenabled()
    listener.on_end(compilation())
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(collector):
    gc.disable()
    listener = WhileCompiling()
    listener.on_start(compilation())
    listener.on_end(compilation())
    assert not gc.isenabled()


def test_compilations_of_others_are_left_alone(monkeypatch, collector):
    monkeypatch.setattr(sys, "stderr", Terminal())
    listener = WhileCompiling()
    for module in ("somebody.kernels", None):
        listener.on_start(compilation(module))
    listener.on_start(SimpleNamespace(data={}))
    assert gc.isenabled()
    assert sys.stderr.getvalue() == ""


def test_a_compilation_that_fails_leaves_the_collector_on(collector):
    def broken(values):
        return values.no_such_attribute

    broken.__module__ = "unbiasedgbm.broken"
    with pytest.raises(numba.TypingError):
        kernel(broken)(1)
    assert gc.isenabled()


def test_functions_without_a_module_can_be_compiled():
    """Others make them at run time; our listener hears of them, too."""
    names = {}
    exec("def add_one(x):\n    return x + 1", names)
    assert names["add_one"].__module__ is None
    assert numba.njit(names["add_one"])(1) == 2
