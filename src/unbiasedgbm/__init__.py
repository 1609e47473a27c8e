"""UnbiasedGBM: boosting and feature importance judged by rows that did not choose the splits."""

from unbiasedgbm._version import __version__

__all__ = ["__version__"]
