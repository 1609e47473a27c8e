"""What every reader of foreign models must do; a new reader's test class inherits it."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest

from unbiasedgbm.ensemble.adapters import ModelMismatchError, check_additive, neutral, read_model
from unbiasedgbm.importance import unbiased_gain

from ..helpers import mixed_table, twin_unbiased_gain


@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.FewUsableSplitsWarning")
class AdapterContract:
    """Give `library`, `cases` and `build`; tests of one library's own traits go in the subclass."""

    library = ""
    # Name of a case → target of `mixed_table`.
    cases: ClassVar[dict[str, str]] = {}

    def build(self, case: str) -> Any:
        """An untrained model of the case."""
        raise NotImplementedError  # each reader says how its models are made

    def table(self, X: Any, case: str) -> Any:
        """The mixed table as this case can take it."""
        return X

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> dict[str, Any]:
        """Every case: trained model and its tables."""
        X, targets = mixed_table(1200)
        trained = {}
        for case, target in cls.cases.items():
            table, y = cls().table(X, case), targets[target]
            model = cls().build(case).fit(table[:500], y[:500])
            trained[case] = model, (table[:500], y[:500], table[500:], y[500:])
        return trained

    def test_reads_what_the_library_predicts(self, fitted: dict[str, Any]) -> None:
        for model, tables in fitted.values():
            tree_model = read_model(model)
            check_additive(tree_model, tables[0])
            check_additive(tree_model, tables[2])
            assert tree_model.library == self.library
            assert any(tree.is_split.any() for tree in tree_model.trees)

    def test_rows_land_in_leaves(self, fitted: dict[str, Any]) -> None:
        for model, tables in fitted.values():
            tree_model = read_model(model)
            nodes = tree_model.bind(tables[2], 1).nodes(0, len(tree_model.trees))
            assert nodes.shape == (len(tables[3]), len(tree_model.trees))
            for tree, column in zip(tree_model.trees, nodes.T, strict=True):
                assert (tree.left[column] < 0).all()
                assert (tree.depth[column] >= 0).all()

    def test_any_range_of_trees_reads_the_same(self, fitted: dict[str, Any]) -> None:
        for model, tables in fitted.values():
            tree_model = read_model(model)
            rows = tree_model.bind(tables[2], 1)
            limits = tree_model.limits
            middle = limits[len(limits) // 2]
            whole = rows.nodes(0, len(tree_model.trees))
            np.testing.assert_array_equal(whole[:, :middle], rows.nodes(0, middle))
            np.testing.assert_array_equal(whole[:, middle:], rows.nodes(middle, len(tree_model.trees)))

    def test_a_wrong_leaf_value_is_refused(self, fitted: dict[str, Any]) -> None:
        model, tables = next(iter(fitted.values()))
        tree_model = read_model(model)
        tree = tree_model.trees[-1]
        wrong = dataclasses.replace(
            tree_model,
            trees=(
                *tree_model.trees[:-1],
                neutral.Tree(tree.left, tree.right, tree.source, tree.value + 0.01, tree.outputs, tree.iteration),
            ),
        )
        with pytest.raises(ModelMismatchError, match=tree_model.version):
            check_additive(wrong, tables[0])

    def test_importance_equals_the_slow_twin(self, fitted: dict[str, Any]) -> None:
        for case, (model, tables) in fitted.items():
            # A forest is judged by the paper's sums in any case.
            for paper_sums in (False, True)[: 1 if read_model(model).averaged else 2]:
                result = unbiased_gain(model, *tables, n_jobs=1, paper_sums=paper_sums)
                importance, se = twin_unbiased_gain(read_model(model), tables, paper_sums=paper_sums)
                # What is taken out of predictions is kept in single precision.
                rtol = 1e-7 if paper_sums else 1e-4
                atol = 1e-12 if paper_sums else 1e-6 * np.abs(importance).max()
                np.testing.assert_allclose(result.importance, importance, rtol=rtol, atol=atol, err_msg=case)
                np.testing.assert_allclose(result.se, se, rtol=rtol, atol=atol, err_msg=case)

    def test_signal_is_told_from_noise(self, fitted: dict[str, Any]) -> None:
        for case, (model, tables) in fitted.items():
            result = unbiased_gain(model, *tables, n_jobs=1)
            assert result.p_value[0] < 1e-3, case
            assert result.p_value[3] > 1e-3, case

    def test_threads_do_not_matter(self, fitted: dict[str, Any]) -> None:
        for model, tables in fitted.values():
            one, two = (unbiased_gain(model, *tables, n_jobs=n) for n in (1, 2))
            np.testing.assert_array_equal(one.importance, two.importance)
            np.testing.assert_array_equal(one.se, two.se)

    def test_parts_add_up(self, fitted: dict[str, Any]) -> None:
        for model, tables in fitted.values():
            result = unbiased_gain(model, *tables)
            for part in (result.per_tree, result.per_class, result.per_depth):
                np.testing.assert_allclose(part.sum(axis=0), result.importance, rtol=1e-9, atol=1e-15)
