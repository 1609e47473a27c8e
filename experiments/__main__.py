"""``python -m experiments``."""

from experiments.cli import app

app()
