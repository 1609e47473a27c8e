"""The studies: for each, what one row measures."""

from __future__ import annotations

from importlib import import_module

from experiments.jobs import Measure

MEASURES = {
    "untuned": "experiments.studies.untuned",
    "unseen": "experiments.studies.untuned",
    "times": "experiments.studies.untuned",
    "tuned": "experiments.studies.tuned",
    "selection": "experiments.studies.selection",
    "qsar": "experiments.studies.untuned",
    "toy": "experiments.studies.toy",
    "groups": "experiments.studies.groups",
}


def get_measure(study: str) -> Measure:
    """Return the function that measures a job of a study."""
    return import_module(MEASURES[study]).measure
