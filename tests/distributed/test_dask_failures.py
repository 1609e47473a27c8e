"""Lost workers, interrupts, and several fits at once: the same model, or a clear error; never a hang."""

import asyncio
import concurrent.futures
import gc
import itertools
import os
import signal
import threading
import time
from contextlib import suppress

import dask
import numpy as np
import pytest
from cluster_data import CUTS, UGLY, assert_nothing_left, assert_same_file, cut, frame, numbers, pair, start
from distributed import Client

from unbiasedgbm import unbiased_gain
from unbiasedgbm.callbacks import BaseCallback
from unbiasedgbm.distributed import unbiased_gain as distributed_gain
from unbiasedgbm.distributed.crew import Crew
from unbiasedgbm.distributed.fit import RemoteFit
from unbiasedgbm.distributed.inputs import partitions
from unbiasedgbm.distributed.leading import LeadingStation
from unbiasedgbm.distributed.station import TRAIN, OldQuestionError, Station
from unbiasedgbm.exceptions import InterruptedWarning


@pytest.fixture
def own_client(compiled):
    """A cluster that a test may break."""
    with start(2) as cluster, Client(cluster) as client:
        yield client


class Kill(BaseCallback):
    """Kills workers that hold rows, one unless others are chosen, in the middle of an iteration."""

    def __init__(self, client, iteration, which=slice(-1, None)):
        self.client, self.iteration, self.which, self.killed = client, iteration, which, []

    def before_iteration(self, state):
        if state.iteration == self.iteration and not self.killed:
            holders = [address for address, found in self.client.run(_actors).items() if found]
            pids = self.client.run(os.getpid, workers=holders[self.which])
            self.killed += pids.values()
            # a moment later: while the grower asks
            for pid in pids.values():
                threading.Timer(0.02, os.kill, (pid, signal.SIGKILL)).start()


def _actors(dask_worker):
    return [str(key) for key in dask_worker.state.actors]


def _die_at_the_third_tree():
    """Have this process end as soon as a station adds the third tree from now on."""
    add, count = Station._do_add, itertools.count(1)

    def deadly(station, *arguments):
        if next(count) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        add(station, *arguments)

    Station._do_add = deadly
    return os.getpid()


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_lost_worker(own_client, tmp_path, kind):
    """Its partitions are computed again elsewhere, and the model is the same: several trees an iteration, too."""
    table, y = frame()
    y = np.digitize(y, [1, 3]) if kind == "classifier" else y
    options = {"n_estimators": 12, "early_stopping": True, "n_iter_no_change": 12}
    local, remote = pair(kind, **options)
    local.fit(table, y)
    kill = Kill(own_client, 5)
    remote.fit(cut(table, CUTS["seven"]), cut(y, CUTS["seven"]), callbacks=[kill])
    assert len(kill.killed) == 1
    assert_same_file(local, remote, tmp_path)


@pytest.mark.parametrize("n_bags", [1, 5])
@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2)], ids=["first", "second"])
def test_a_lost_leader(own_client, tmp_path, which, n_bags):
    """Whichever worker it is, one of the two leads; with five bags, two of them have the same lane."""
    X, y = numbers()
    y = np.digitize(y, [-1, 1]) if n_bags > 1 else y
    local, remote = pair("classifier" if n_bags > 1 else "regressor", n_estimators=8, n_bags=n_bags, verbose=1)
    kill = Kill(own_client, 4, which)
    remote.fit(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]), callbacks=[kill])
    assert len(kill.killed) == 1
    assert_same_file(local.fit(X, y), remote, tmp_path)
    assert remote.history_ == local.history_


@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2)], ids=["first", "second"])
@pytest.mark.parametrize("n_bags", [1, 5])
def test_a_worker_lost_in_an_order_of_several_iterations(own_client, tmp_path, monkeypatch, which, n_bags):
    """Where nobody looks on, an order is more than one; trees that were added in it are taken back."""
    X, y = numbers()
    y = np.digitize(y, [-1, 1]) if n_bags > 1 else y
    kind = "classifier" if n_bags > 1 else "regressor"
    local, remote = pair(kind, n_estimators=200, n_bags=n_bags, min_split_gain=-np.inf)
    iterate, orders, killed = RemoteFit.iterate, [], []

    def order(fit, lanes, progress, n):
        orders.append((progress.n_iterations, n))
        if len(orders) == 8:
            holders = [address for address, found in own_client.run(_actors).items() if found]
            killed.extend(own_client.run(_die_at_the_third_tree, workers=holders[which]).values())
        return iterate(fit, lanes, progress, n)

    monkeypatch.setattr(RemoteFit, "iterate", order)
    remote.fit(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]))
    assert killed
    assert orders[7][1] > 1
    # begun again, from where it had begun
    assert orders[8] == orders[7]
    assert_same_file(local.fit(X, y), remote, tmp_path)


class Silence(BaseCallback):
    """Stops a worker without a word, for some seconds, and calls a function a second later."""

    def __init__(self, client, iteration, seconds, then=lambda: None):
        self.client, self.iteration, self.seconds, self.then, self.stopped = client, iteration, seconds, then, []

    def before_iteration(self, state):
        if state.iteration == self.iteration and not self.stopped:
            self.stopped = list(self.client.run(os.getpid).values())[-1:]
            os.kill(self.stopped[0], signal.SIGSTOP)
            threading.Timer(self.seconds, _wake, self.stopped).start()
            threading.Timer(1.0, self.then).start()


def _wake(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def test_a_worker_that_is_silent_for_a_while(own_client, tmp_path):
    """Nothing is lost, and nobody hangs."""
    X, y = numbers()
    local, remote = pair("regressor", n_estimators=6)
    silence = Silence(own_client, 3, 5.0)
    remote.fit(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]), callbacks=[silence])
    assert silence.stopped
    assert_same_file(local.fit(X, y), remote, tmp_path)


def test_interrupt_while_a_worker_is_silent(own_client, ctrl_c):
    """A leader that waits for an answer gives up when it is told to."""
    X, y = numbers()
    remote = pair("regressor", n_estimators=300, min_split_gain=-np.inf)[1]
    interrupted = []

    def interrupt():
        interrupted.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(InterruptedWarning, match="interrupted after 3"):
        remote.fit(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]), callbacks=[Silence(own_client, 3, 15.0, interrupt)])
    assert time.monotonic() - interrupted[0] < 10


class Forget(BaseCallback):
    """Lets a worker forget its stations, as one that was started anew at the same address has."""

    def __init__(self, client, iteration):
        self.client, self.iteration, self.forgotten = client, iteration, 0

    def before_iteration(self, state):
        if state.iteration == self.iteration and not self.forgotten:
            holder = next(address for address, found in self.client.run(_actors).items() if found)
            self.forgotten = self.client.run(_forget, workers=[holder])[holder]


def _forget(dask_worker):
    actors = dask_worker.state.actors
    n = len(actors)
    actors.clear()
    return n


def test_a_worker_that_was_started_anew(own_client, tmp_path):
    table, y = frame()
    local, remote = pair("regressor", n_estimators=8)
    forget = Forget(own_client, 3)
    begin = time.monotonic()
    remote.fit(cut(table, CUTS["seven"]), cut(y, CUTS["seven"]), callbacks=[forget])
    assert forget.forgotten == 1
    assert time.monotonic() - begin < 60
    assert_same_file(local.fit(table, y), remote, tmp_path)


@pytest.fixture
def kill_when_placed(own_client, monkeypatch):
    """Kills a worker between the choice of places and the making of stations, the first time."""
    homes, killed = Crew._homes, []

    def kill(crew, *arguments):
        found = homes(crew, *arguments)
        if not killed:
            killed.append(next(iter(own_client.run(os.getpid, workers=[next(iter(found))]).values())))
            os.kill(killed[0], signal.SIGKILL)
        return found

    monkeypatch.setattr(Crew, "_homes", kill)
    return killed


def test_a_worker_lost_while_rows_are_placed(own_client, kill_when_placed, tmp_path):
    table, y = frame()
    local, remote = pair("regressor", n_estimators=5)
    remote.fit(cut(table, CUTS["seven"]), cut(y, CUTS["seven"]))
    assert kill_when_placed
    assert_same_file(local.fit(table, y), remote, tmp_path)


def test_a_worker_lost_while_rows_are_placed_for_importance(own_client, kill_when_placed):
    table, y = frame()
    model = pair("regressor", n_estimators=5)[0].fit(table, y)
    parts = (cut(table, CUTS["seven"]), cut(y, CUTS["seven"]))
    found = distributed_gain(model, *parts, *parts)
    assert kill_when_placed
    np.testing.assert_array_equal(found.importance, unbiased_gain(model, table, y, table, y).importance)


def test_no_workers(compiled):
    X, y = numbers()
    with start(1) as cluster, Client(cluster) as client, dask.config.set({"unbiasedgbm.recovery-timeout": 1}):
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.1)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="The cluster has had no workers for 1 s"):
            pair("regressor")[1].fit([dask.delayed(X)], [dask.delayed(y)])
        assert time.monotonic() - begin < 30


def _fail(X):
    raise ValueError("no such file")


def _wait(X):
    time.sleep(60)
    return X


def test_a_partition_that_fails_before_the_others_are_there(own_client):
    X, y = numbers()
    tables = [dask.delayed(_wait)(X), dask.delayed(_fail)(X)]
    begin = time.monotonic()
    with pytest.raises(ValueError, match="no such file"):
        pair("regressor")[1].fit(tables, [dask.delayed(y)] * 2)
    assert time.monotonic() - begin < 30


def test_rows_that_cannot_be_computed_again(own_client):
    """An error that says so, within the time that is set."""
    X, y = numbers()
    workers = list(own_client.nthreads())
    tables = [own_client.scatter(X[k::2], workers=[worker]) for k, worker in zip((0, 1), workers, strict=True)]
    parts = [dask.delayed(table) for table in tables]
    # all of them: a worker that was given the other one's rows could go on alone
    kill = Kill(own_client, 2, slice(None))
    begin = time.monotonic()
    with (
        dask.config.set({"unbiasedgbm.recovery-timeout": 15}),
        pytest.raises(RuntimeError, match="worker was lost"),
    ):
        pair("regressor", n_estimators=2000)[1].fit(
            parts, [dask.delayed(y[0::2]), dask.delayed(y[1::2])], callbacks=[kill]
        )
    assert kill.killed
    assert time.monotonic() - begin < 90


def test_two_fits_at_once(client, tmp_path):
    X, y = numbers()
    table, target = frame()
    local = [
        pair("classifier", n_estimators=15)[0].fit(X, y > 0),
        pair("regressor", n_estimators=15)[0].fit(table, target),
    ]
    remote = [pair("classifier", n_estimators=15)[1], pair("regressor", n_estimators=15)[1]]
    errors = []

    def fit(model, X, y, cuts):
        try:
            model.fit(cut(X, cuts), cut(y, cuts), client=client)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=fit, args=arguments)
        for arguments in ((remote[0], X, y > 0, UGLY), (remote[1], table, target, CUTS["seven"]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    for one, other in zip(local, remote, strict=True):
        assert_same_file(one, other, tmp_path)
    assert_nothing_left(client)


def _stations(dask_worker):
    return sum(issubclass(type(one), Station) for one in gc.get_objects())


def test_stations_end_with_the_fit(own_client):
    """Their rows, too, before anybody looks for what only knows itself."""
    X, y = numbers()
    remote = pair("classifier", n_estimators=3, n_bags=3)[1]
    own_client.run(gc.disable)
    try:
        remote.fit(cut(X, CUTS["seven"]), cut(y > 0, CUTS["seven"]))
        deadline = time.monotonic() + 20
        while any(own_client.run(_stations).values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        own_client.run(gc.enable)


class _Noted(LeadingStation):
    """A station without a worker, whose only step notes its argument."""

    def __init__(self):
        self.noted = []
        self._epoch, self._working, self._turning = 0, threading.Lock(), threading.Lock()
        self._asked = {}

    def _do_note(self, what):
        self.noted.append(what)


def test_what_waited_for_its_turn_is_given_up_with_its_iteration():
    """Not done after what made it void: nobody could take it back."""
    station = _Noted()
    refused = []

    def late():
        try:
            station._do(0, [("note", ("late",))])
        except OldQuestionError as error:
            refused.append(error)

    with station._working:
        waiting = threading.Thread(target=late)
        waiting.start()
        time.sleep(0.1)
        asyncio.run(station.halt(1))
    waiting.join(10)
    station._do(1, [("note", ("new",))])
    assert station.noted == ["new"]
    assert len(refused) == 1


def test_a_late_halt_leaves_newer_questions_alone():
    station = _Noted()
    old, new = concurrent.futures.Future(), concurrent.futures.Future()
    station._asked = {0: (0, old), 1: (2, new)}
    station._do(2, [])
    asyncio.run(station.halt(1))
    assert old.cancelled()
    assert not new.cancelled()
    station._do(2, [("note", ("still",))])
    assert station.noted == ["still"]


def _no_file(y, raw):
    if len(y) and raw.any():
        raise FileNotFoundError("a file of a custom loss")
    return raw - y, np.ones(len(y))


def test_what_a_station_raises_is_no_loss(client):
    """Not even if it is an error that a broken connection would raise."""
    X, y = numbers()
    with pytest.raises(FileNotFoundError, match="of a custom loss"):
        pair("regressor", loss=(_no_file, _values))[1].fit(cut(X, UGLY), cut(y, UGLY))
    assert_nothing_left(client)


def _values(y, raw):
    return (raw - y) ** 2


def test_stations_of_one_worker_are_found_lost_one_by_one(client, monkeypatch):
    """A worker that was started anew may have a new station beside the one that it has lost."""
    X, y = numbers()
    parts = {(TRAIN, i): part for i, part in enumerate(partitions(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]), None))}
    crew = Crew(client, parts, None)
    try:
        first, second, _ = crew.members
        second.address = first.address
        for gone in (first, second):
            monkeypatch.setattr(crew, "_answers", lambda member, gone=gone: "gone" if member is gone else "there")
            assert crew._find_lost(time.monotonic() + 5.0) == [gone]
    finally:
        crew.close()


def test_stations_made_anew_have_names_of_their_own(client):
    """Dask takes two actors of one name for the same; and one that was only half loaded is made again."""
    X, y = numbers()
    parts = {(TRAIN, i): part for i, part in enumerate(partitions(cut(X, CUTS["seven"]), cut(y, CUTS["seven"]), None))}
    crew = Crew(client, parts, None)
    try:
        assert len(crew.members) == 3
        whole, *halves = crew.members
        whole.loaded = True
        names = {member.future.key for member in crew.members}
        made = crew.replace_lost()
        assert sorted(name for member in made for name in member.names) == sorted(
            name for half in halves for name in half.names
        )
        assert crew.members[0] is whole
        assert names.isdisjoint(member.future.key for member in made)
        assert sum(survey.n_rows for _, survey in crew.ask([("survey", (False,))])[0]) == len(y)
    finally:
        crew.close()


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupt(BaseCallback):
    """Ctrl-C, a moment after an iteration has begun."""

    def before_iteration(self, state):
        if state.iteration == 3:
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_interrupt(client, ctrl_c):
    """The iterations before it are kept, and the cluster is left with nothing to do."""
    X, y = numbers()
    local, remote = pair("regressor", n_estimators=300, num_leaves=31, min_split_gain=-np.inf)
    with pytest.warns(InterruptedWarning, match="interrupted after"):
        remote.fit(cut(X, UGLY), cut(y, UGLY), callbacks=[Interrupt()])
    assert 3 <= remote.n_iter_ < 300
    assert_nothing_left(client)
    local.set_params(n_estimators=remote.n_iter_).fit(X, y)
    np.testing.assert_array_equal(local.predict(X), remote.predict(X))


def test_interrupt_before_training(client, ctrl_c):
    """Rows that are still being loaded are given up, too."""

    def slowly():
        time.sleep(5)

    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        pair("regressor")[1].fit([dask.delayed(slowly)()], [dask.delayed(np.arange(3))])
    deadline = time.monotonic() + 20
    while any(client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_memory_and_traffic_are_those_of_a_share(client):
    """What stations keep grows with their rows, and answers of boosting do not grow with rows at all."""
    seen = {}
    for n in (2_000, 20_000):
        X, y = numbers(n)
        cuts = (n // 4,) * 4
        remote = pair("regressor", n_estimators=3, min_split_gain=-np.inf, linear_start=False)[1].fit(
            cut(X, cuts), cut(y, cuts)
        )
        seen[n] = remote.traffic_
    small, large = seen[2_000], seen[20_000]
    assert max(large.kept) < 0.6 * sum(large.kept)
    assert 9 < sum(large.kept) / sum(small.kept) < 11
    # bins, target, raw predictions of the model and of two bags, and a copy of these; of each bag's tree role, packed
    # gradient, row numbers, derivatives
    assert sum(large.kept) == 20_000 * (8 + 8 + 5 * 8 + 2 * (1 + 8 + 4 + 4 + 4 + 4))
    assert 0 < large.n_bytes < 1.5 * small.n_bytes
    # before boosting, and for each lane's trees, whose scales may be new; a round for every level and two more
    depth = int(remote.ensemble_.depth.max())
    assert 2 * 3 * 4 < large.questions < 12 + 2 * 3 * (1 + depth + 3)
