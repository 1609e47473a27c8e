"""Checkpoints: a model file every so often, from which a training that was killed goes on to the same bits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbiasedgbm.callbacks.protocol import BaseCallback, Callback, TrainingState
from unbiasedgbm.exceptions import CheckpointError, progress_logger

if TYPE_CHECKING:
    from unbiasedgbm.binning import BinMapper
    from unbiasedgbm.ensemble.trees import TreeEnsemble
    from unbiasedgbm.training.loop import Validation
    from unbiasedgbm.training.shard import TrainingData

# A training may go on with other values of these and still end with the same trees.
_FREE = {"n_estimators", "n_jobs", "verbose", "warm_start"}


class Checkpoint(BaseCallback):
    """Saves the model every so many iterations; a `fit` that finds the file goes on from it.

    The file is a model file as any other. `fit` refuses it if it belongs to other parameters or other rows: delete it
    to start anew. It stays after training: a `fit` that is asked for more iterations later goes on from there.

    Parameters
    ----------
    path : path
        Gzipped if it ends with ``.gz``.
    every : int, default=50

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> import os, tempfile
    >>> from unbiasedgbm.callbacks import Checkpoint
    >>> path = os.path.join(tempfile.mkdtemp(), "run.json")
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y, callbacks=[Checkpoint(path, every=5)])
    >>> more = UnbiasedGBMClassifier(n_estimators=15).fit(X, y, callbacks=[Checkpoint(path, every=5)])  # goes on
    >>> more.n_iter_
    15
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 50) -> None:
        if not every >= 1:
            raise ValueError(f"every must be at least 1; got {every!r}.")
        self.path = path
        self.every = every

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Save if it is time."""
        if state.iteration % self.every == 0:
            state.model().save_model(self.path)
        return None

    def load(self, estimator: Any) -> Any:
        """The estimator of the checkpoint, or None if there is none.

        Raises
        ------
        CheckpointError
            If it is another kind of estimator or has other parameters.
        ModelFileError
            If the file is damaged, which a crash cannot do: it is replaced in one step.
        """
        from unbiasedgbm.files.model_file import load_model
        from unbiasedgbm.files.values import to_plain

        if not os.path.exists(self.path):
            return None
        found = load_model(self.path)
        if not isinstance(estimator, type(found)):
            raise CheckpointError(
                f"{self._what()} is of a {type(found).__name__}, not of this {type(estimator).__name__}."
            )
        theirs = found.get_params(deep=False)
        for name, value in estimator.get_params(deep=False).items():
            if name not in _FREE and to_plain(value) != to_plain(theirs.get(name)):
                raise CheckpointError(
                    f"{self._what()} was trained with {name}={theirs.get(name)!r}, but this estimator has "
                    f"{name}={value!r}. Delete the file to start anew."
                )
        progress_logger().info("going on from %s after %d iterations", os.fspath(self.path), found.n_iter_)
        return found

    def check_rows(self, found: Any, fingerprint: str) -> None:
        """Raise CheckpointError unless a loaded checkpoint was trained on the rows with this fingerprint."""
        if found._model.fingerprint != fingerprint:
            raise CheckpointError(
                f"{self._what()} was trained on other rows, weights or validation rows, or went on from another model. "
                "Delete the file to start anew."
            )

    def _what(self) -> str:
        return f"The checkpoint {os.fspath(self.path)}"


def find_checkpoint(callbacks: Sequence[Callback]) -> Checkpoint | None:
    """The checkpoint among the callbacks."""
    found = [callback for callback in callbacks if isinstance(callback, Checkpoint)]
    if len(found) > 1:
        raise ValueError("callbacks: one Checkpoint is enough.")
    return found[0] if found else None


def fingerprint(
    data: TrainingData, mapper: BinMapper, validation: Validation | None, start: TreeEnsemble | None
) -> str:
    """A number for all that training reads: binned rows, targets, weights, validation rows, trees to go on from."""
    digest = hashlib.blake2b(digest_size=16)
    arrays: list[Any] = [
        data.bins.narrow,
        data.bins.wide,
        data.y,
        data.sample_weight,
        data.counts,
        *mapper.edges,
    ]
    if data.groups is not None:
        arrays.append(data.groups)
    if validation is not None:
        arrays += [validation.bins.narrow, validation.bins.wide, validation.y, validation.sample_weight]
    if start is not None:
        arrays += [start.base, start.left, start.feature, start.threshold, start.value, start.sets]
    for array in arrays:
        digest.update(b"none" if array is None else f"{array.dtype} {array.shape} ".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
