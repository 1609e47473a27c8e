"""Progress: as lines in the log, or as a bar with the time left."""

from __future__ import annotations

from typing import Any

from unbiasedgbm.callbacks.protocol import BaseCallback, TrainingState
from unbiasedgbm.exceptions import progress_logger


class LogProgress(BaseCallback):
    """Logs the latest metrics every so many iterations.

    Parameters
    ----------
    every : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from unbiasedgbm.callbacks import LogProgress
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y, callbacks=[LogProgress(every=5)])
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Log."""
        if state.iteration % self.every == 0 or state.iteration == state.n_estimators:
            parts = latest_metrics(state)
            progress_logger().info("iteration %d of %d: %s", state.iteration, state.n_estimators, ", ".join(parts))
        return None


class ProgressBar(BaseCallback):
    """A bar with the time left, on standard error; silent where that is not a terminal. Needs rich.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw instead.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from unbiasedgbm.callbacks import ProgressBar
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y, callbacks=[ProgressBar()])
    """

    def __init__(self, console: Any = None) -> None:
        try:
            import rich.progress  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("ProgressBar needs rich: pip install 'unbiasedgbm[cli]'.") from error
        self._console = console
        self._bar: Any = None
        self._task: Any = None

    def begin(self, state: TrainingState) -> None:
        """Draw the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = self._console or Console(stderr=True)
        if not console.is_terminal:
            self._bar = None
            return
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[metrics]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("training", total=state.n_estimators, completed=state.iteration, metrics="")
        self._bar.start()

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=state.iteration, metrics="  ".join(latest_metrics(state)))
        return None

    def end(self, state: TrainingState) -> None:
        """Clear the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def latest_metrics(state: TrainingState) -> list[str]:
    """The latest value of every metric, in words."""
    return [
        f"{name} {metric} {values[-1]:.6g}"
        for name, metrics in state.history.items()
        for metric, values in metrics.items()
    ]
