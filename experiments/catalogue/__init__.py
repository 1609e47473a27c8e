"""The tables of the study: where they come from, how the target is read, which half they belong to."""

from experiments.catalogue.entry import UNSEEN_FILE, Catalogue, Entry, read_catalogue
from experiments.catalogue.loading import TableSource
from experiments.catalogue.table import Table

__all__ = ["UNSEEN_FILE", "Catalogue", "Entry", "Table", "TableSource", "read_catalogue"]
