"""UnbiasedGBMClassifier and UnbiasedGBMRegressor: validate, convert, delegate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm.binning import MOST_BINS
from unbiasedgbm.callbacks import Callback, EarlyStopping, LogProgress, TrainingState
from unbiasedgbm.callbacks.checkpoint import find_checkpoint, fingerprint
from unbiasedgbm.callbacks.protocol import check_callbacks
from unbiasedgbm.ensemble.predict import MOST_CUTS
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.exceptions import SmallTableWarning
from unbiasedgbm.files.values import holds_unsaved
from unbiasedgbm.frames import Schema, learn_schema
from unbiasedgbm.losses import REGRESSION_LOSSES, CustomLoss, LogLoss, Loss, MulticlassLogLoss, regression_loss
from unbiasedgbm.metrics import Metric, make_metrics
from unbiasedgbm.model import FittedModel, copy_history
from unbiasedgbm.parameters import (
    CLASSIFIER_PARAMETERS,
    REGRESSOR_PARAMETERS,
    Parameter,
    check_parameters,
    check_role_ratio,
)
from unbiasedgbm.targets import (
    HEAVIEST,
    class_numbers,
    distinct_labels,
    finite_numbers,
    group_numbers,
    read_groups,
    read_target,
    read_weight,
)
from unbiasedgbm.threads import Pool, effective_n_jobs
from unbiasedgbm.training.booster import Booster
from unbiasedgbm.training.constraints import interaction_groups, monotone_signs
from unbiasedgbm.training.defaults import DEFAULT_BAGS, clip, most_leaves, pull, rate, rule_and_leaf
from unbiasedgbm.training.harvest import Harvest
from unbiasedgbm.training.loop import Watched, boost
from unbiasedgbm.training.setup import Constraints, Rows, Start, hold_out, make_booster, watch
from unbiasedgbm.training.workspace import TrainingParameters

FloatArray = npt.NDArray[np.float64]

# What raw predictions mean is said by these, whatever they are set to after the fit.
_LOSS_PARAMETERS = ("loss", "quantile", "huber_quantile", "tweedie_power")


@dataclass(frozen=True)
class Work:
    """What `fit` has in hand when boosting begins.

    Attributes
    ----------
    schema : Schema
    booster : Booster
    start : Start
    metrics : list of Metric
    training : Watched
    validation : Watched or None
    watched : dict
        Digest of the rows that early stopping may look at, by set.
    fingerprint : callable
        ``fingerprint(before)`` is a number for all that training reads, the trees to go on from included.
    close : callable
        Gives back whatever training holds.
    """

    schema: Schema
    booster: Booster
    start: Start
    metrics: list[Metric]
    training: Watched
    validation: Watched | None
    watched: dict[str, str]
    fingerprint: Callable[[TreeEnsemble | None], str]
    close: Callable[[], None] = lambda: None


class _BaseUnbiasedGBM(BaseEstimator):
    """What classifier and regressor share."""

    _parameters: ClassVar[tuple[Parameter, ...]]
    _model: FittedModel
    _trained_loss: dict[str, Any]
    classes_: npt.NDArray[Any]

    # -- what the subclasses say -------------------------------------------------------------------------------------

    def _learn_target(self, y: npt.NDArray[Any]) -> None:
        """Learn from the training target what `_encode` needs."""

    def _encode(self, y: npt.NDArray[Any], name: str) -> FloatArray:
        """Target as float64: class numbers, or the numbers themselves."""
        raise NotImplementedError  # abstract

    def _make_loss(self) -> Loss:
        """The loss of the model; of the one in training, while there is one."""
        raise NotImplementedError  # abstract

    def _class_weights(self, y: FloatArray) -> FloatArray | None:
        return None

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        init_model: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            NumPy array, pandas, polars or Arrow table; missing values and categories as they are.
        y : array-like of shape (n,)
            Target.
        sample_weight : array-like of shape (n,), default=None
            A row of weight 0 counts as absent. With ``split_rule="evidence"`` weights are relative; with the others
            whole numbers count as repetitions of the row.
        groups : array-like of shape (n,), default=None
            Labels of rows that belong together: of one patient, customer or day. No row judges a split that another
            one of its group chose, and early stopping holds out whole groups. See the guide to training.
        X_val, y_val, sample_weight_val : default=None
            Rows to record metrics of, and to stop early by.
        init_model : fitted estimator of the same class, default=None
            Training goes on from it, up to ``n_estimators`` iterations in all, as if it had not stopped: boosting that
            has ended by itself stays ended, even with other rows.
        callbacks : sequence of callbacks, default=()
            See `unbiasedgbm.callbacks`.

        Returns
        -------
        self
        """
        given = (X, y, sample_weight, groups, X_val, y_val, sample_weight_val)
        with self._unchanged_by_errors():
            return self._train(partial(self._set_up, given), init_model, callbacks, self._stops_early(X_val))

    @contextmanager
    def _unchanged_by_errors(self) -> Iterator[None]:
        """Keep the classes and the loss of the last model if the next one fails."""
        names = ("classes_", "_trained_loss")
        last = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(last)
            raise

    def _train(
        self,
        set_up: Callable[[FittedModel | None, int, Pool], Work],
        init_model: Any,
        callbacks: Sequence[Callback],
        stops: bool,
    ) -> Self:
        """Set up, boost, and keep the model.

        Parameters
        ----------
        set_up : callable
            ``set_up(before, seed, pool)`` reads all rows.
        stops : bool
            Whether training may stop early.
        """
        check_parameters(self._parameters, self.get_params(deep=False))
        callbacks = check_callbacks(callbacks)
        pool = Pool(effective_n_jobs(self.n_jobs))
        start = self._model_before(init_model)
        checkpoint = find_checkpoint(callbacks)
        resumed = None if checkpoint is None else checkpoint.load(self)
        before = start if resumed is None else self._model_before(resumed)
        seed = _draw_seed(self.random_state) if before is None else before.seed
        self._trained_loss = self._loss_as_set()

        work = set_up(before, seed, pool)
        booster, schema = work.booster, work.schema
        n_bags = booster.parameters.n_bags
        if before is not None and n_bags != before.n_bags:
            work.close()
            raise ValueError(f"n_bags must be {before.n_bags}, as in the model to go on from; got {n_bags}.")
        if booster.parameters.split_rule != self.split_rule:
            warnings.warn(
                f"X has too few rows for split_rule={self.split_rule!r} with leaves of at least "
                f"{booster.parameters.min_samples_leaf} rows; splits are judged by the rows that chose them "
                f"(split_rule={booster.parameters.split_rule!r}).",
                SmallTableWarning,
                stacklevel=3,
            )
        stopped_by = "training" if stops and work.validation is None else "validation"
        state = TrainingState(
            iteration=booster.progress.n_iterations,
            n_estimators=self.n_estimators,
            history={} if before is None else copy_history(before.history),
            greater_is_better={metric.name: metric.greater_is_better for metric in work.metrics},
            resumed=("training", "validation") if resumed is not None else _same_rows(before, work),
        )
        given = [callback for callback in callbacks if isinstance(callback, EarlyStopping)]
        if stops or not given:
            given = [EarlyStopping(self.n_iter_no_change, self.tol, stopped_by), *given]
        stopper = given[0]
        harvest = Harvest(booster.mapper, work.start.base, work.start.trees)
        rows_read = ""

        def model_so_far() -> FittedModel:
            best = stopper.best_iteration or state.iteration
            if before is not None and state.iteration == before.progress.n_iterations:
                best = before.n_iterations
            return FittedModel(
                schema, harvest.ensemble(), booster.progress.copy(), seed, best, copy_history(state.history), rows_read,
                work.watched,
            )  # fmt: skip

        rule = booster.parameters.split_rule
        state.model = lambda: self._twin()._accept(model_so_far(), rule)
        # whoever saves a model finds in it what has just been found best
        callbacks = sorted(callbacks, key=lambda callback: not isinstance(callback, EarlyStopping))
        watchers = [*[stopper] * stops, *callbacks, *[LogProgress(int(self.verbose))] * bool(self.verbose)]
        try:
            if checkpoint is not None:
                rows_read = work.fingerprint(None if start is None else start.ensemble)
                if resumed is not None:
                    checkpoint.check_rows(resumed, rows_read)
            training = bool(self.verbose) or any(one.rows == "training" for one in given)
            rows = {"validation": work.validation, "training": work.training if training else None}
            measured = {name: found for name, found in rows.items() if found is not None}
            boost(booster, state, work.metrics, measured, watchers, harvest)
        finally:
            work.close()
        return self._accept(model_so_far(), rule)

    def _set_up(self, given: tuple[Any, ...], before: FittedModel | None, seed: int, pool: Pool) -> Work:
        """Read all rows, and set a booster on those that train."""
        X, y, sample_weight, groups, X_val, y_val, sample_weight_val = given
        schema, rows = self._read_training_rows(X, y, sample_weight, groups, before)
        loss = self._make_loss()
        loss.check_target(rows.y)
        metrics = make_metrics(self.scoring, loss, getattr(self, "classes_", None))
        watched = self._read_validation_rows(schema, X_val, y_val, sample_weight_val)
        if self._stops_early(X_val) and watched is None and self.validation_fraction is not None:
            rows, watched = hold_out(rows, self.validation_fraction, hasattr(self, "classes_"), seed)
            loss.check_target(rows.y)
        digests = {} if watched is None else {"validation": watched.digest()}
        if self._stops_early(X_val) and watched is None:
            digests = {"training": rows.digest()}
        counts = rows.counts()
        n_counted = len(rows.y) if counts is None else int(counts.sum(dtype=np.int64))
        booster, shard, start = make_booster(
            rows, self._class_weights(rows.y), schema, self._constraints(schema),
            self._training_parameters(len(rows.y), n_counted, seed, before), self.max_bins, loss,
            None if before is None else (before.ensemble, before.progress), pool,
        )  # fmt: skip
        validation = None if watched is None else watch(watched, booster, start)

        def read(before: TreeEnsemble | None) -> str:
            return fingerprint(shard.data, booster.mapper, validation, before)

        return Work(schema, booster, start, metrics, shard, validation, digests, read)

    def _model_before(self, init_model: Any) -> FittedModel | None:
        """The model to go on from, by `warm_start` or ``init_model``."""
        if init_model is None and not (self.warm_start and hasattr(self, "_model")):
            return None
        other = self if init_model is None else init_model
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            raise ValueError(f"init_model must be a fitted {type(self).__name__}; got {type(other).__name__}.")
        check_is_fitted(other)
        if hasattr(other, "classes_"):
            self.classes_ = other.classes_
        theirs, ours = other._loss_parameters().get("loss"), getattr(self, "loss", None)
        if isinstance(theirs, str) and theirs != ours:
            raise ValueError(f"loss must be {theirs!r}, as in the model to go on from; got {ours!r}.")
        model: FittedModel = other._model
        if self.n_estimators < model.progress.n_iterations:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least the {model.progress.n_iterations} iterations of "
                "the model to go on from."
            )
        if np.diff(model.walk.cut_start).max(initial=0) + (self.max_bins or MOST_BINS) > MOST_CUTS:
            raise ValueError("The model to go on from has too many different thresholds; train it anew.")
        return model

    def _read_training_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, before: FittedModel | None
    ) -> tuple[Schema, Rows]:
        """Read table, target, weights and groups; rows of weight zero are absent from here on."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; it should be a 1d array."
            )
        weight = read_weight(sample_weight, "sample_weight")
        present = None if weight is None or weight.all() else np.flatnonzero(weight)
        if before is None:
            schema, table = learn_schema(
                X, categorical_features=self.categorical_features, handle_unknown=self.handle_unknown, rows=present
            )
        else:
            schema = replace(before.schema, handle_unknown=self.handle_unknown)
            table = schema.read(X, estimator_name=type(self).__name__)
        target = read_target(y, weight, table.n_rows, "y", "sample_weight")
        labels = read_groups(groups, table.n_rows)
        if present is not None and weight is not None:
            table, target, weight = table.take(present), target[present], weight[present]
            labels = None if labels is None else labels[present]
        if before is None:
            self._learn_target(target)
        return schema, Rows(table, self._encode(target, "y"), weight, self._number_groups(labels))

    def _number_groups(self, labels: npt.NDArray[Any] | None) -> npt.NDArray[np.uint32] | None:
        """Groups of rows as numbers."""
        if labels is None:
            return None
        if self.role_draw == "node":
            raise ValueError('groups cannot be used with role_draw="node"; use "tree" or "fit".')
        numbers = group_numbers(labels)
        if numbers.max() == 0:
            raise ValueError(
                "groups holds one group only, but no row judges a split that its own group chose: give two or more."
            )
        return numbers

    def _read_validation_rows(self, schema: Schema, X_val: Any, y_val: Any, sample_weight_val: Any) -> Rows | None:
        if X_val is None:
            if y_val is not None or sample_weight_val is not None:
                raise ValueError("y_val and sample_weight_val have no meaning without X_val.")
            return None
        if y_val is None:
            raise ValueError("X_val was given, but y_val is None.")
        try:
            table = schema.read(X_val, estimator_name=type(self).__name__)
        except ValueError as error:
            raise ValueError(f"X_val: {error}") from error
        weight = read_weight(sample_weight_val, "sample_weight_val")
        target = self._encode(read_target(y_val, weight, table.n_rows, "y_val", "sample_weight_val"), "y_val")
        self._make_loss().check_domain(target if weight is None else target[weight > 0], "y_val")
        return Rows(table, target, weight)

    def _stops_early(self, X_val: Any) -> bool:
        if self.early_stopping not in (True, False, "auto"):
            raise ValueError(f"early_stopping must be True, False or 'auto'; got {self.early_stopping!r}.")
        return X_val is not None if self.early_stopping == "auto" else bool(self.early_stopping)

    def _constraints(self, schema: Schema) -> Constraints:
        p, names = schema.n_features, schema.feature_names
        return Constraints(
            monotone_signs(self.monotonic_cst, p, names, schema.is_categorical),
            interaction_groups(self.interaction_cst, p, names),
        )

    def _training_parameters(
        self, n_rows: int, n_counted: int, seed: int, before: FittedModel | None
    ) -> TrainingParameters:
        """Parameters as the training takes them; ``n_counted`` are the rows with their repetitions."""
        ratio, loss = check_role_ratio(self.role_ratio), self._make_loss()
        rule, smallest = rule_and_leaf(
            self.split_rule, ratio, n_counted * self.subsample, self.min_samples_leaf, loss.name
        )
        same_name = {
            name: getattr(self, name)
            for name in (
                "role_draw", "max_depth", "min_child_weight", "min_split_gain",
                "cat_smooth", "subsample", "colsample_bytree", "colsample_bynode", "linear_start",
            )
        }  # fmt: skip
        return TrainingParameters(
            split_rule=rule,
            role_ratio=ratio if rule == self.split_rule else None,
            learning_rate=rate(self.learning_rate, rule, n_rows),
            num_leaves=most_leaves(self.num_leaves, rule, n_rows, loss.name),
            min_samples_leaf=smallest,
            n_bags=self._n_bags(rule, before),
            reg_lambda=self.reg_lambda / loss.n_outputs,
            pull=pull(rule, loss.name),
            clip=clip(rule, loss.name),
            seed=seed,
            **same_name,
        )

    def _n_bags(self, rule: str, before: FittedModel | None) -> int:
        """Chains of trees; without a number, those of the last fit, where this one goes on, also by a checkpoint."""
        if self.n_bags is not None:
            return int(self.n_bags)
        own: FittedModel | None = self.__dict__.get("_model")
        if own is not None and before is not None and (own is before or self.warm_start):
            return own.n_bags
        return DEFAULT_BAGS[rule]

    def _accept(self, model: FittedModel, split_rule: str) -> Self:
        """Make a model this estimator's own; returns self."""
        self._model = model
        self.__dict__.setdefault("_trained_loss", self._loss_as_set())
        self.split_rule_ = split_rule
        self.n_features_in_ = model.schema.n_features
        if model.schema.feature_names is not None:
            self.feature_names_in_ = np.array(model.schema.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _loss_as_set(self) -> dict[str, Any]:
        """Parameters of the loss as they are set; none of a classifier."""
        return {name: getattr(self, name) for name in _LOSS_PARAMETERS if hasattr(self, name)}

    def _loss_parameters(self) -> dict[str, Any]:
        """Parameters of the loss of the model, or of this estimator's own where there is no model.

        Functions that a model file could not hold are those that have been set since.
        """
        own = self._loss_as_set()
        trained = self.__dict__.get("_trained_loss", own)
        replaced = holds_unsaved(trained.get("loss")) and not isinstance(own["loss"], str)
        return dict(own if replaced else trained)

    def _twin(self, **parameters: Any) -> Self:
        """Another estimator with the same attributes, but for some parameters."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, **parameters)
        return twin

    # -- files -------------------------------------------------------------------------------------------------------

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file, which `unbiasedgbm.load_model` reads.

        Parameters
        ----------
        path : path
            JSON; gzipped if it ends with ``.gz``. The file is replaced in one step: a full disk or a crash leaves the
            old one as it was. The loss in it is the one that was trained with, whatever it has been set to since.
        """
        from unbiasedgbm.files.model_file import save_model

        save_model(self._twin(**self._loss_parameters()), path)

    def __getstate__(self) -> dict[str, Any]:
        from unbiasedgbm.files.document import model_to_dict

        state: dict[str, Any] = dict(super().__getstate__())
        if "_model" in state:
            state["_model"] = model_to_dict(state["_model"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from unbiasedgbm.files.document import model_from_dict

        # a pickle of an older version may lack newer parameters
        state = {**{parameter.name: parameter.default for parameter in self._parameters}, **state}
        # nor did it remember the parameters of its loss
        if not isinstance(state.get("_trained_loss", {}), dict):
            own = {name: state[name] for name in _LOSS_PARAMETERS if name in state}
            state["_trained_loss"] = {**own, "loss": state["_trained_loss"]} if own else {}
        if "_model" in state:
            training = {"n_line": 0, **state["_model"]["training"]}
            state["_model"] = model_from_dict({**state["_model"], "training": training})
        super().__setstate__(state)

    # -- what a fitted estimator knows -------------------------------------------------------------------------------

    @property
    def ensemble_(self) -> TreeEnsemble:
        """The trees that predictions use, as a `TreeEnsemble`."""
        check_is_fitted(self)
        model = self._model
        n_trees = model.n_trees(model.n_iterations)
        return model.ensemble if n_trees == model.ensemble.n_trees else model.ensemble.head(n_trees)

    @property
    def feature_importances_(self) -> FloatArray:
        """Gain gathered in training, shape (n_features,), as the split rule judges it.

        The sum, over all splits made and all candidates rejected, of the score that they were accepted by (with
        "evidence", of what both roles agree on), in units of the loss summed over rows: neither clipped nor scaled.
        Where the fit began from a line, what leaving the feature out of it would have cost is added.

        The mean of a useless feature is zero or less with the rules "separate" and "without_se", and with "evidence"
        unless the feature has hundreds of levels. With "merged", "without_ub" and "standard" it is positive. The honest
        number, with standard errors, is `unbiased_gain` on held-out rows.
        """
        check_is_fitted(self)
        return self._model.progress.importance.copy()

    @property
    def n_iter_(self) -> int:
        """Iterations done."""
        check_is_fitted(self)
        return self._model.progress.n_iterations

    @property
    def best_iteration_(self) -> int:
        """Iterations that predictions use: the best ones by early stopping, else all."""
        check_is_fitted(self)
        return self._model.n_iterations

    @property
    def history_(self) -> dict[str, dict[str, list[float]]]:
        """Metrics by set ("training", "validation") and name, one value an iteration."""
        check_is_fitted(self)
        return self._model.history

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # -- prediction --------------------------------------------------------------------------------------------------

    def _raw(self, X: Any, n_iterations: int | None) -> FloatArray:
        """Raw predictions, shape (n,) or (n, n_outputs)."""
        check_is_fitted(self)
        model = self._model
        last = model.progress.n_iterations
        if n_iterations is not None and not (isinstance(n_iterations, Integral) and 0 <= n_iterations <= last):
            raise ValueError(f"n_iterations must be a whole number between 0 and {last}; got {n_iterations!r}.")
        table = model.schema.read(X, estimator_name=type(self).__name__)
        raw = model.raw(table, n_iterations, Pool(effective_n_jobs(self.n_jobs)))
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def _staged_raw(self, X: Any) -> Iterator[FloatArray]:
        check_is_fitted(self)
        table = self._model.schema.read(X, estimator_name=type(self).__name__)
        for raw in self._model.staged(table, Pool(effective_n_jobs(self.n_jobs))):
            yield raw[:, 0] if raw.shape[1] == 1 else raw

    def apply(self, X: Any) -> npt.NDArray[np.int32]:
        """Leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n, n_trees), int32
            Node numbers within the trees of `ensemble_`.
        """
        check_is_fitted(self)
        table = self._model.schema.read(X, estimator_name=type(self).__name__)
        return self._model.leaves(table, Pool(effective_n_jobs(self.n_jobs)))


class UnbiasedGBMClassifier(ClassifierMixin, _BaseUnbiasedGBM):
    """Gradient-boosted trees for classification whose splits are judged by rows that did not choose them.

    Parameters
    ----------
    n_estimators : int, default=200
        Largest number of boosting iterations. Boosting ends by itself when there is nothing left to learn: when no
        split is found any more, or, with ``split_rule="evidence"``, when the later half of the splits together was
        worth nothing to rows that did not choose them.
    learning_rate : float or None, default=None
        Factor on every leaf value. None: 0.1; with ``split_rule="evidence"`` and more than 20,000 rows it grows with
        their cube root, up to 0.2.
    num_leaves : int or None, default=None
        Largest number of leaves of a tree. None: 127, and 31 with more than two classes, of which each has its trees;
        with ``split_rule="evidence"`` more in large tables, up to 1,023.
    max_depth : int or None, default=None
        Largest depth of a leaf; None for no limit.
    min_samples_leaf : int or None, default=None
        Rows that both children of a split must have, in every role that the split rule uses. None: 5; with
        ``split_rule="evidence"`` from 30 rows on at most a hundredth of them, but no less than 2.
    min_child_weight : float, default=1e-3
        Sum of hessians that both children must have.
    min_split_gain : float, default=0.0
        Score that a split must exceed; may be negative, and ``-inf`` turns the limit off, and with it the end of
        boosting where splits are no longer worth it.
    reg_lambda : float, default=1.0
        L2 penalty on leaf values; with more than two classes, each has its share of it, ``reg_lambda / n_classes``.
    max_bins : int or None, default=None
        Bins for the values of a numeric feature; at most 255. None: 128, or one for each value if there are 255 at
        most, with 16 rows each on average.
    subsample, colsample_bytree, colsample_bynode : float, default=1.0
        Shares of the rows and features drawn for each tree, and of the features for each node.
    n_bags : int or None, default=None
        Chains of trees that grow side by side, each with its own roles; the model is their mean. None: 3 for
        ``split_rule="evidence"``, else 1.
    linear_start : bool or None, default=None
        Whether the trees begin from a line in numbers and levels of categories, where rows that did not choose it agree
        that there is one; it becomes trees of its own, before those of the first iteration and not bound by limits on
        trees. None: for ``split_rule="evidence"``, if the loss has Newton steps.
    split_rule : {"evidence", "merged", "separate", "without_se", "without_ub", "standard"}, default="evidence"
        Which rows choose a split and which judge it.
    role_ratio : tuple of float or None, default=None
        Rows S1 : S2 (: S3) of the split rule; None for the rule's own.
    role_draw : {"tree", "node", "fit"}, default="tree"
        When roles are drawn.
    categorical_features : "from_dtype", None, or array-like, default="from_dtype"
        Columns that are categorical: those of text and category types, none, or those listed (mask, positions, names).
    handle_unknown : {"missing", "error"}, default="missing"
        What becomes of a level at predict that training has not seen.
    cat_smooth : float, default=5.0
        Hessian added to a level before levels are put in order.
    monotonic_cst : array-like or mapping, default=None
        1 or -1 for features that the prediction must rise or fall with.
    interaction_cst : "pairwise", "no_interactions", list of groups, default=None
        Groups of features that may occur together on a path.
    early_stopping : bool or "auto", default="auto"
        "auto": on if and only if ``X_val`` is given to `fit`.
    validation_fraction : float, int or None, default=0.1
        Rows held out for early stopping if ``X_val`` is not given: their share or their number. None: none are, and
        training stops when the training rows show no more progress.
    n_iter_no_change : int, default=20
        Iterations without progress after which early stopping ends the training.
    tol : float, default=1e-7
        What counts as progress.
    scoring : str, callable, list or None, default="loss"
        What is recorded of the validation rows; the first one decides when to stop. None: what `score` returns.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit.
    random_state : int, RandomState or None, default=0
        Seed; None for another model every time.
    n_jobs : int or None, default=None
        Threads; None for the cores that this process may use. The model does not depend on it.
    verbose : int, default=0
        0 for silence; k reports every k iterations.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    feature_importances_ : ndarray of shape (n_features,)
        Gain gathered in training, as the split rule judges it.
    ensemble_ : TreeEnsemble
        The trees that predictions use.
    split_rule_ : str
        The rule that was used: "standard" if the table was too small for the one asked for.
    n_iter_, best_iteration_ : int
        Iterations done, and those that predictions use.
    history_ : dict
        Metrics by set ("training", "validation") and name, one value an iteration.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _parameters: ClassVar[tuple[Parameter, ...]] = CLASSIFIER_PARAMETERS

    def __init__(
        self,
        *,
        n_estimators: int = 200,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        max_depth: int | None = None,
        min_samples_leaf: int | None = None,
        min_child_weight: float = 1e-3,
        min_split_gain: float = 0.0,
        reg_lambda: float = 1.0,
        max_bins: int | None = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        n_bags: int | None = None,
        linear_start: bool | None = None,
        split_rule: str = "evidence",
        role_ratio: Sequence[float] | None = None,
        role_draw: str = "tree",
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "missing",
        cat_smooth: float = 5.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float | int | None = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        scoring: Any = "loss",
        warm_start: bool = False,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        class_weight: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.min_split_gain = min_split_gain
        self.reg_lambda = reg_lambda
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bynode = colsample_bynode
        self.n_bags = n_bags
        self.linear_start = linear_start
        self.split_rule = split_rule
        self.role_ratio = role_ratio
        self.role_draw = role_draw
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.cat_smooth = cat_smooth
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.class_weight = class_weight

    def _learn_target(self, y: npt.NDArray[Any]) -> None:
        labels = distinct_labels(y)
        check_classification_targets(y)
        self.classes_ = labels
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least 2 classes; the rows with a positive weight have 1 class: {self.classes_[0]!r}."
            )
        if self.monotonic_cst is not None and len(self.classes_) > 2:
            raise ValueError("monotonic_cst is not supported for more than two classes.")

    def _encode(self, y: npt.NDArray[Any], name: str) -> FloatArray:
        return class_numbers(self.classes_, y, name)

    def _make_loss(self) -> Loss:
        return LogLoss() if len(self.classes_) == 2 else MulticlassLogLoss(len(self.classes_))

    def _class_weights(self, y: FloatArray) -> FloatArray | None:
        by_class = self._weights_by_class(np.bincount(y.astype(np.intp), minlength=len(self.classes_)))
        return None if by_class is None else by_class[y.astype(np.intp)]

    def _weights_by_class(self, sizes: npt.NDArray[np.int64]) -> FloatArray | None:
        """Weight of each class from the numbers of their rows, shape (n_classes,); None for no weights."""
        if self.class_weight is None:
            return None
        present = np.flatnonzero(sizes)
        weights = np.ones(len(sizes))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            weights[present] = sizes.sum() / (len(present) * sizes[present].astype(np.float64))
            return weights
        try:
            weights[present] = compute_sample_weight(self.class_weight, self.classes_[present])
        except ValueError as error:
            raise ValueError(f"class_weight: {error}") from error
        if not ((weights >= 0.0) & (weights <= HEAVIEST)).all():
            raise ValueError(f"class_weight must hold numbers from 0 to {HEAVIEST:g}; got {self.class_weight!r}.")
        if (weights[present] > 0.0).sum() < 2:
            raise ValueError(f"class_weight must be positive for at least 2 classes of y; got {self.class_weight!r}.")
        return weights

    def decision_function(self, X: Any, *, n_iterations: int | None = None) -> FloatArray:
        """Raw predictions: log odds of the second class, or one column a class.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        n_iterations : int or None, default=None
            Use the first so many iterations.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes), float64
        """
        return self._raw(X, n_iterations)

    def predict_proba(self, X: Any, *, n_iterations: int | None = None) -> FloatArray:
        """Class probabilities, shape (n, n_classes); parameters as in `decision_function`."""
        return self._probabilities(self._raw(X, n_iterations))

    def predict(self, X: Any, *, n_iterations: int | None = None) -> npt.NDArray[Any]:
        """Most probable class of each row, shape (n,); parameters as in `decision_function`."""
        return self._labels(self._raw(X, n_iterations))

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Yield `decision_function` after each iteration."""
        return self._staged_raw(X)

    def staged_predict_proba(self, X: Any) -> Iterator[FloatArray]:
        """Yield `predict_proba` after each iteration."""
        return (self._probabilities(raw) for raw in self._staged_raw(X))

    def staged_predict(self, X: Any) -> Iterator[npt.NDArray[Any]]:
        """Yield `predict` after each iteration."""
        return (self._labels(raw) for raw in self._staged_raw(X))

    def _probabilities(self, raw: FloatArray) -> FloatArray:
        p = self._make_loss().predict(raw)
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p

    def _labels(self, raw: FloatArray) -> npt.NDArray[Any]:
        number = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        return self.classes_[number]


class UnbiasedGBMRegressor(RegressorMixin, _BaseUnbiasedGBM):
    """Gradient-boosted trees for regression whose splits are judged by rows that did not choose them.

    Parameters
    ----------
    loss : str or tuple of two callables, default="squared_error"
        "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie", or a pair
        ``(gradients, values)``: ``gradients(y, raw) -> (g, h)`` and ``values(y, raw) -> loss of each row``, called with
        any rows, in any order, by several threads at once.
    quantile : float, default=0.5
        Level of ``loss="quantile"``.
    huber_quantile : float, default=0.9
        Share of the residuals that ``loss="huber"`` squares.
    tweedie_power : float, default=1.5
        Variance power of ``loss="tweedie"``.
    **parameters
        All others are those of `UnbiasedGBMClassifier`, but for ``class_weight``; by default ``min_samples_leaf``
        is 3 in place of 5 and ``max_bins`` 255, and with ``split_rule="evidence"`` and ``loss="squared_error"``
        ``min_samples_leaf`` is 1, ``num_leaves`` 255 and more in large tables, and the value of a leaf is drawn to what
        its parent's would be, as by four rows.

    Attributes
    ----------
    feature_importances_, ensemble_, split_rule_, n_iter_, best_iteration_, history_
        See `UnbiasedGBMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from unbiasedgbm import UnbiasedGBMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = UnbiasedGBMRegressor().fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True
    """

    _parameters: ClassVar[tuple[Parameter, ...]] = REGRESSOR_PARAMETERS

    def __init__(
        self,
        *,
        loss: Any = "squared_error",
        quantile: float = 0.5,
        huber_quantile: float = 0.9,
        tweedie_power: float = 1.5,
        n_estimators: int = 200,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        max_depth: int | None = None,
        min_samples_leaf: int | None = None,
        min_child_weight: float = 1e-3,
        min_split_gain: float = 0.0,
        reg_lambda: float = 1.0,
        max_bins: int | None = 255,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        n_bags: int | None = None,
        linear_start: bool | None = None,
        split_rule: str = "evidence",
        role_ratio: Sequence[float] | None = None,
        role_draw: str = "tree",
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "missing",
        cat_smooth: float = 5.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float | int | None = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        scoring: Any = "loss",
        warm_start: bool = False,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.huber_quantile = huber_quantile
        self.tweedie_power = tweedie_power
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.min_split_gain = min_split_gain
        self.reg_lambda = reg_lambda
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bynode = colsample_bynode
        self.n_bags = n_bags
        self.linear_start = linear_start
        self.split_rule = split_rule
        self.role_ratio = role_ratio
        self.role_draw = role_draw
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.cat_smooth = cat_smooth
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _encode(self, y: npt.NDArray[Any], name: str) -> FloatArray:
        return finite_numbers(y, name)

    def _make_loss(self) -> Loss:
        parameters = self._loss_parameters()
        loss = parameters.pop("loss")
        if isinstance(loss, str):
            if loss not in REGRESSION_LOSSES:
                raise ValueError(f"loss must be one of {', '.join(REGRESSION_LOSSES)}, or two callables; got {loss!r}.")
            return regression_loss(loss, **parameters)
        if isinstance(loss, Sequence) and len(loss) == 2 and all(callable(part) for part in loss):
            return CustomLoss(*loss)
        raise ValueError(
            "loss must be a name or a pair of callables, gradients(y, raw) -> (g, h) and values(y, raw) -> losses; "
            f"got {loss!r}."
        )

    def predict(self, X: Any, *, n_iterations: int | None = None) -> FloatArray:
        """Predicted mean, median, quantile or rate.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        n_iterations : int or None, default=None
            Use the first so many iterations.

        Returns
        -------
        ndarray of shape (n,), float64
        """
        return self._make_loss().predict(self._raw(X, n_iterations))

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield `predict` after each iteration."""
        loss = self._make_loss()
        return (loss.predict(raw) for raw in self._staged_raw(X))


def _same_rows(before: FittedModel | None, work: Work) -> list[str]:
    """Sets of rows that the model to go on from has watched, too."""
    return [] if before is None else [name for name, own in work.watched.items() if before.watched.get(name) == own]


def _draw_seed(random_state: Any) -> int:
    """Seed of all hashes: an integer is taken as it is."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state) % 2**63
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from error
