"""What is measured of predictions, by task. Greater is better for AUC and accuracy, smaller for everything else."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

PROBABILITY_FLOOR = 1e-9
"""Probabilities are kept this far from 0 and 1 in the log loss, so that one certain mistake does not decide a table."""

CALIBRATION_BINS = 10

PRIMARY = {"binary": "auc", "multiclass": "log_loss", "regression": "rmse"}
"""The metric by which methods are ranked over tables of all tasks."""

GREATER_IS_BETTER = {"auc", "accuracy"}


def measure(task: str, y: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Return every metric of a task.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    y : ndarray of shape (n,)
    prediction : ndarray of shape (n,) or (n, k)
        Probability of class 1, probabilities of all classes, or values.
    """
    if not np.isfinite(prediction).all():
        raise ValueError("the predictions are not all finite")
    if task == "binary":
        return {
            "auc": area_under_curve(y, prediction),
            "log_loss": log_loss(y, np.column_stack([1 - prediction, prediction])),
            "calibration_error": calibration_error(y, prediction),
        }
    if task == "multiclass":
        return {
            "log_loss": log_loss(y, prediction),
            "auc": multiclass_auc(y, prediction),
            "accuracy": float(np.mean(prediction.argmax(axis=1) == y)),
        }
    return {"rmse": root_mean_squared_error(y, prediction), "mae": float(np.mean(np.abs(y - prediction)))}


def area_under_curve(y: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve."""
    return float(roc_auc_score(y, score))


def multiclass_auc(y: np.ndarray, probability: np.ndarray) -> float:
    """Mean over the classes that occur in `y` of the AUC of that class against the rest."""
    return float(np.mean([area_under_curve(y == label, probability[:, label]) for label in np.unique(y)]))


def log_loss(y: np.ndarray, probability: np.ndarray) -> float:
    """Mean negative log-likelihood of the true class, `probability` of shape (n, k)."""
    true_class = probability[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.clip(true_class, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR))))


def calibration_error(y: np.ndarray, probability: np.ndarray, bins: int = CALIBRATION_BINS) -> float:
    """Mean distance between predicted and observed frequency over bins with equally many rows, weighted by rows.

    Rows with equal predictions are split over neighbouring bins by their position after a stable sort, so the number
    depends on the order of such rows only where predictions are tied across the edge of a bin.
    """
    order = np.argsort(probability, kind="stable")
    gaps = [
        abs(float(np.sum(probability[rows] - y[rows]))) for rows in np.array_split(order, bins)
    ]  # |mean p − mean y| times the rows of the bin
    return float(np.sum(gaps) / len(y))


def root_mean_squared_error(y: np.ndarray, prediction: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((y - prediction) ** 2)))
