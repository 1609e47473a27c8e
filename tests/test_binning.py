import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unbiasedgbm import binning
from unbiasedgbm.binning import BinMapper, content_hash, learn_bins, sample_rows, value_edges
from unbiasedgbm.frames import learn_schema
from unbiasedgbm.threads import Pool


def table_of(X):
    return learn_schema(np.asarray(X, dtype=np.float64), categorical_features=None, handle_unknown="missing")[1]


def bins_as_array(bins, mapper, n):
    """The binned table feature by feature, shape (n, p)."""
    columns = []
    for column in mapper.column():
        if column >= 0:
            columns.append(bins.narrow.reshape(n, -1)[:, column])
        else:
            columns.append(bins.wide.reshape(n, -1)[:, -1 - column])
    return np.column_stack(columns).astype(np.int64)


def bin_twin(x, edges):
    """Bin of a number: 0 for missing, else 1 + number of edges below it."""
    return 0 if np.isnan(x) else 1 + sum(edge < x for edge in edges)


finite = st.floats(-1e6, 1e6).map(lambda x: round(x, 2))
any_number = st.one_of(finite, st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324]))


class TestValueEdges:
    def test_every_distinct_value_has_a_bin_where_there_is_room(self):
        edges = value_edges(np.array([3.0, 1.0, 2.0, 1.0, np.nan]), None, 3)
        np.testing.assert_array_equal(edges, [1.5, 2.5])

    @settings(max_examples=150, deadline=None)
    @given(hnp.arrays(np.float64, st.integers(1, 60), elements=any_number), st.integers(2, 20))
    def test_edges_are_increasing_few_and_separate_values(self, values, max_bins):
        edges = value_edges(values, None, max_bins)
        distinct = np.unique(values[~np.isnan(values)])
        assert len(edges) <= max_bins - 1
        assert (np.diff(edges) > 0).all()
        if len(distinct) <= max_bins:
            # no two values share a bin
            assert len({bin_twin(x, edges) for x in distinct}) == len(distinct)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 200)), min_size=1), st.integers(2, 12))
    def test_weights_are_repetitions(self, pairs, max_bins):
        values = np.array([float(v) for v, _ in pairs])
        weights = np.array([float(w) for _, w in pairs])
        repeated = np.repeat(values, weights.astype(int))
        np.testing.assert_array_equal(value_edges(values, weights, max_bins), value_edges(repeated, None, max_bins))

    @pytest.mark.parametrize("max_bins", [2, 3, 10, 64])
    def test_heavy_values_with_light_ones_between(self, max_bins):
        # round numbers that many rows share, and a few rows between any two of them: an income, a price
        heavy = np.repeat(np.arange(0.0, 1000.0, 10.0), 50)
        light = np.arange(5.0, 1000.0, 10.0)
        edges = value_edges(np.concatenate([heavy, light]), None, max_bins)
        assert 1 <= len(edges) <= max_bins - 1

    def test_a_heavy_value_has_a_bin_of_its_own(self):
        values = np.concatenate([np.zeros(1000), np.linspace(-1, 1, 401)])
        edges = value_edges(values, None, 16)
        below = edges[edges < 0].max()
        above = edges[edges >= 0].min()
        assert ((values > below) & (values <= above)).sum() <= 1001 + 401 / 10
        assert below > -0.2
        assert above < 0.2

    def test_bins_are_even_where_values_are_all_different(self):
        values = np.random.default_rng(0).normal(size=10_000)
        counts = np.bincount(np.searchsorted(value_edges(values, None, 100), values))
        assert len(counts) >= 99
        assert counts.max() <= 1.1 * 100
        assert counts.min() >= 0.9 * 100

    def test_infinite_values(self):
        edges = value_edges(np.array([-np.inf, 0.0, 1.0, np.inf]), None, 10)
        assert [bin_twin(x, edges) for x in (-np.inf, 0.0, 1.0, np.inf)] == [1, 2, 3, 4]

    def test_middles_that_overflow_or_round(self):
        a = 1.0
        b = np.nextafter(a, 2)
        for values in ([-1e308, 1e308], [a, b], [0.0, 5e-324]):
            edges = value_edges(np.array(values), None, 10)
            assert values[0] <= edges[0] < values[1]

    def test_nothing_but_missing(self):
        assert len(value_edges(np.full(5, np.nan), None, 10)) == 0


class TestTransform:
    @pytest.mark.parametrize("n_jobs", [1, 3])
    @pytest.mark.parametrize("block_rows", [7, 4096])
    def test_equals_twin(self, monkeypatch, n_jobs, block_rows):
        monkeypatch.setattr(binning, "_BLOCK_ROWS", block_rows)
        rng = np.random.default_rng(1)
        n = 200
        X = rng.normal(size=(n, 11)).round(1)
        X[rng.random(X.shape) < 0.1] = np.nan
        X[0, 0], X[1, 0] = np.inf, -np.inf
        X[:, 3] = rng.integers(0, 300, n)
        X[5, 3] = np.nan
        X[:, 7] = rng.integers(0, 4, n)
        categorical = np.isin(np.arange(11), [3, 7])
        n_levels = np.where(categorical, [0, 0, 0, 300, 0, 0, 0, 4, 0, 0, 0], 0)
        table, pool = table_of(X), Pool(n_jobs)
        mapper = learn_bins(table, categorical, n_levels, None, 20, pool)
        bins = mapper.transform(table, pool)
        got = bins_as_array(bins, mapper, n)
        for j in range(11):
            if categorical[j]:
                expected = np.where(np.isnan(X[:, j]), 0, np.nan_to_num(X[:, j]) + 1)
            else:
                expected = [bin_twin(x, mapper.edges[j]) for x in X[:, j]]
            np.testing.assert_array_equal(got[:, j], expected)
        # feature 3 needs 301 bins, more than a byte holds
        assert mapper.narrow.tolist() == [j != 3 for j in range(11)]
        assert bins.n_bytes % 8 == 0
        assert np.shares_memory(bins.words, bins.narrow)

    def test_other_values_at_predict_fall_in_the_outer_bins(self):
        mapper = learn_bins(
            table_of([[1.0], [2.0], [3.0]]), np.zeros(1, bool), np.zeros(1, np.int64), None, 10, Pool(1)
        )
        bins = mapper.transform(table_of([[-99.0], [99.0], [np.inf], [-np.inf], [1.5], [np.nan]]), Pool(1))
        assert bins_as_array(bins, mapper, 6)[:, 0].tolist() == [1, 3, 3, 1, 1, 0]

    def test_layout_of_a_histogram(self):
        mapper = BinMapper(
            tuple(np.empty(0) for _ in range(4)), np.array([5, 300, 256, 1000]), np.array([False, True, False, True])
        )
        assert mapper.column().tolist() == [0, -1, 1, -2]
        assert mapper.offset().tolist() == [0, 528, 264, 828]
        assert mapper.hist_size == 2 * 264 + 1300

    def test_65535_levels_fit(self):
        X = np.arange(65_535.0)[:, None]
        mapper = learn_bins(table_of(X), np.ones(1, bool), np.array([65_535]), None, 20, Pool(1))
        bins = mapper.transform(table_of(X), Pool(1))
        np.testing.assert_array_equal(bins.wide, np.arange(1, 65_536))


class TestSample:
    def test_small_tables_are_read_whole(self):
        assert sample_rows(200_000) is None

    def test_large_tables_by_a_hash(self, monkeypatch):
        monkeypatch.setattr(binning, "SAMPLE_ROWS", 1000)
        rows = sample_rows(10_000)
        # binomial(10,000, 0.1): six standard deviations are 180
        assert abs(len(rows) - 1000) < 180
        np.testing.assert_array_equal(rows, sample_rows(10_000))
        # spread evenly
        assert abs((rows < 5000).mean() - 0.5) < 0.1


class TestContentHash:
    def hash_of(self, X, counts=None):
        table = table_of(X)
        mapper = learn_bins(table, np.zeros(X.shape[1], bool), np.zeros(X.shape[1], np.int64), None, 50, Pool(1))
        return content_hash(mapper.transform(table, Pool(1)), mapper.column(), len(X), counts)

    def test_order_of_columns_and_rows_does_not_matter(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 6)).round(1)
        plain = self.hash_of(X)
        assert len(set(plain.tolist())) == 6
        columns, rows = rng.permutation(6), rng.permutation(100)
        np.testing.assert_array_equal(self.hash_of(X[:, columns]), plain[columns])
        np.testing.assert_array_equal(self.hash_of(X[rows]), plain)

    def test_counts_are_repetitions(self):
        X = np.random.default_rng(0).normal(size=(50, 3)).round(1)
        counts = np.arange(50, dtype=np.uint16) % 3 + 1
        np.testing.assert_array_equal(self.hash_of(X, counts), self.hash_of(np.repeat(X, counts, axis=0)))
