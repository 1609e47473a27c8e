"""The search half and the check half of the tables.

Defaults are chosen on the search half; what is claimed is measured on the check half. The split was made once by
:func:`split_halves` and is committed in the catalogue; a test proves that the function still gives it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable

from experiments.catalogue.entry import Entry

HALVES = ("search", "check")
SALT = "unbiasedgbm-halves-1"


def split_halves(entries: Iterable[Entry]) -> dict[str, str]:
    """Assign every available table to a half.

    Tables that are kin (one contains the other, or they share rows) go together. Within a group, families are taken by
    size and then by a hash of their name, and each goes to the half that has fewer tables of that group, then fewer in
    all, then to the one that the hash picks. The hash does not depend on any library's random numbers.

    Parameters
    ----------
    entries : iterable of Entry

    Returns
    -------
    halves : dict of str to str
        ``"search"`` or ``"check"`` by table name.
    """
    families: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.available:
            families[entry.kin or entry.name].append(entry)

    def order(item: tuple[str, list[Entry]]) -> tuple[str, int, str]:
        name, members = item
        return members[0].group, -len(members), _hash(name)

    halves: dict[str, str] = {}
    in_all: Counter[str] = Counter()
    in_group: Counter[tuple[str, str]] = Counter()
    for name, members in sorted(families.items(), key=order):
        coin = int(_hash(name), 16) % 2
        group = members[0].group

        def load(half: str, group: str = group, coin: int = coin) -> tuple[int, int, int]:
            return in_group[group, half], in_all[half], (HALVES.index(half) + coin) % 2

        half = min(HALVES, key=load)
        for member in members:
            halves[member.name] = half
            in_all[half] += 1
            in_group[member.group, half] += 1
    return halves


def _hash(name: str) -> str:
    return hashlib.sha256(f"{SALT}/{name}".encode()).hexdigest()
