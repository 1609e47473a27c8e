"""The command line: train, predict, importance, report, warmup, demo."""

from unbiasedgbm.cli.app import app

__all__ = ["app"]
