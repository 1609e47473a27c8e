"""One cluster of three processes for all tests of this folder."""

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster


def pytest_collection_modifyitems(items):
    # with --dist loadgroup one xdist worker runs them all, and only one cluster is started
    for item in items:
        if "distributed" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("cluster"))


def start(n_workers, **options):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", **options)


@pytest.fixture(scope="session")
def compiled():
    """Kernels on the disk: compiled once here instead of once in every worker."""
    from data import compile_kernels

    with LocalCluster(1, processes=False, dashboard_address=":0") as cluster, Client(cluster):
        compile_kernels()


@pytest.fixture(scope="session")
def shared(compiled):
    with start(3) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def client(shared):
    with shared.as_current():
        yield shared
