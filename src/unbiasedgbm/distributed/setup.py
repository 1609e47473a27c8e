"""From partitions to a booster: what `training.setup` does, asked of a crew."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, join_bins, make_mapper
from unbiasedgbm.distributed.brief import Brief, Facts
from unbiasedgbm.distributed.crew import Crew
from unbiasedgbm.distributed.fit import RemoteBooster, RemoteFit, RemoteWatched
from unbiasedgbm.distributed.remote import RemoteRows, n_lanes
from unbiasedgbm.distributed.station import TRAIN, WATCH, HeldOut, PartFacts, PartName, Plan, Reading, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics, select
from unbiasedgbm.distributed.survey import agree_columns, agree_schema, agree_target, check_some_rows
from unbiasedgbm.estimators import Work
from unbiasedgbm.exact import Scale, weight_unit
from unbiasedgbm.frames import Schema, categorical_mask
from unbiasedgbm.losses import Loss
from unbiasedgbm.metrics import make_metrics
from unbiasedgbm.model import FittedModel
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Progress
from unbiasedgbm.training.setup import (
    MOST_COUNTED,
    Constraints,
    Start,
    begin,
    digest_text,
    go_on,
    held_out_counts,
    hold_out_key,
    make_features,
    repetitions,
    weights_are_relative,
)
from unbiasedgbm.training.shard import TrainingData
from unbiasedgbm.training.workspace import TrainingParameters, make_layout

IntArray = npt.NDArray[np.int64]


class SetUp:
    """The steps before boosting, one after another.

    Parameters
    ----------
    estimator : UnbiasedGBMClassifier or UnbiasedGBMRegressor
    crew : Crew
    before : FittedModel or None
        The model to go on from.
    seed : int
    """

    def __init__(self, estimator: Any, crew: Crew, before: FittedModel | None, seed: int) -> None:
        self.estimator, self.crew, self.before, self.seed = estimator, crew, before, seed
        self.classify = hasattr(estimator, "predict_proba")
        self.script: list[Step] = []
        self.n_rows: dict[PartName, int] = {}
        self.class_sizes: IntArray = np.zeros(0, np.int64)

    def run(self, stops: bool, watched: bool, watched_weighted: bool, pool: Pool) -> Work:
        """Read, hold out, weigh, bin.

        Parameters
        ----------
        stops : bool
            Whether training may stop early.
        watched : bool
            Whether there are validation rows; if not and ``stops``, some are held out, or the training rows watched.
        watched_weighted : bool
            Whether these have weights.
        """
        estimator = self.estimator
        schema = self._agree_schema()
        loss = self._read(schema)
        metrics = make_metrics(estimator.scoring, loss, getattr(estimator, "classes_", None))
        held_out = stops and not watched and estimator.validation_fraction is not None
        if held_out:
            self._hold_out(loss)
        seen = {"validation": WATCH} if watched or held_out else {"training": TRAIN} if stops else {}
        digests = {name: self._digest(which) for name, which in seen.items()}
        by_class = estimator._weights_by_class(self.class_sizes) if self.classify else None
        weights = self._tell("weigh", by_class)
        facts = self._facts(weights, held_out, watched_weighted)
        parameters = estimator._training_parameters(facts.n, facts.n_rows, self.seed, self.before)
        if weights_are_relative(parameters.split_rule):
            weights, facts = self._relative(weights, facts, held_out, watched_weighted)
        constraints = estimator._constraints(schema)
        scale = _weight_scale(weights)
        mapper = self._learn_bins(schema, facts.n)
        progress, start = self._start(loss, facts, mapper, constraints, parameters, pool)
        layout = make_layout(parameters, mapper)
        chains = (parameters.n_bags, n_lanes(loss, parameters.n_bags))
        plan = Plan(mapper, layout, loss, self._starts(), facts.counted, scale, start, *chains)
        content, self.crew.kept = self.crew.ask([("build", (plan,))])[0]
        features = make_features(mapper, constraints.monotone, content ^ mapper.edge_hash())
        for member in self.crew.members:
            member.loaded = True
        brief = Brief(parameters, facts, loss, mapper, layout, plan.n_lanes, features, constraints.groups)
        fit = RemoteFit(self.crew, brief, plan, self.script)
        rows = (RemoteRows(brief, 0), mapper, features, constraints.groups)
        booster = RemoteBooster(parameters, loss, *rows, progress, pool, fit)
        training, validation = RemoteWatched(fit, TRAIN), RemoteWatched(fit, WATCH) if watched or held_out else None
        return Work(schema, booster, start, metrics, training, validation, digests, _no_fingerprint, self.crew.close)

    def _tell(self, name: str, *arguments: Any) -> Any:
        """A step that stations remember, so that those that come later must be told, too."""
        self.script.append((name, arguments))
        return self.crew.ask([(name, arguments)])[0]

    # -- reading -----------------------------------------------------------------------------------------------------

    def _agree_schema(self) -> Schema:
        """Columns, categories and classes of all partitions."""
        if self.before is not None:
            return replace(self.before.schema, handle_unknown=self.estimator.handle_unknown)
        estimator = self.estimator
        surveys = [part for _, part in sorted(self.crew.ask([("survey", (self.classify,))])[0], key=lambda p: p[0])]
        names, text = agree_columns(surveys)
        estimator._learn_target(agree_target(surveys))
        mask = categorical_mask(text, names, estimator.categorical_features)
        levels = self.crew.ask([("survey_levels", (mask,))])[0] if mask.any() else []
        return agree_schema(names, text, estimator.categorical_features, levels, estimator.handle_unknown)

    def _read(self, schema: Schema) -> Loss:
        """Have all partitions read; returns the loss."""
        estimator = self.estimator
        # levels that only rows without weight have are read as missing, as they are in a local fit
        training = schema if self.before is not None else replace(schema, handle_unknown="missing")
        classes = estimator.classes_ if self.classify else None
        facts = self._tell("read", Reading(training, schema, classes, type(estimator).__name__))
        loss: Loss = estimator._make_loss()
        self.n_rows = {fact.name: fact.n for fact in facts}
        for which, suffix in ((TRAIN, ""), (WATCH, "_val")):
            own = [fact for fact in facts if fact.name[0] == which]
            if own:
                _check_rows(own, schema.n_features, suffix)
                check = loss.check_target if which == TRAIN else loss.check_domain
                check(np.concatenate([fact.extremes for fact in own]), f"y{suffix}")
        if self.classify:
            self.class_sizes = np.sum([fact.classes for fact in facts if fact.name[0] == TRAIN], axis=0)
        return loss

    def _n(self, which: str) -> int:
        return sum(n for (kind, _), n in self.n_rows.items() if kind == which)

    def _starts(self) -> dict[int, int]:
        """Number of each training partition's first row among all training rows."""
        starts, at = {}, 0
        for (kind, i), n in sorted(self.n_rows.items()):
            if kind == TRAIN:
                starts[i] = at
                at += n
        return starts

    def _digest(self, which: str) -> str:
        return digest_text(self.crew.ask([("digest", (which,))])[0])

    def _hold_out(self, loss: Loss) -> None:
        """Part validation rows from training rows: those with the smallest hashes of their numbers."""
        n_classes = len(self.class_sizes)
        wanted = held_out_counts(
            self.class_sizes if self.classify else np.array([self._n(TRAIN)]), self.estimator.validation_fraction
        )
        stratified = len(wanted) > 1
        key, starts = hold_out_key(self.seed), self._starts()
        self.crew.ask([("rank_hashes", (key, starts, len(wanted), stratified))])
        limits = select(lambda *steps: self.crew.ask(steps), wanted[:, None])[:, 0]
        held = HeldOut(key, starts, n_classes, stratified, limits, wanted > 0)
        facts = self._tell("hold_out", held)
        for i, n, n_out, _, _ in facts:
            self.n_rows[TRAIN, i], self.n_rows[WATCH, i] = n, n_out
        loss.check_target(np.concatenate([extremes for *_, extremes in facts]))
        if self.classify:
            self.class_sizes = np.sum([sizes for _, _, _, sizes, _ in facts], axis=0)

    def _relative(
        self, weights: list[Any], facts: Facts, held_out: bool, watched_weighted: bool
    ) -> tuple[list[Any], Facts]:
        """Weights that are one on average, and no repetitions."""
        if facts.weighted:
            scale = Scale(facts.max_weight)
            total = scale.value(self.crew.ask([("units", (TRAIN, None, scale))])[0])
            weights = self._tell("divide_weights", weight_unit(total, facts.n, scale.top))
            facts = self._facts(weights, held_out, watched_weighted)
        return weights, replace(facts, n_rows=facts.n, counted=False)

    def _facts(self, weights: list[Any], held_out: bool, watched_weighted: bool) -> Facts:
        given = [fact for fact in weights if fact[0] is not None]
        scale = _weight_scale(weights)
        n = self._n(TRAIN)
        counted = (
            bool(given)
            and max(fact[0] for fact in given) != 1.0
            and all(fact[1] for fact in given)
            and sum(fact[2] for fact in given) <= MOST_COUNTED
        )
        return Facts(
            n=n,
            n_rows=sum(fact[3] for fact in given) if counted else n,
            weighted=scale is not None,
            counted=counted,
            max_weight=1.0 if scale is None else scale.top or 1.0,
            n_watched=self._n(WATCH),
            watched_weighted=bool(given) if held_out else watched_weighted,
        )

    # -- starting ----------------------------------------------------------------------------------------------------

    def _start(
        self,
        loss: Loss,
        facts: Facts,
        mapper: BinMapper,
        constraints: Constraints,
        parameters: TrainingParameters,
        pool: Pool,
    ) -> tuple[Progress, Start]:
        """Where the fit begins: from a model, from a line, or from a constant."""
        if self.before is not None:
            return go_on(self.before.ensemble, self.before.progress)
        statistics = RemoteStatistics(lambda *steps: self.crew.ask(steps), TRAIN, facts.n, facts.weighted)
        sample = partial(self._line_rows, mapper, facts)
        return begin(loss.start_over(statistics), sample, facts.n, mapper, constraints, parameters, loss, pool)

    def _line_rows(self, mapper: BinMapper, facts: Facts) -> TrainingData:
        """The rows that a line is learned from, here."""
        found = sorted(self.crew.ask([("line_rows", (mapper, self._starts(), facts.n))])[0], key=lambda part: part[0])
        _, bins, y, given, weight = zip(*found, strict=True)
        return TrainingData(
            join_bins(bins),
            np.concatenate(y),
            np.concatenate(weight) if facts.weighted else None,
            repetitions(np.concatenate(given)) if facts.counted else None,
        )

    def _learn_bins(self, schema: Schema, n: int) -> Any:
        """Edges of all numeric features, found on the stations."""
        numeric = np.flatnonzero(~schema.is_categorical).tolist()
        found = self.crew.edges(numeric, self._starts(), n, self.estimator.max_bins)
        edges = tuple(found.get(j, np.empty(0)) for j in range(schema.n_features))
        n_levels = np.array([0 if levels is None else len(levels) for levels in schema.categories], dtype=np.int64)
        return make_mapper(edges, schema.is_categorical, n_levels)


def _check_rows(facts: list[PartFacts], n_features: int, suffix: str) -> None:
    """Raise if there are no rows, or none that has weight."""
    try:
        check_some_rows(sum(fact.n_read for fact in facts), n_features)
    except ValueError as error:
        raise ValueError(f"X{suffix}: {error}") from error
    if not any(fact.n_weighty for fact in facts):
        raise ValueError(f"sample_weight{suffix} is zero in every row.")


def _weight_scale(weights: list[Any]) -> Scale | None:
    """Scale of the weights of all partitions; None if there are none, or all of them are one."""
    if all(ones for *_, ones, _ in weights):
        return None
    return reduce(Scale.join, (scale for *_, scale in weights))


def _no_fingerprint(start: Any) -> str:
    raise ValueError("callbacks: Checkpoint needs all rows in one place; it cannot be used on a cluster.")
