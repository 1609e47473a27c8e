"""A trained model as a document, and back: the one form that files and pickles share."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import fields
from unbiasedgbm.files.trees import trees_from_dict, trees_to_dict
from unbiasedgbm.frames import Schema
from unbiasedgbm.model import FittedModel
from unbiasedgbm.parameters import MAX_BAGS
from unbiasedgbm.training.booster import Progress
from unbiasedgbm.training.evidence import N_BUCKETS, EvidenceMemory

_MAX_ITERATIONS = 2**31 - 1
_TRAINING = {
    "seed", "n_outputs", "n_iterations", "best_iteration", "idle", "start_dispersion", "start_squares", "importance",
    "n_splits", "n_bags", "n_line", "worth", "peak", "peak_worth", "memories", "fingerprint",
}  # fmt: skip


def model_to_dict(model: FittedModel) -> dict[str, Any]:
    """Plain values and arrays: ``table``, ``trees``, ``training`` and ``history``."""
    progress = model.progress
    return {
        "table": model.schema.to_dict(),
        "trees": trees_to_dict(model.ensemble),
        "training": {
            "seed": model.seed,
            "n_outputs": model.n_outputs,
            "n_bags": model.n_bags,
            "n_line": progress.n_line,
            "n_iterations": progress.n_iterations,
            "best_iteration": model.n_iterations,
            "idle": progress.idle,
            "worth": fields.plain_number(progress.worth),
            "peak": progress.peak,
            "peak_worth": fields.plain_number(progress.peak_worth),
            "start_dispersion": fields.plain_number(progress.start_dispersion),
            "start_squares": progress.start_squares,
            "importance": progress.importance,
            "n_splits": progress.n_splits,
            "memories": [_memory_to_dict(memory) for memory in progress.memories],
            "fingerprint": model.fingerprint,
            **({"watched": model.watched} if model.watched else {}),
        },
        "history": {
            name: {metric: fields.plain(values) for metric, values in metrics.items()}
            for name, metrics in model.history.items()
        },
    }


def model_from_dict(data: Any) -> FittedModel:
    """Validated model.

    Parameters
    ----------
    data : mapping
        What `model_to_dict` gave, with lists or arrays; untrusted.

    Raises
    ------
    ValueError
        If anything in it is not as `model_to_dict` writes it.
    """
    data = fields.mapping(data, "model", {"table", "trees", "training", "history"})
    schema = Schema.from_dict(data["table"])
    training = dict(fields.mapping(data["training"], "training"))
    watched = _watched(training.pop("watched", {}))
    fields.mapping(training, "training", _TRAINING)
    n_outputs = fields.integer(training["n_outputs"], "n_outputs", 1, _MAX_ITERATIONS)
    n_iterations = fields.integer(training["n_iterations"], "n_iterations", 0, _MAX_ITERATIONS)
    n_each = n_outputs * fields.integer(training["n_bags"], "n_bags", 1, MAX_BAGS)
    n_line = fields.integer(training["n_line"], "n_line", 0, schema.n_features * n_outputs)
    if n_line % n_outputs:
        raise ModelFileError("'n_line' is no multiple of the number of outputs")
    model = FittedModel(
        schema=schema,
        ensemble=trees_from_dict(data["trees"], schema, n_outputs, n_line + n_each * n_iterations),
        progress=_progress(training, schema.n_features, n_outputs, n_each, n_iterations, n_line),
        seed=fields.integer(training["seed"], "seed", 0, 2**63 - 1),
        n_iterations=fields.integer(training["best_iteration"], "best_iteration", 0, n_iterations),
        history=_history(data["history"], n_iterations),
        fingerprint=fields.text(training["fingerprint"], "fingerprint"),
        watched=watched,
    )
    # lay it out for walking now: what cannot be walked is an error of the file
    _ = model.walk
    return model


def to_json(data: Any) -> Any:
    """The same document with lists in place of arrays."""
    if isinstance(data, np.ndarray):
        return fields.plain(data)
    if isinstance(data, dict):
        return {key: to_json(value) for key, value in data.items()}
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return [to_json(value) for value in data]
    return data


def _memory_to_dict(memory: EvidenceMemory) -> dict[str, Any]:
    return {"n_trees": memory.n_trees, "mean": memory.mean, "square": memory.square}


def _progress(training: Any, n_features: int, n_outputs: int, n_each: int, n_iterations: int, n_line: int) -> Progress:
    size = n_features + N_BUCKETS
    memories = []
    for entry in fields.sequence(training["memories"], "memories", n_each):
        entry = fields.mapping(entry, "memories", {"n_trees", "mean", "square"})
        n_trees = fields.integer(entry["n_trees"], "n_trees", 0, n_iterations)
        mean, square = (fields.floats(entry[name], name, size) for name in ("mean", "square"))
        memories.append(EvidenceMemory(n_trees, mean, square))
    return Progress(
        n_iterations=n_iterations,
        idle=fields.integer(training["idle"], "idle", 0, n_iterations),
        memories=memories,
        importance=fields.floats(training["importance"], "importance", n_features),
        n_splits=fields.integers(training["n_splits"], "n_splits", 0, 2**62, n_features),
        start_dispersion=fields.number(training["start_dispersion"], "start_dispersion"),
        start_squares=fields.floats(training["start_squares"], "start_squares", n_outputs, finite=False),
        n_line=n_line,
        worth=fields.floats([training["worth"]], "worth", 1).item(),
        peak=fields.integer(training["peak"], "peak", 0, n_iterations),
        peak_worth=fields.floats([training["peak_worth"]], "peak_worth", 1).item(),
    )


def _watched(data: Any) -> dict[str, str]:
    watched = {name: fields.text(digest, "watched") for name, digest in fields.mapping(data, "watched").items()}
    if not watched.keys() <= {"training", "validation"}:
        raise ModelFileError("'watched' has an unknown part")
    return watched


def _history(data: Any, n_iterations: int) -> dict[str, dict[str, list[float]]]:
    history: dict[str, dict[str, list[float]]] = {}
    for name, metrics in fields.mapping(data, "history").items():
        if name not in ("training", "validation"):
            raise ModelFileError(f"'history' has an unknown part: {name!r:.80}")
        history[name] = {
            metric: fields.floats(values, metric, finite=False).tolist()
            for metric, values in fields.mapping(metrics, name).items()
        }
        if any(len(values) > n_iterations for values in history[name].values()):
            raise ModelFileError("'history' is longer than the training was")
    return history
