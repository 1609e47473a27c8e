"""Treelite: for its compilers, its serving tools and what reads its models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.export.parts import link_of, node_sets, require, trees_and_schema

_POSTPROCESSORS = {"logistic": "sigmoid", "softmax": "softmax", "exp": "exponential", "identity": "identity"}


def to_treelite(model: Any) -> Any:
    """Treelite model that predicts probabilities, or the regressor's mean, in double precision.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor

    Returns
    -------
    treelite.Model
        It reads an array with a column a feature, as `to_numbers` makes it: a category is given by the number of its
        level, that is its position in the sorted table of levels, counted from 0; missing and unknown levels are NaN.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10, linear_start=False).fit(X, y)
    >>> from unbiasedgbm.export import to_treelite
    >>> to_treelite(model).num_tree
    30
    """
    builder_module = require("treelite.model_builder", "to_treelite")
    trees, schema = trees_and_schema(model)
    link = link_of(model)
    n_outputs = trees.n_outputs
    builder = builder_module.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builder_module.Metadata(
            num_feature=schema.n_features,
            task_type={"logistic": "kBinaryClf", "softmax": "kMultiClf"}.get(link, "kRegressor"),
            average_tree_output=False,
            num_target=1,
            num_class=[n_outputs],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=builder_module.TreeAnnotation(
            num_tree=trees.n_trees, target_id=[0] * trees.n_trees, class_id=trees.output.tolist()
        ),
        postprocessor=builder_module.PostProcessorFunc(name=_POSTPROCESSORS[link]),
        base_scores=trees.base.tolist(),
    )
    sets = node_sets(trees)
    for begin, end in zip(trees.tree_start[:-1].tolist(), trees.tree_start[1:].tolist(), strict=True):
        builder.start_tree()
        for node in range(begin, end):
            builder.start_node(node - begin)
            left = int(trees.left[node])
            if left < 0:
                builder.leaf(float(trees.value[node]))
            elif node in sets:
                builder.categorical_test(
                    feature_id=int(trees.feature[node]),
                    default_left=bool(sets[node][0]),
                    category_list=np.flatnonzero(sets[node][1:]).tolist(),
                    category_list_right_child=False,
                    left_child_key=left,
                    right_child_key=left + 1,
                )
            else:
                builder.numerical_test(
                    feature_id=int(trees.feature[node]),
                    threshold=float(trees.threshold[node]),
                    default_left=bool(trees.missing_left[node]),
                    opname="<=",
                    left_child_key=left,
                    right_child_key=left + 1,
                )
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def to_numbers(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """The table as the model of `to_treelite` reads it.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor
    X : array-like or frame of shape (n, n_features)
        As for ``predict``.

    Returns
    -------
    ndarray of shape (n, n_features), float64
        Numbers as they are, levels of categories by their numbers, NaN for what is missing.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from unbiasedgbm import UnbiasedGBMRegressor
    >>> X = pd.DataFrame({"size": np.arange(100.0), "colour": ["red", "blue"] * 50})
    >>> model = UnbiasedGBMRegressor(n_estimators=3).fit(X, X["size"])
    >>> from unbiasedgbm.export import to_numbers
    >>> to_numbers(model, X[:2])
    array([[0., 1.],
           [1., 0.]])
    """
    _, schema = trees_and_schema(model)
    table = schema.read(X)
    return np.array(table.block(0, table.n_rows), dtype=np.float64, order="C")
