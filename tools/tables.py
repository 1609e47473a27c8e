"""The generated parts of README and docs, by name; each function writes one from committed results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import Any

import pandas as pd

from tools import results

TABLES: dict[str, Callable[[], str]] = {}

OURS = "unbiasedgbm"
PEERS = {"catboost": "CatBoost", "lightgbm": "LightGBM", "xgboost": "XGBoost", "hist_gradient_boosting": "sklearn HGB"}
# How the benchmark calls them.
BENCHMARKED = {
    "CatBoost": "CatBoost",
    "LightGBM": "LightGBM",
    "XGBoost": "XGBoost hist",
    "sklearn HGB": "scikit-learn HGB",
}


def generated(function: Callable[[], str]) -> Callable[[], str]:
    """Enter a function by its name."""
    TABLES[function.__name__] = function
    return function


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, the first column on the left and numbers on the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- accuracy --------------------------------------------------------------------------------------------------------


def _ranks(half: str | None) -> tuple[pd.Series, int]:
    """Average rank of every method over the tables that all have finished, and the number of these tables."""
    from experiments.reports.untuned import overall_ranks

    frame = results.untuned()
    table = overall_ranks(frame if half is None else frame[frame["half"] == half])
    return table.mean(), len(table)


def _auc() -> pd.DataFrame:
    """Mean AUC of every method on every binary table that all have finished."""
    from experiments.reports.rows import complete, scores

    frame = results.untuned()
    return complete(scores(frame[frame["task"] == "binary"], "test_auc"))


def _digests() -> list[str]:
    """States of our code that the untuned rows were measured with."""
    frame = results.untuned()
    versions = frame.loc[frame["method"] == OURS, "versions"]
    return sorted({version[OURS] for version in versions})


@generated
def accuracy() -> str:
    """Average ranks, mean AUC and tests of all methods of the untuned comparison."""
    from experiments.methods import title
    from experiments.reports.markdown import p_value
    from experiments.statistics import wilcoxon_against

    (everywhere, n_all), (checked, n_check), auc = _ranks(None), _ranks("check"), _auc()
    tests = wilcoxon_against(auc, OURS, greater_is_better=True)
    rows = []
    for method in everywhere.sort_values().index:
        won, p = "–", "–"
        if method != OURS:
            test = tests.loc[method]
            won, p = f"{test.won:.0f} / {test.lost:.0f} / {test.tied:.0f}", p_value(test.p)
        cells = [f"{everywhere[method]:.2f}", f"{checked[method]:.2f}", f"{auc[method].mean():.4f}", won, p]
        rows.append([title(method), *cells])
    head = [
        "method, at its defaults", f"rank, {n_all} tables", f"rank, check half, {n_check}", f"AUC, {len(auc)} binary",
        "AUC: we won / lost / tied", "Wilcoxon p",
    ]  # fmt: skip
    return markdown(head, rows)


@generated
def against_catboost() -> str:
    """Whether the difference to the nearest of the big three is significant."""
    from experiments.statistics import wilcoxon_against

    test = wilcoxon_against(_auc(), OURS, greater_is_better=True).loc["catboost"]
    verdict = "not significant" if test.p >= 0.05 else "significant"
    return f"the difference to CatBoost is {verdict} (AUC, p = {test.p:.2g})"


@generated
def unseen() -> str:
    """Ranks on tables that chose next to nothing, and how many of them are won against the nearest rival."""
    from experiments.methods import title
    from experiments.reports.untuned import overall_ranks
    from experiments.statistics import wilcoxon_against

    table = overall_ranks(results.unseen())
    rank = table.mean().sort_values()
    nearest = next(method for method in rank.index if method != OURS)
    test = wilcoxon_against(table, OURS, greater_is_better=False).loc[nearest]
    return (
        f"{len(table)} more, which chose but one of them, our rank is {rank[OURS]:.2f} and {title(nearest)}'s "
        f"{rank[nearest]:.2f} ({test.won:.0f} tables won, {test.lost:.0f} lost)"
    )


@generated
def study_times() -> str:
    """Our untuned fits' processor time in units of LightGBM's, all tables of the study."""
    return f"{geometric_mean(results.study_times()['ratio']):.1f}"


@generated
def study_times_by_kind() -> str:
    """The same by kind of table."""
    frame = results.study_times()
    ratio = {kind: f"{geometric_mean(part['ratio']):.1f}" for kind, part in frame.groupby("kind")}
    return (
        f"our fits take {study_times()} times LightGBM's processor time, as a geometric mean over all {len(frame)} "
        f"tables: {ratio['binary']} times on binary tables, {ratio['regression']} in regression, {ratio['multiclass']} "
        f"with several classes, all with at most {results.WIDE:,} features, and {ratio['wide']} on the "
        f"{(frame['kind'] == 'wide').sum()} tables with more"
    )


@generated
def groups_won() -> str:
    """On how many tables the loss of new groups is lower if groups are told."""
    loss = results.groups()
    ours, others = loss["unbiasedgbm_by_groups"], loss[["catboost", "lightgbm", "xgboost"]]
    n_without, n_others = int((ours < loss[OURS]).sum()), int((ours < others.min(axis=1)).sum())
    return (
        f"the loss on new groups is lower than without on {n_without} of {len(ours)} tables, and lower than that of "
        f"CatBoost, LightGBM and XGBoost on {'all of them' if n_others == len(ours) else n_others}"
    )


@generated
def accuracy_state() -> str:
    """Which state of our code the accuracy belongs to."""
    return ", ".join(f"`{digest}`" for digest in _digests())


# -- speed -----------------------------------------------------------------------------------------------------------


def _rows(section: str, model: str = "UnbiasedGBM") -> list[dict[str, Any]]:
    return [row for row in results.benchmark(section)["rows"] if row["model"] == model]


def _size(row: dict[str, Any]) -> str:
    return f"{row['rows']:,} × {row['features']}, {row['leaves']} leaves"


def _ratio(row: dict[str, Any], peer: str) -> str:
    ratio = row["ratio"].get(BENCHMARKED[peer])
    return "–" if ratio is None else f"{ratio:.2f}"


def _span(section: str, peer: str) -> str:
    """Smallest and largest share of a peer's time or memory over the rows of a section."""
    shares = [row["ratio"][BENCHMARKED[peer]] for row in _rows(section) if BENCHMARKED[peer] in row["ratio"]]
    if not shares:
        return "not measured"
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low} to {high}"


@generated
def measured() -> str:
    """The table on the first screen: accuracy of all at their own defaults."""
    (ranks, n_tables), auc = _ranks(None), _auc()
    lines = [["**UnbiasedGBM**", f"**{ranks[OURS]:.2f}**", f"**{auc[OURS].mean():.3f}**"]]
    lines += [[peer, f"{ranks[name]:.2f}", f"{auc[name].mean():.3f}"] for name, peer in PEERS.items()]
    lines[1:] = sorted(lines[1:], key=lambda line: float(line[1]))
    return markdown(["untuned", f"average rank, {n_tables} tables", f"mean AUC, {len(auc)} binary tables"], lines)


def _times(section: str, first: str) -> str:
    rows = results.benchmark(section)["rows"]
    peers = [peer for peer, name in BENCHMARKED.items() if any(name in row["ratio"] for row in rows)]
    lines = []
    for row in rows:
        rule = "`standard`" if row["model"].endswith("standard") else "`evidence`"
        trees = f"{row['trees']} trees, {row['threads']} thread{'s' * (row['threads'] > 1)}"
        lines.append([_size(row), trees, rule, *(_ratio(row, peer) for peer in peers), f"{row['goal']:g}"])
    return markdown([first, "ensemble", "rule", *peers, "goal (LightGBM)"], lines)


@generated
def fit_times() -> str:
    """Time to fit."""
    return _times("fit", "table")


@generated
def default_fit_times() -> str:
    """Our time to fit with defaults as a multiple of LightGBM's, from the smallest to the largest."""
    return _span("defaults", "LightGBM")


@generated
def predict_times() -> str:
    """Time to predict."""
    return _times("predict", "rows × features")


@generated
def memory() -> str:
    """Peak memory of a fit."""
    lines = []
    for row in _rows("memory"):
        peaks = ", ".join(f"{name} {value} MiB" for name, value in row["mebibytes"].items())
        lines.append([_size(row), peaks, f"{row['ratio']['LightGBM']:.2f}"])
    return markdown(["fit", "peak above the table", "share of LightGBM's"], lines)


@generated
def cold_start() -> str:
    """Seconds of the first fit of a process."""
    lines = []
    for row in results.benchmark("cold")["rows"]:
        seconds = row["seconds"]
        lines.append(
            [row["model"], *(f"{seconds[step]:.1f} s" for step in ("import", "estimators", "fit and predict"))]
        )
    return markdown(["kernels", "import unbiasedgbm", "import the estimators", "first fit and predict"], lines)


@generated
def compile_seconds() -> str:
    """Seconds that the very first fit spends, mostly compiling."""
    row = results.benchmark("cold")["rows"][0]
    return f"{row['seconds']['fit and predict']:.0f}"


@generated
def import_seconds() -> str:
    """Seconds to import the estimators."""
    return f"{results.benchmark('cold')['rows'][-1]['seconds']['estimators']:.0f}"


@generated
def versions() -> str:
    """What the speed was measured with."""
    setting = results.benchmark("fit")["setting"]
    packages = ", ".join(f"{name} {number}" for name, number in setting["versions"].items())
    return f"{setting['cores']} cores, Python {setting['python']}, {packages}"


# -- importance ------------------------------------------------------------------------------------------------------


# -- cluster ---------------------------------------------------------------------------------------------------------


def _share(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return "–"
    return f"{row['ratio']['local']:.2f} (goal {row['goal']})"


@generated
def distributed() -> str:
    """Time, traffic and memory of distributed fits."""
    rows = [
        [
            f"{row['rows']:,} × {row['features']}, {row['trees']} trees of {row['leaves']} leaves, bags: {row['bags']}",
            f"{row['seconds']['distributed']:.0f} s",
            _share(row),
            f"{row['cpu_seconds']['workers'] + row['cpu_seconds']['client']:.0f} s",
            f"{row['rounds_a_tree']:.0f}",
            f"{row['bytes_a_tree_and_worker'] / 2**20:.1f} MiB",
            f"{row['bytes_a_row']:.0f} bytes",
        ]
        for row in results.benchmark("distributed")["rows"]
    ]
    head = [
        "fit",
        "time",
        "share of a local fit's",
        "processor time",
        "rounds a tree",
        "traffic a tree",
        "memory a row",
    ]
    return markdown(head, rows)


@generated
def distributed_state() -> str:
    """What the distributed fits ran on."""
    found = results.benchmark("distributed")
    first = found["rows"][0]
    cpu = first["cpu_seconds"]
    ratio = (cpu["workers"] + cpu["client"]) / cpu["local"]
    return (
        f"{first['workers']} worker processes of one thread each, on one machine with {found['setting']['cores']} "
        "cores that also ran the scheduler, this process, and other work: "
        f"its load was {first['load']:.0f} at the first row. "
        "A fit that waits for the slower of two processes at every round suffers more from that than one with two "
        f"threads. In processor time, client and workers together, the distributed fit took {ratio:.2f} times as much "
        "as the local one."
    )


@generated
def distributed_estimate() -> str:
    """A billion rows, worked out from the largest run."""
    row = max(results.benchmark("distributed")["rows"], key=lambda row: row["rows"])
    n, trees, wire = 1_000_000_000, 500, 1.25e9
    cpu = row["cpu_seconds"]["workers"] / row["rows"] / row["trees"]
    lines = []
    for workers, threads in ((16, 16), (64, 16)):
        # answers of stations go up a tree of four below each: as many steps as it is deep, each as long as four answers
        depth = max(1, (3 * workers).bit_length() // 2)
        work = cpu * n / (workers * threads)
        talk = row["rounds_a_tree"] * 0.002 * depth + 4 * depth * row["bytes_a_tree_and_worker"] / wire
        memory = row["bytes_a_row"] * n / workers
        lines.append(
            [
                f"{workers} workers of {threads} threads",
                f"{memory / 2**30:.1f} GiB",
                f"{work:.2f} s",
                f"{talk:.2f} s",
                f"{trees * (work + talk) / 60:.0f} min",
            ]
        )
    head = [
        f"{n:,} × {row['features']}, {row['leaves']} leaves", "memory a worker", "work a tree", "talk a tree",
        f"{trees} trees, estimated",
    ]  # fmt: skip
    return markdown(head, lines)


@generated
def null_z() -> str:
    """Z-scores of noise in models with default parameters."""
    rows = results.validation()["default_models"].values()
    means, spreads = [row["mean_z"] for row in rows], [row["sd_z"] for row in rows]
    return f"mean {_signed(min(means))} to {_signed(max(means))}, spread {min(spreads):.2f} to {max(spreads):.2f}"


@generated
def null_rejections() -> str:
    """How often the 5 % test calls noise useful, in models with default parameters."""
    rates = [row["rejected"] for row in results.validation()["default_models"].values()]
    return f"{min(rates):.1%} to {max(rates):.1%}".replace("%", " %")


@generated
def rows_needed() -> str:
    """How often a useful feature is found, by its effect and the rows."""
    found: dict[str, dict[str, str]] = {}
    for case, row in results.validation()["rows_needed"].items():
        effect, rows = case.split(", ")
        found.setdefault(effect.removeprefix("effect "), {})[rows] = f"{row['found']:.0%}".replace("%", " %")
    return markdown(
        ["effect", *next(iter(found.values()))], [[effect, *cells.values()] for effect, cells in found.items()]
    )


@generated
def against_permutation() -> str:
    """Useful features that are found by unbiased gain and by permutation."""
    cases = results.validation()["against_permutation"]
    ours, theirs = (cases[name]["true_found"] for name in ("unbiased gain", "permutation"))
    return f"{ours:.0%} of the useful features; permutation importance finds {theirs:.0%}".replace("%", " %")


@generated
def coverage() -> str:
    """Coverage of the 95 % intervals."""
    shares = [case["covered"] for case in results.validation()["coverage"].values()]
    return f"{min(shares):.1%} to {max(shares):.1%}".replace("%", " %")


@generated
def importance_speed() -> str:
    """Processor time of the rivals in units of ours."""
    found = results.benchmark("importance_speed")
    permutation, shap = (found[key]["times_unbiased_gain"] for key in ("permutation_importance", "shap_tree_explainer"))
    return (
        f"`permutation_importance` takes {permutation:.0f} and `shap.TreeExplainer` {shap:.0f} times its processor time"
    )


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


# -- reference -------------------------------------------------------------------------------------------------------


def _parameters(names: Sequence[Any]) -> str:
    lines = []
    for parameter in names:
        allowed = "" if parameter.kind == "free" else parameter.allowed
        lines.append([f"`{parameter.name}`", f"`{parameter.default!r}`", allowed, parameter.meaning])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "| parameter | default | allowed | meaning |\n| --- | --- | --- | --- |\n" + text


@generated
def shared_parameters() -> str:
    """Parameters of both estimators."""
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS

    return _parameters([parameter for parameter in CLASSIFIER_PARAMETERS if parameter in REGRESSOR_PARAMETERS])


@generated
def classifier_parameters() -> str:
    """Parameters of the classifier alone."""
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS

    return _parameters([parameter for parameter in CLASSIFIER_PARAMETERS if parameter not in REGRESSOR_PARAMETERS])


@generated
def regressor_parameters() -> str:
    """Parameters of the regressor alone."""
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS

    return _parameters([parameter for parameter in REGRESSOR_PARAMETERS if parameter not in CLASSIFIER_PARAMETERS])
