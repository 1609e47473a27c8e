"""The report: one page about a model that opens anywhere, without a network."""

from unbiasedgbm.report.page import write_report

__all__ = ["write_report"]
