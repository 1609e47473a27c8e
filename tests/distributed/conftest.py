"""One cluster of three processes for all tests of this folder."""

import pytest

pytest.importorskip("distributed")

from cluster_data import compile_kernels, start
from distributed import Client, LocalCluster


def pytest_collection_modifyitems(items):
    # with --dist loadgroup one xdist worker runs them all, and only one cluster is started
    for item in items:
        if "distributed" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def compiled():
    """Kernels on the disk: compiled once here instead of once in every worker."""
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster):
        compile_kernels()


@pytest.fixture(scope="session")
def shared(compiled):
    with start(3) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def client(shared):
    with shared.as_current():
        yield shared
