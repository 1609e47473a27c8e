"""DaskUnbiasedGBMClassifier and DaskUnbiasedGBMRegressor: the local estimators, with rows on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import delayed
from distributed import Client
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm.callbacks import Callback
from unbiasedgbm.distributed.clients import chosen_client
from unbiasedgbm.distributed.crew import Crew, Traffic, WorkerLostError
from unbiasedgbm.distributed.inputs import in_memory, is_lazy, partitions, pieces
from unbiasedgbm.distributed.leading import LeadingStation
from unbiasedgbm.distributed.setup import SetUp
from unbiasedgbm.distributed.station import TRAIN, WATCH
from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor, Work
from unbiasedgbm.model import FittedModel
from unbiasedgbm.threads import Pool

# Times that reading the rows is begun anew because a worker was lost.
_ATTEMPTS = 5


class _OnACluster:
    """What the distributed classifier and regressor share."""

    _local: type[Any]
    _metric: Callable[..., float]
    traffic_: Traffic

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: None = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        init_model: Any = None,
        callbacks: Sequence[Callback] = (),
        client: Client | None = None,
    ) -> Self:
        """Train on the workers of a Dask cluster.

        Parameters
        ----------
        X : Dask array, Dask data frame, or list of delayed tables
            The model is that of a local fit on the same rows in the same order, however they are cut.
        y : Dask array, Dask series, or list of delayed arrays
            Cut at the same rows as ``X``.
        sample_weight : as ``y``, default=None
        groups : None
            Rows of a cluster cannot be grouped.
        X_val, y_val, sample_weight_val : default=None
            Rows to record metrics of, and to stop early by; collections as ``X`` and ``y``, or plain tables.
        init_model : fitted estimator of the same kind, local or distributed, default=None
            Training goes on from it.
        callbacks : sequence of callbacks, default=()
            Called in this process. `Checkpoint` cannot be used.
        client : Client, default=None
            None for Dask's current one.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if groups is not None:
            raise ValueError("groups must be None: on a cluster, roles are drawn for rows, not for groups of them.")
        stops = self._stops_early(X_val)  # type: ignore[attr-defined]
        given = (X, y, sample_weight, X_val, y_val, sample_weight_val)
        crews: list[Crew] = []
        set_up = partial(self._set_up_on, chosen_client(client), crews, given, stops)
        with self._unchanged_by_errors():  # type: ignore[attr-defined]
            trained: Self = self._train(set_up, init_model, callbacks, stops)  # type: ignore[attr-defined]
        self.traffic_ = crews[-1].traffic
        return trained

    def _set_up_on(
        self,
        client: Client,
        crews: list[Crew],
        given: tuple[Any, ...],
        stops: bool,
        before: FittedModel | None,
        seed: int,
        pool: Pool,
    ) -> Work:
        """Place the rows on workers, and set a booster on them; begun anew where a worker is lost on the way."""
        X, y, sample_weight, X_val, y_val, sample_weight_val = given
        if X_val is None and (y_val is not None or sample_weight_val is not None):
            raise ValueError("y_val and sample_weight_val have no meaning without X_val.")
        if X_val is not None and y_val is None:
            raise ValueError("X_val was given, but y_val is None.")
        for attempt in range(_ATTEMPTS):
            crew = None
            # anew, with keys of their own: those of the last attempt are cancelled
            parts = {(TRAIN, i): part for i, part in enumerate(partitions(X, y, sample_weight))}
            if X_val is not None:
                watched = partitions(X_val, y_val, sample_weight_val, "_val")
                parts |= {(WATCH, i): part for i, part in enumerate(watched)}
            try:
                crew = Crew(client, parts, self.n_jobs, LeadingStation)  # type: ignore[attr-defined]
                crews.append(crew)
                return SetUp(self, crew, before, seed).run(
                    stops, X_val is not None, sample_weight_val is not None, pool
                )
            except BaseException as error:
                if crew is not None:
                    crew.close()
                if not isinstance(error, WorkerLostError):
                    raise
                if attempt + 1 == _ATTEMPTS:
                    raise RuntimeError(
                        f"{_ATTEMPTS} times in a row a worker was lost before training began."
                    ) from error
        raise AssertionError("unreachable")

    def to_local(self) -> Any:
        """The local estimator with the same model: nothing of it needs Dask."""
        check_is_fitted(self)
        local = self._local(**self.get_params(deep=False))  # type: ignore[attr-defined]
        if hasattr(self, "classes_"):
            local.classes_ = self.classes_
        local._trained_loss = self._trained_loss  # type: ignore[attr-defined]
        return local._accept(self._model, self.split_rule_)  # type: ignore[attr-defined]

    def _lazily(self, method: str, X: Any, n_columns: int | None, dtype: Any, **options: Any) -> Any:
        """Call a method of the local estimator on every partition, when it is computed.

        Parameters
        ----------
        n_columns : int or None
            Columns of the result; None for a vector.
        """
        local = self.to_local()
        if not is_lazy(X):
            return getattr(local, method)(X, **options)
        parts = pieces(X)
        sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * len(parts)
        model = delayed(local, traverse=False)
        call = delayed(_call, pure=False)
        rest = () if n_columns is None else (n_columns,)
        blocks = [
            da.from_delayed(call(model, method, part, rest, dtype, options), (size, *rest), dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def decision_function(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Raw predictions as a lazy Dask array."""
        check_is_fitted(self)
        k = self._model.n_outputs  # type: ignore[attr-defined]
        return self._lazily("decision_function", X, None if k == 1 else k, np.float64, n_iterations=n_iterations)

    def apply(self, X: Any) -> Any:
        """Leaf that each row reaches in each tree, as a lazy Dask array of shape (n, n_trees)."""
        check_is_fitted(self)
        return self._lazily("apply", X, self.ensemble_.n_trees, np.int32)  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or R², of the predictions of all rows.

        Parameters
        ----------
        X, y, sample_weight
            Collections as in `fit`, or plain tables. The predictions, ``y`` and the weights come to this process.

        Returns
        -------
        float
        """
        predicted, target, weight = in_memory(self.predict(X), y, sample_weight)  # type: ignore[attr-defined]
        return float(self._metric(target, predicted, sample_weight=weight))

    def _staged_raw(self, X: Any) -> Any:
        raise TypeError("Staged predictions are not lazy: use to_local() and give it a table in memory.")


class DaskUnbiasedGBMClassifier(_OnACluster, UnbiasedGBMClassifier):
    """`UnbiasedGBMClassifier` whose rows are on a Dask cluster; the model is the same, to the bit.

    Parameters
    ----------
    **parameters
        Those of `UnbiasedGBMClassifier`; ``n_jobs`` are the threads on each worker, None for those that it has.

    Attributes
    ----------
    classes_, feature_importances_, ensemble_, split_rule_, n_iter_, best_iteration_, history_
        See `UnbiasedGBMClassifier`.
    traffic_ : Traffic
        Round trips, bytes of answers, and bytes of training rows on each station of the last fit.
    """

    _local = UnbiasedGBMClassifier
    _metric = staticmethod(accuracy_score)

    def predict_proba(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Class probabilities as a lazy Dask array of shape (n, n_classes)."""
        check_is_fitted(self)
        return self._lazily("predict_proba", X, len(self.classes_), np.float64, n_iterations=n_iterations)

    def predict(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Most probable class of each row as a lazy Dask array of shape (n,)."""
        check_is_fitted(self)
        return self._lazily("predict", X, None, self.classes_.dtype, n_iterations=n_iterations)


class DaskUnbiasedGBMRegressor(_OnACluster, UnbiasedGBMRegressor):
    """`UnbiasedGBMRegressor` whose rows are on a Dask cluster; the model is the same, to the bit.

    Parameters
    ----------
    **parameters
        Those of `UnbiasedGBMRegressor`; ``n_jobs`` are the threads on each worker, None for those that it has.

    Attributes
    ----------
    feature_importances_, ensemble_, split_rule_, n_iter_, best_iteration_, history_
        See `UnbiasedGBMClassifier`.
    traffic_ : Traffic
        Round trips, bytes of answers, and bytes of training rows on each station of the last fit.
    """

    _local = UnbiasedGBMRegressor
    _metric = staticmethod(r2_score)

    def predict(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Predicted mean, median, quantile or rate as a lazy Dask array of shape (n,)."""
        check_is_fitted(self)
        return self._lazily("predict", X, None, np.float64, n_iterations=n_iterations)


def _call(
    model: Any, method: str, X: Any, rest: tuple[int, ...], dtype: Any, options: dict[str, Any]
) -> npt.NDArray[Any]:
    """One partition's part of a lazy result."""
    if len(X) == 0:
        return np.empty((0, *rest), dtype)
    found: npt.NDArray[Any] = getattr(model, method)(X, **options)
    return found
