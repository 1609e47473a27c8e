"""Feature selection by unbiased gain."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRequest, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted, validate_data

from unbiasedgbm.importance.crossfit import cross_unbiased_gain, rows_of
from unbiasedgbm.importance.gain import unbiased_gain
from unbiasedgbm.importance.result import Importance

MODES = ("fdr", "p_value", "k_best", "fraction")


class UnbiasedGainSelector(SelectorMixin, MetaEstimatorMixin, BaseEstimator):
    """Select features by the unbiased gain of a gradient boosting model or forest.

    Parameters
    ----------
    estimator : object
        An unfitted estimator that `unbiased_gain` reads.
    mode : {"fdr", "p_value", "k_best", "fraction"}, default="fdr"
        Keep the features whose Benjamini–Hochberg adjusted p-value is at most ``param``; whose p-value is at most
        ``param``; the ``param`` best; the best share ``param`` of them.
    param : float, default=0.1
        The level, number or share that ``mode`` speaks of.
    cv : int, splitter, iterable or None, default=5
        Folds of `cross_unbiased_gain`, in which every row judges once. A number of folds is shuffled, and lowered to
        the size of the smallest class. None holds out a part of the rows once, which is faster and finds less.
    held_out : float, default=0.3
        Share of rows that is held out if ``cv`` is None.
    min_rows : int, default=5
        As in `unbiased_gain`.
    random_state : int, RandomState or None, default=None
        Of the folds, or of the rows that are held out.

    Notes
    -----
    With scikit-learn's metadata routing, weights must be requested by the estimator
    (``estimator.set_fit_request(sample_weight=True)``), as in its ``SelectFromModel``; groups of rows go to ``cv``.
    Estimators that have no requests, as those of CatBoost, get ``sample_weight`` whenever it is passed.

    Attributes
    ----------
    importance_ : Importance
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the table has names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from unbiasedgbm import UnbiasedGainSelector
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> selector = UnbiasedGainSelector(HistGradientBoostingClassifier(max_iter=10), mode="k_best", param=3)
    >>> selector.fit_transform(X, y).shape
    (569, 3)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        mode: str = "fdr",
        param: float = 0.1,
        cv: Any = 5,
        held_out: float = 0.3,
        min_rows: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.mode = mode
        self.param = param
        self.cv = cv
        self.held_out = held_out
        self.min_rows = min_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **fit_params: Any) -> UnbiasedGainSelector:
        """Fit the estimator on a part of the rows and judge its features by the others.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        **fit_params
            ``sample_weight``: array-like of shape (n_rows,). ``groups``: array-like of shape (n_rows,), for a ``cv``
            with a ``split`` that keeps rows together. Other arguments are refused, because they could not be split
            with the rows.

        Returns
        -------
        self
        """
        self._check_parameters()
        if hasattr(self.estimator, "steps"):
            raise TypeError("estimator must not be a pipeline: put its other steps before the selector.")
        sample_weight, groups = self._routed(fit_params)
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            # The estimator may know categories and missing values that an array would lose.
            validate_data(self, X, skip_check_array=True)
        else:
            X, y = validate_data(
                self, X, y, dtype=None, ensure_all_finite=not get_tags(self).input_tags.allow_nan, ensure_min_samples=4
            )
        labels = np.asarray(y)
        groups = rows_of(groups, _num_samples(X), "groups")
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        if self.cv is None:
            self.importance_ = self._split(X, labels, weight)
        else:
            self.importance_ = cross_unbiased_gain(
                self.estimator,
                X,
                labels,
                cv=self._folds(labels),
                sample_weight=weight,
                cv_groups=groups,
                min_rows=self.min_rows,
            )
        self._warn_if_nothing()
        return self

    def _folds(self, y: Any) -> Any:
        """The splitter: a number of folds is shuffled, and stratified if every class has two rows."""
        if not isinstance(self.cv, Integral):
            return self.cv
        rng = check_random_state(self.random_state)
        if is_classifier(self.estimator):
            check_classification_targets(y)
        if is_classifier(self.estimator) and (smallest := int(np.unique(y, return_counts=True)[1].min())) >= 2:
            # A fold must not hold out the only row of a class.
            return StratifiedKFold(min(int(self.cv), smallest), shuffle=True, random_state=rng)
        if is_classifier(self.estimator):
            raise ValueError(
                "y has a class with one row, which cannot both train and judge; cv needs two of each class."
            )
        return KFold(min(int(self.cv), len(y)), shuffle=True, random_state=rng)

    def _warn_if_nothing(self) -> None:
        if self._get_support_mask().any():
            return
        p = self.importance_.p_adjusted if self.mode == "fdr" else self.importance_.p_value
        warnings.warn(
            f"No feature is selected: the smallest {'adjusted ' * (self.mode == 'fdr')}p-value is {p.min():.2g}, and "
            f"param={self.param:g} asks for less. Give more rows, a larger param, or mode='k_best'.",
            UserWarning,
            stacklevel=3,
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Who gets what is passed to ``fit``: the estimator weights, a splitter groups of rows.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=self).add(
            estimator=_requests(self.estimator), method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def _routed(self, fit_params: dict[str, Any]) -> tuple[Any, Any]:
        """Weights and groups among the arguments of ``fit``, by the names that the receivers have asked for."""
        if get_config()["enable_metadata_routing"] and fit_params:
            routed = process_routing(self, "fit", **fit_params)
            fit_params = {**routed.estimator.fit, **(routed.splitter.split if "splitter" in routed else {})}
        unknown = sorted(set(fit_params) - {"sample_weight", "groups"})
        if unknown:
            raise TypeError(
                f"fit got an unexpected argument {unknown[0]!r}; only sample_weight and groups are supported."
            )
        groups = fit_params.get("groups")
        if groups is not None and not hasattr(self.cv, "split"):
            # Folds that are a number or are made already would ignore them.
            got = self.cv if self.cv is None or isinstance(self.cv, int) else f"a {type(self.cv).__name__} of folds"
            raise ValueError(f"groups needs a cv that keeps them together, for example GroupKFold(5); got cv={got}.")
        return fit_params.get("sample_weight"), groups

    def _check_parameters(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, got {self.mode!r}.")
        if self.mode == "k_best":
            if not self.param >= 1:
                raise ValueError(f"param must be at least 1 for mode='k_best', got {self.param!r}.")
        elif not 0.0 < self.param <= 1.0:
            raise ValueError(f"param must lie in (0, 1] for mode={self.mode!r}, got {self.param!r}.")
        if not 0.0 < self.held_out < 1.0:
            raise ValueError(f"held_out must lie between 0 and 1, got {self.held_out!r}.")

    def _split(self, X: Any, y: Any, weight: Any) -> Importance:
        """Hold out a part of the rows, each class in its share if it has two rows."""
        stratify = None
        if is_classifier(self.estimator) and np.unique(y, return_counts=True)[1].min() >= 2:
            stratify = y
        rows, held = train_test_split(
            np.arange(_num_samples(X)),
            test_size=self.held_out,
            random_state=check_random_state(self.random_state),
            stratify=stratify,
        )
        X_train = _safe_indexing(X, rows)
        fit_options = {} if weight is None else {"sample_weight": weight[rows]}
        model = clone(self.estimator).fit(X_train, y[rows], **fit_options)
        return unbiased_gain(
            model,
            X_train,
            y[rows],
            _safe_indexing(X, held),
            y[held],
            sample_weight_train=None if weight is None else weight[rows],
            sample_weight_val=None if weight is None else weight[held],
            min_rows=self.min_rows,
        )

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        result = self.importance_
        if self.mode == "fdr":
            return result.p_adjusted <= self.param
        if self.mode == "p_value":
            return result.p_value <= self.param
        n_features = len(result.importance)
        n_kept = int(self.param) if self.mode == "k_best" else max(1, round(self.param * n_features))
        mask = np.zeros(n_features, dtype=bool)
        mask[result.ranking()[:n_kept]] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.categorical = inner.input_tags.categorical
        tags.target_tags.required = True
        return tags


def _requests(estimator: Any) -> Any:
    """What routes metadata to an estimator: itself, or weights for one that does not know of routing."""
    if hasattr(estimator, "get_metadata_routing"):
        return estimator
    request = MetadataRequest(owner=estimator)
    request.fit.add_request(param="sample_weight", alias=True)
    return request
