"""ONNX: one graph from the table to the prediction, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm._version import __version__
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.export.parts import (
    UnsupportedExportError,
    feature_labels,
    link_of,
    node_sets,
    require,
    trees_and_schema,
)
from unbiasedgbm.frames import Schema

_OPSET, _ML_OPSET, _IR = 21, 5, 10
_LEQ, _LT, _MEMBER = 0, 1, 6
_OUTPUTS = ("label", "probabilities", "prediction", "raw")


def to_onnx(model: Any) -> Any:
    """ONNX model with its own reading of categories.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor

    Returns
    -------
    onnx.ModelProto
        Without categorical features its input is ``X``, double of shape (n, n_features), NaN for missing values. With
        them it has one input of shape (n, 1) for each feature, by the feature's name: text for categories of text (any
        level that training has not seen counts as missing), double for all others. A feature that is called as an
        output has ``_in`` added to its name.

        Outputs of a classifier: ``label`` (n,), ``probabilities`` (n, n_classes); of a regressor: ``prediction``
        (n, 1); of both: ``raw`` (n, n_outputs), all double. Needs a runtime that knows the TreeEnsemble operator
        (ai.onnx.ml 5).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y)
    >>> from unbiasedgbm.export import to_onnx
    >>> [value.name for value in to_onnx(model).graph.input]
    ['X']
    """
    onnx = require("onnx", "to_onnx")
    trees, schema = trees_and_schema(model)
    graph = _Graph(onnx, input_names(schema))
    table = graph.read_table(schema)
    graph.add_trees(trees, table)
    if hasattr(model, "classes_"):
        graph.add_classes(model.classes_, link_of(model))
    else:
        graph.add_prediction(link_of(model))
    return graph.finish(schema)


def input_names(schema: Schema) -> list[str]:
    """Names of the features' inputs: their own, unless ONNX or an output of the graph has taken that."""
    labels = feature_labels(schema)
    names = []
    for label in labels:
        name = label
        while name in ("", *_OUTPUTS) or (name != label and name in labels):
            name += "_in"
        names.append(name)
    return names


class _Graph:
    """An ONNX graph under construction; what is neither input nor output has a name that no input begins with."""

    def __init__(self, onnx: Any, input_names: list[str]) -> None:
        self.input_names = input_names
        self._inner = "inner/"
        while any(name.startswith(self._inner) for name in input_names):
            self._inner = "_" + self._inner
        self._onnx, self._h, self._t = onnx, onnx.helper, onnx.TensorProto
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    # -- building blocks ---------------------------------------------------------------------------------------------

    def node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        output = output if output in _OUTPUTS else self._inner + output
        self.nodes.append(self._h.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def constant(self, name: str, array: Any) -> str:
        name = self._inner + name
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def tensor(self, array: Any) -> Any:
        return self._onnx.numpy_helper.from_array(np.asarray(array))

    def output(self, name: str, kind: Any, shape: list[Any]) -> None:
        self.outputs.append(self._h.make_tensor_value_info(name, kind, shape))

    # -- the table ---------------------------------------------------------------------------------------------------

    def read_table(self, schema: Schema) -> str:
        """Name of the table of numbers, shape (n, n_features)."""
        if not schema.is_categorical.any():
            self.inputs.append(self._h.make_tensor_value_info("X", self._t.DOUBLE, ["n", schema.n_features]))
            return "X"
        columns = []
        for j, (name, levels) in enumerate(zip(self.input_names, schema.categories, strict=True)):
            kind = self._t.STRING if levels and isinstance(levels[-1], str) else self._t.DOUBLE
            self.inputs.append(self._h.make_tensor_value_info(name, kind, ["n", 1]))
            columns.append(name if levels is None else self._level_numbers(j, name, levels))
        return self.node("Concat", columns, "table", axis=1)

    def _level_numbers(self, j: int, name: str, levels: tuple[Any, ...]) -> str:
        """Level numbers of a categorical column; NaN for missing and unknown levels."""
        text = [isinstance(level, str) for level in levels]
        if any(text) and not all(text):
            raise UnsupportedExportError(
                f"to_onnx: feature {name!r} has text and numbers among its categories; ONNX columns have one type."
            )
        numbers = self.tensor(np.arange(len(levels), dtype=np.float64))
        keys = list(levels) if all(text) else np.array(levels, dtype=np.float64)
        if not all(text) and any(float(level) != level for level in levels):
            raise UnsupportedExportError(
                f"to_onnx: feature {name!r} has categories that float64, the type of its column, does not hold."
            )
        if not len(levels):
            # training saw missing values only
            return self.node("Sub", [self.constant(f"column/{j}/nan", np.full((1, 1), np.nan)), name], f"column/{j}")
        keys_tensor = (
            self._h.make_tensor("keys", self._t.STRING, [len(keys)], [key.encode() for key in keys])
            if all(text)
            else self.tensor(keys)
        )
        return self.node(
            "LabelEncoder", [name], f"column/{j}", "ai.onnx.ml",
            keys_tensor=keys_tensor, values_tensor=numbers, default_tensor=self.tensor(np.array([np.nan])),
        )  # fmt: skip

    # -- the trees ---------------------------------------------------------------------------------------------------

    def add_trees(self, trees: TreeEnsemble, table: str) -> None:
        """Sum of the leaves, and the start of all raw predictions."""
        base = self.constant("base", trees.base[None])
        if trees.n_trees == 0:
            raise UnsupportedExportError("to_onnx: the model has no trees.")
        attributes = _tree_attributes(trees)
        tensors = ("nodes_splits", "nodes_modes", "leaf_weights", "membership_values")
        leaves = self.node(
            "TreeEnsemble", [table], "leaves", "ai.onnx.ml",
            **{name: self.tensor(value) if name in tensors else value for name, value in attributes.items()},
        )  # fmt: skip
        self.node("Add", [leaves, base], "raw")
        self.output("raw", self._t.DOUBLE, ["n", trees.n_outputs])

    # -- from raw predictions to answers -----------------------------------------------------------------------------

    def add_classes(self, classes: Any, link: str) -> None:
        """Label and probabilities."""
        if link == "logistic":
            second = self.node("Sigmoid", ["raw"], "second")
            first = self.node("Sub", [self.constant("one", np.array([[1.0]])), second], "first")
            self.node("Concat", [first, second], "probabilities", axis=1)
            zero = self.constant("zero", np.array([[0.0]]))
            is_second = self.node("Cast", [self.node("Greater", ["raw", zero], "above")], "is_second", to=self._t.INT64)
            number = self.node("Reshape", [is_second, self.constant("flat", np.array([-1]))], "number")
        else:
            self.node("Softmax", ["raw"], "probabilities", axis=1)
            number = self.node("ArgMax", ["raw"], "number", axis=1, keepdims=0)
        labels, kind = self._labels(classes)
        self.node("Gather", [labels, number], "label", axis=0)
        self.outputs.insert(0, self._h.make_tensor_value_info("label", kind, ["n"]))
        self.outputs.insert(1, self._h.make_tensor_value_info("probabilities", self._t.DOUBLE, ["n", len(classes)]))

    def _labels(self, classes: Any) -> tuple[str, Any]:
        if classes.dtype.kind in "iub":
            return self.constant("labels", classes.astype(np.int64)), self._t.INT64
        if classes.dtype.kind == "f":
            return self.constant("labels", classes.astype(np.float64)), self._t.DOUBLE
        if all(isinstance(label, str) for label in classes.tolist()):
            text = [label.encode() for label in classes.tolist()]
            name = self._inner + "labels"
            self.constants.append(self._h.make_tensor(name, self._t.STRING, [len(text)], text))
            return name, self._t.STRING
        raise UnsupportedExportError("to_onnx: labels must be all numbers of one type, or all text.")

    def add_prediction(self, link: str) -> None:
        """The regressor's prediction."""
        if link == "exp":
            low, high = self.constant("low", np.array(-50.0)), self.constant("high", np.array(50.0))
            self.node("Exp", [self.node("Clip", ["raw", low, high], "clipped")], "prediction")
        else:
            self.node("Identity", ["raw"], "prediction")
        self.outputs.insert(0, self._h.make_tensor_value_info("prediction", self._t.DOUBLE, ["n", 1]))

    def finish(self, schema: Schema) -> Any:
        """The checked model."""
        graph = self._h.make_graph(self.nodes, "UnbiasedGBM", self.inputs, self.outputs, self.constants)
        opsets = [self._h.make_opsetid("", _OPSET), self._h.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = self._h.make_model(
            graph, opset_imports=opsets, producer_name="unbiasedgbm", producer_version=__version__, ir_version=_IR
        )
        self._onnx.checker.check_model(model)
        return model


def _tree_attributes(trees: TreeEnsemble) -> dict[str, Any]:
    """Attributes of the TreeEnsemble operator: inner nodes and leaves are numbered apart from each other."""
    inner = trees.left >= 0
    first = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    # a tree of one leaf needs an inner node whose children are both that leaf
    stumps = trees.tree_start[:-1][~inner[trees.tree_start[:-1]]]
    listed = inner.copy()
    listed[stumps] = True
    node = np.flatnonzero(listed)
    number = np.where(listed, np.cumsum(listed) - 1, -1)
    leaf_number = np.cumsum(~inner) - 1
    left = np.where(inner[node], first[node] + trees.left[node], node)
    right = np.where(inner[node], left + 1, node)
    sets = node_sets(trees)
    members: list[float] = []
    modes, missing_left = np.full(len(node), _LEQ, np.uint8), trees.missing_left[node].astype(np.int64)
    splits = np.where(inner[node], trees.threshold[node], 0.0)
    for place, k in enumerate(node.tolist()):
        if k in sets:
            levels = np.flatnonzero(sets[k][1:]).astype(np.float64)
            missing_left[place] = int(sets[k][0])
            if len(levels):
                modes[place] = _MEMBER
                members += [*levels.tolist(), np.nan]
            else:
                modes[place], splits[place] = _LT, -np.inf
    attributes = {
        "n_targets": trees.n_outputs,
        "tree_roots": number[trees.tree_start[:-1]].tolist(),
        "nodes_featureids": np.maximum(trees.feature[node], 0).tolist(),
        "nodes_splits": splits,
        "nodes_modes": modes,
        "nodes_truenodeids": np.where(inner[left], number[left], leaf_number[left]).tolist(),
        "nodes_trueleafs": (~inner[left]).astype(int).tolist(),
        "nodes_falsenodeids": np.where(inner[right], number[right], leaf_number[right]).tolist(),
        "nodes_falseleafs": (~inner[right]).astype(int).tolist(),
        "nodes_missing_value_tracks_true": missing_left.tolist(),
        "leaf_weights": trees.value[~inner],
        "leaf_targetids": np.repeat(trees.output, np.diff(trees.tree_start))[~inner].tolist(),
    }
    return {**attributes, "membership_values": np.array(members)} if members else attributes
