"""Exports: the trees for other tools. Each function imports what it needs when it is called."""

from unbiasedgbm.export.frame import to_frame
from unbiasedgbm.export.onnx import to_onnx
from unbiasedgbm.export.shap import ShapModel, to_shap
from unbiasedgbm.export.treelite import to_numbers, to_treelite

__all__ = ["ShapModel", "to_frame", "to_numbers", "to_onnx", "to_shap", "to_treelite"]
