"""Callbacks: what may watch a training and end it."""

from unbiasedgbm.callbacks.checkpoint import Checkpoint
from unbiasedgbm.callbacks.limits import MemoryLimit, TimeLimit
from unbiasedgbm.callbacks.progress import LogProgress, ProgressBar
from unbiasedgbm.callbacks.protocol import BaseCallback, Callback, TrainingState, call_all
from unbiasedgbm.callbacks.stopping import EarlyStopping
from unbiasedgbm.callbacks.tuning import OptunaPruning, suggest_params

__all__ = [
    "BaseCallback",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "LogProgress",
    "MemoryLimit",
    "OptunaPruning",
    "ProgressBar",
    "TimeLimit",
    "TrainingState",
    "call_all",
    "suggest_params",
]
