"""The demo: the problem, the remedy and the report, on data that ships with the install."""

from __future__ import annotations

import importlib.util
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

_TOY_REPEATS = 200
_SPLITS = 5
_NOISE_NUMBERS = 6
_NOISE_CODES = 4
_TOP = 10
_LEVEL = 0.05


@dataclass(frozen=True)
class Parts:
    """A table in two parts."""

    X_train: pd.DataFrame
    X_val: pd.DataFrame
    y_train: np.ndarray[Any, Any]
    y_val: np.ndarray[Any, Any]


def run(console: Any, path: Path, seed: int = 0) -> None:
    """Print the demo and write the report page."""
    from unbiasedgbm import UnbiasedGBMRegressor
    from unbiasedgbm.report import write_report

    start = time.monotonic()
    rival = _rival()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        console.rule("[bold]1  The paper's example")
        console.print(
            "Only [bold]X1[/], a weak yes-or-no feature, says anything about y. X2 (six levels) and X3 (a number) are "
            f"noise. One tree of {rival.name}, mean over {_TOY_REPEATS} samples ± its standard error:\n"
        )
        console.print(_toy_table(rival, seed))
        console.rule("[bold]2  A real table with noise added")
        table = noisy_table(seed)
        console.print(
            f"Diabetes (442 patients, 10 features, from scikit-learn), with {_NOISE_NUMBERS} columns of random numbers "
            f"and {_NOISE_CODES} of random codes. What does {rival.name} call important? Unbiased gain is "
            "cross-fitted: each fifth of the patients judges a model that has not seen it. Features are sorted by the "
            "lower end of their intervals.\n"
        )
        ranking, said = _ranking_table(table, rival, seed)
        console.print(ranking)
        console.print(f"{said}\n")
        console.rule(f"[bold]3  {rival.name} and UnbiasedGBM side by side")
        console.print(f"Both with their defaults, on the same rows, mean over {_SPLITS} splits:\n")
        splits = [_split(table, seed + k) for k in range(_SPLITS)]
        rivals = [rival.regressor().fit(parts.X_train, parts.y_train) for parts in splits]
        ours = [UnbiasedGBMRegressor(random_state=seed).fit(parts.X_train, parts.y_train) for parts in splits]
        console.print(_side_by_side({rival.name: rivals, "UnbiasedGBM": ours}, splits))
        model, parts = ours[0], splits[0]
        write_report(
            model, path, parts.X_train, parts.y_train, parts.X_val, parts.y_val,
            title="Diabetes, with noise added",
            notes="Progression of diabetes after one year. Columns named “noise” are random and mean nothing.",
        )  # fmt: skip
    console.print(f"\nA report of the UnbiasedGBM model: [bold]{path.resolve()}[/]", soft_wrap=True)
    console.print(f"[dim]{time.monotonic() - start:.0f} s in all.[/]")


# -- the other booster -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rival:
    """A booster that judges splits by the rows that choose them."""

    name: str

    def regressor(self, **params: Any) -> Any:
        if self.name == "LightGBM":
            from lightgbm import LGBMRegressor

            # more threads only wait for each other on tables of this size
            return LGBMRegressor(verbose=-1, n_jobs=1, **params)
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(
            max_iter=params.get("n_estimators", 100), categorical_features="from_dtype"
        )


def _rival() -> _Rival:
    return _Rival("LightGBM" if importlib.util.find_spec("lightgbm") else "HistGradientBoosting")


# -- part 1 ----------------------------------------------------------------------------------------------------------


def toy_sample(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """The paper's Example 1: y = 0.1 X1 + noise."""
    X = pd.DataFrame(
        {
            "X1": rng.integers(2, size=n),
            "X2": pd.Categorical.from_codes(rng.integers(6, size=n), list("abcdef")),
            "X3": rng.normal(size=n),
        }
    )
    return X, 0.1 * X["X1"].to_numpy() + rng.normal(size=n)


def _toy_table(rival: _Rival, seed: int) -> Any:
    from unbiasedgbm.importance import gain_importance, unbiased_gain

    rng = np.random.default_rng(seed)
    gains, honest = [], []
    for _ in range(_TOY_REPEATS):
        train, held_out = toy_sample(1000, rng), toy_sample(1000, rng)
        model = rival.regressor(n_estimators=1).fit(*train)
        gains.append(_shares(gain_importance(model, *train).importance))
        honest.append(1000.0 * unbiased_gain(model, *train, *held_out).importance)
    table = _table("feature", "what it is", "share of plain gain", "unbiased gain × 1000")
    error = np.std(honest, axis=0, ddof=1) / np.sqrt(_TOY_REPEATS)
    for j, kind in enumerate(("weak signal", "noise", "noise")):
        name = f"[{'yellow' if kind == 'noise' else 'green'}]X{j + 1}[/]"
        share, value = np.mean(gains, axis=0)[j], np.mean(honest, axis=0)[j]
        table.add_row(name, kind, f"{share:.0%}", f"{value:+.2f} ± {error[j]:.2f}")
    return table


def _shares(gain: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return gain / max(float(gain.sum()), 1e-300)


# -- part 2 ----------------------------------------------------------------------------------------------------------


def noisy_table(seed: int) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Diabetes with columns that mean nothing."""
    data = load_diabetes(as_frame=True, scaled=False)
    rng = np.random.default_rng(seed)
    X = data.data.copy()
    for k in range(_NOISE_NUMBERS):
        X[f"noise_number_{k + 1}"] = rng.normal(size=len(X))
    for k in range(_NOISE_CODES):
        X[f"noise_code_{k + 1}"] = pd.Categorical([f"c{code:02d}" for code in rng.integers(25, size=len(X))])
    return X, data.target.to_numpy()


def _split(table: tuple[pd.DataFrame, np.ndarray[Any, Any]], seed: int) -> Parts:
    return Parts(*train_test_split(*table, test_size=0.4, random_state=seed))


def _ranking_table(table: tuple[pd.DataFrame, np.ndarray[Any, Any]], rival: _Rival, seed: int) -> tuple[Any, str]:
    from sklearn.model_selection import KFold

    from unbiasedgbm.importance import cross_unbiased_gain, gain_importance

    X, y = table
    model = rival.regressor().fit(X, y)
    shares = _shares(gain_importance(model, X, y).importance)
    honest = cross_unbiased_gain(rival.regressor(), X, y, cv=KFold(5, shuffle=True, random_state=seed))
    names = list(X.columns)
    found = _table("rank", "by plain gain", "share", "by unbiased gain", "± 95 %", "p (adj.)")
    by_gain = np.argsort(-shares, kind="stable")
    for place, (a, b) in enumerate(zip(by_gain[:_TOP], honest.ranking()[:_TOP], strict=True), start=1):
        half = honest.ci_high[b] - honest.importance[b]
        value = f"{honest.importance[b]:+.0f} ± {half:.0f}"
        p = f"{honest.p_adjusted[b]:.1g}"
        p = f"[bold]{p}[/]" if honest.p_adjusted[b] <= _LEVEL else p
        found.add_row(str(place), _coloured(names[a]), f"{shares[a]:.1%}", _coloured(names[b]), value, p)
    significant = honest.significant(_LEVEL)
    noise = [
        sum(name.startswith("noise") for name in some) for some in ([names[j] for j in by_gain[:_TOP]], significant)
    ]
    said = (
        f"Of the first {_TOP} by plain gain, [bold]{noise[0]} are noise[/]. By unbiased gain "
        f"[bold]{len(significant)} are significant, {noise[1] or 'none'} of them noise[/]."
    )
    return found, said


def _coloured(name: str) -> str:
    return f"[yellow]{name}[/]" if name.startswith("noise") else f"[green]{name}[/]"


# -- part 3 ----------------------------------------------------------------------------------------------------------


def _side_by_side(models: dict[str, list[Any]], splits: list[Parts]) -> Any:
    table = _table("booster", "R² on training rows", "R² on unseen rows")
    for name, fitted in models.items():
        pairs = list(zip(fitted, splits, strict=True))
        train = np.mean([model.score(parts.X_train, parts.y_train) for model, parts in pairs])
        val = np.mean([model.score(parts.X_val, parts.y_val) for model, parts in pairs])
        table.add_row(name, f"{train:.3f}", f"[bold]{val:.3f}[/]")
    return table


def _table(*columns: str) -> Any:
    from rich.table import Table

    table = Table(header_style="bold")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 or column.startswith(("by", "what")) else "right")
    return table
