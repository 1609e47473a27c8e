"""Mutated model files: none may crash, hang, or load as something that it is not.

Half of the mutants keep their old checksum, and must be refused unless nothing but the layout changed. The others get a
new checksum, as an attacker would: they must be refused, or be models that predict without touching memory that is not
theirs (run with NUMBA_BOUNDSCHECK=1 to see that).

    cd tests && NUMBA_BOUNDSCHECK=1 python -m lifecycle.fuzz --count 1000000 --output ../docs/lifecycle/fuzz.json
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import time
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lifecycle.samples import mixed_table, models, raw
from unbiasedgbm import UnbiasedGBMRegressor, __version__
from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files import container
from unbiasedgbm.files.document import to_json
from unbiasedgbm.files.model_file import estimator_from_dict, estimator_to_dict

_ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 63, 64, 65, 255, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.5, -0.0, 1e308, 5e-324, "inf", "-inf", "nan", "", "0", "ffffffffffffffff", "\x00", "é" * 50, [], {}, [[]], [0],
    [-1], ["a"], [None], {"number": "inf"}, {"unsaved": "f"}, {"mapping": [[1, 2]]}, {"mapping": [[[], 2]]}, {"x": 1},
    list(range(100)), "UnbiasedGBMRegressor", "UnbiasedGBMClassifier", "poisson", "standard",
]  # fmt: skip
_TOKENS = [
    b"0", b"-1", b"1e999", b"NaN", b"null", b"[", b"]", b"{", b"}", b",", b'"', b"\\", b"9" * 30, b"\xff", b"\n",
    b"1.5",
]  # fmt: skip


@dataclass
class Original:
    """A model, its file, and what it predicts."""

    document: dict[str, Any]
    data: bytes
    probe: Any
    answer: np.ndarray


def originals() -> list[Original]:
    """A small model of each kind, and one of numbers alone, which prediction walks in another way and has a history."""
    fitted = [(model, mixed_table(12, seed=7)) for model, _ in models(n=150, n_estimators=2, num_leaves=4).values()]
    X = np.random.default_rng(0).normal(size=(150, 3))
    X[::9] = np.nan
    numbers = UnbiasedGBMRegressor(n_estimators=3, num_leaves=5, early_stopping=True, n_jobs=1)
    fitted.append((numbers.fit(X, np.nan_to_num(X[:, 0])), X[:12]))
    found = []
    for model, probe in fitted:
        document = to_json(estimator_to_dict(model))
        data = container.seal(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())
        found.append(Original(document, data, probe, raw(model, probe)))
    return found


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change a few bytes."""
    mutant = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(mutant) + 1)
        length = rng.choice((1, 1, 2, 8, 40))
        kind = rng.randrange(6)
        if kind == 0 and place < len(mutant):
            mutant[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del mutant[place : place + length]
        elif kind == 2:
            mutant[place:place] = rng.choice(_TOKENS)
        elif kind == 3:
            mutant[place : place + length] = rng.choice(_TOKENS)
        elif kind == 4:
            source = rng.randrange(len(mutant) + 1)
            mutant[place:place] = mutant[source : source + length]
        else:
            mutant[place : place + 1] = str(rng.randrange(10)).encode()
        if not mutant:
            break
    return bytes(mutant[: rng.randrange(len(mutant) + 1)] if rng.random() < 0.03 else mutant)


def mutate_document(document: Any, rng: random.Random) -> Any:
    """Change a value somewhere in the tree of objects and lists."""
    mutant = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 4))):
        # half of the time among the trees, where most of what a kernel reads comes from
        trees = mutant.get("trees")
        parent, key = _some_place(trees if trees and isinstance(trees, dict) and rng.random() < 0.5 else mutant, rng)
        kind = rng.randrange(7)
        if kind <= 2:
            parent[key] = deepcopy(rng.choice(_ODD))
        elif kind == 3 and isinstance(parent[key], int | float):
            parent[key] = parent[key] + rng.choice((1, -1, 7, 0.5, -(2**31)))
        elif kind == 4:
            del parent[key]
        elif kind == 5 and isinstance(parent, list):
            parent.insert(key, deepcopy(rng.choice(parent)))
        elif isinstance(parent, list):
            other = rng.randrange(len(parent))
            parent[key], parent[other] = parent[other], parent[key]
        else:
            parent[rng.choice(("format", "classes", "x", "é"))] = deepcopy(rng.choice(_ODD))
    return mutant


def _some_place(value: Any, rng: random.Random) -> tuple[Any, Any]:
    while True:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        inside = value[key]
        if not isinstance(inside, dict | list) or not inside or rng.random() < 0.15:
            return value, key
        value = inside


def make(original: Original, rng: random.Random) -> tuple[bytes, bool]:
    """A mutant, and whether it was given a new checksum."""
    kind = rng.randrange(8)
    if kind < 4:
        data = mutate_bytes(original.data, rng)
        if kind == 3:
            data = gzip.compress(data, 1) if rng.random() < 0.3 else mutate_bytes(gzip.compress(original.data, 1), rng)
        return data, False
    if kind == 4:
        body, _, _ = original.data.rpartition(b',"checksum"')
        return container.seal(mutate_bytes(body, rng) + b"}"), True
    document = mutate_document(original.document, rng)
    return container.seal(json.dumps(document, separators=(",", ":")).encode()), True


def judge(data: bytes, sealed: bool, original: Original) -> str:
    """What became of a mutant; raises if it is none of what may become of one."""
    try:
        model = estimator_from_dict(container.parse(data))
    except ModelFileError:
        return "refused"
    try:
        answer = raw(model, original.probe)
    except ValueError as error:
        # the file describes another table, or levels that raise when they are unknown
        if sealed and ("feature" in str(error) or "Column" in str(error)):
            return "another table"
        raise
    if sealed:
        assert answer.shape == (len(original.probe), model.ensemble_.n_outputs)
        model.predict(original.probe)
        model.apply(original.probe)
        return "loaded"
    assert np.array_equal(answer, original.answer), "a damaged file loaded as another model"
    return "equal"


def run(count: int, seed: int, report_every: int = 0) -> Counter[str]:
    """Try so many mutants."""
    rng = random.Random(seed)
    base = originals()
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(count):
            original = rng.choice(base)
            data, sealed = make(original, rng)
            before = time.process_time()
            try:
                outcomes[("sealed " if sealed else "") + judge(data, sealed, original)] += 1
            except Exception:
                with open(f"mutant-{seed}-{k}.json", "wb") as file:
                    file.write(data)
                raise
            slowest = max(slowest, time.process_time() - before)
            if report_every and (k + 1) % report_every == 0:
                spent = time.monotonic() - start
                print(f"{k + 1} mutants in {spent:.0f} s: {dict(outcomes)}, slowest {slowest:.3f} s", flush=True)
    assert slowest < 5.0, f"a mutant took {slowest:.1f} s"
    outcomes["slowest in ms of processor time"] = round(1000 * slowest)
    return outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="where the counts go, as JSON")
    arguments = parser.parse_args()
    counts = run(arguments.count, arguments.seed, report_every=max(1, arguments.count // 100))
    print(counts)
    if arguments.output is not None:
        settings = {
            "mutants": arguments.count,
            "seed": arguments.seed,
            "bounds_checked": os.environ.get("NUMBA_BOUNDSCHECK") == "1",
            "library_version": __version__,
            "outcomes": dict(sorted(counts.items())),
        }
        arguments.output.write_text(json.dumps(settings, indent=2) + "\n")
