"""Warnings and errors of the library, each a class of its own, and its logger."""

from __future__ import annotations

import logging
import sys


class UnbiasedGBMWarning(UserWarning):
    """Base class of all warnings of the library."""


class SmallTableWarning(UnbiasedGBMWarning):
    """A table has too few rows for the split rule asked for, and another one was used."""


class InterruptedWarning(UnbiasedGBMWarning):
    """Training was interrupted; the iterations done so far were kept."""


class UnsavedParameterWarning(UnbiasedGBMWarning):
    """A model file could not hold a parameter of the estimator, such as a function."""


class ModelFileError(ValueError):
    """A model file is damaged, or is none."""


class CheckpointError(ValueError):
    """A checkpoint belongs to another training."""


def progress_logger() -> logging.Logger:
    """Logger for progress; prints to standard error unless the application has set up logging."""
    logger = logging.getLogger("unbiasedgbm")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("[unbiasedgbm] %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    return logger
