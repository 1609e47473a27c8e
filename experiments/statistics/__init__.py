"""The statistics of the study, on plain data frames: tables in rows, methods in columns."""

from experiments.statistics.normalise import normalise
from experiments.statistics.ranks import average_ranks, critical_difference, nemenyi, ranks
from experiments.statistics.ratios import geometric_mean_ratio
from experiments.statistics.wilcoxon import wilcoxon_against

__all__ = [
    "average_ranks",
    "critical_difference",
    "geometric_mean_ratio",
    "nemenyi",
    "normalise",
    "ranks",
    "wilcoxon_against",
]
