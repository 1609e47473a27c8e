"""The paper's study, rebuilt: data sets, methods, runner, statistics, figures.

Run it with ``python -m experiments``. What a reader needs to know of each part is in the docstring of its module:
:mod:`~experiments.catalogue` (the tables), :mod:`~experiments.methods` (the boosters), :mod:`~experiments.studies`
(what one row of the store measures), :mod:`~experiments.runner` (how rows come to be) and :mod:`~experiments.reports`
(rows → pages).
"""
