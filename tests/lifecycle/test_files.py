"""Model files: what is saved comes back to the bit, and nothing else gets in."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from lifecycle.fuzz import run
from lifecycle.samples import mixed_table, models, raw, target
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.exceptions import ModelFileError, UnsavedParameterWarning
from unbiasedgbm.files import atomic, container
from unbiasedgbm.files.document import to_json
from unbiasedgbm.files.model_file import (
    FORMAT_VERSION,
    estimator_from_dict,
    estimator_to_dict,
    load_notes,
    save_model,
)

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def kinds():
    return models()


def assert_equal_models(a, b, table):
    for name in TreeEnsemble.__dataclass_fields__:
        x, y = getattr(a._model.ensemble, name), getattr(b._model.ensemble, name)
        np.testing.assert_array_equal(x, y, err_msg=name)
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None), name
    np.testing.assert_array_equal(raw(a, table), raw(b, table))
    np.testing.assert_array_equal(a.predict(table), b.predict(table))
    np.testing.assert_array_equal(a.feature_importances_, b.feature_importances_)
    assert a._model.schema == b._model.schema
    assert a._model.seed == b._model.seed
    assert a.history_ == b.history_
    assert (a.n_iter_, a.best_iteration_, a.split_rule_) == (b.n_iter_, b.best_iteration_, b.split_rule_)


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("kind", ["regression", "rate", "binary", "multiclass"])
def test_round_trip(kinds, kind, suffix, tmp_path):
    model, table = kinds[kind]
    path = tmp_path / f"model{suffix}"
    model.save_model(path)
    again = load_model(path)
    assert_equal_models(model, again, table)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    if kind == "binary":
        assert again.classes_.dtype == model.classes_.dtype
    # saving again gives the same bytes
    twin = tmp_path / f"twin{suffix}"
    again.save_model(twin)
    assert twin.read_bytes() == path.read_bytes()
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_a_saved_model_goes_on_to_the_same_bits(kinds, kind, tmp_path):
    model, table = kinds[kind]
    y = target(table) if kind == "regression" else model.classes_[model._encode(model.predict(table), "y").astype(int)]
    first = type(model)(**model.get_params()).fit(table, y)
    first.save_model(tmp_path / "m.json")
    whole = type(model)(**{**model.get_params(), "n_estimators": 20}).fit(table, y)
    rest = type(model)(**{**model.get_params(), "n_estimators": 20}).fit(
        table, y, init_model=load_model(tmp_path / "m.json")
    )
    assert_equal_models(whole, rest, table)


@pytest.mark.parametrize("kind", ["regression", "multiclass"])
def test_pickle_goes_through_the_same_state(kinds, kind):
    model, table = kinds[kind]
    assert_equal_models(model, pickle.loads(pickle.dumps(model)), table)
    state = model.__getstate__()
    assert set(state["_model"]) == {"table", "trees", "training", "history"}
    assert b"FittedModel" not in pickle.dumps(model)
    # a pickle of an older version, which did not have a parameter yet
    del state["cat_smooth"]
    older = object.__new__(type(model))
    older.__setstate__(state)
    assert older.cat_smooth == 5.0
    np.testing.assert_array_equal(older.predict(table), model.predict(table))


def test_pickle_keeps_functions():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = UnbiasedGBMRegressor(n_estimators=3, loss=(_gradients, _values)).fit(X, X[:, 0])
    again = pickle.loads(pickle.dumps(model))
    assert again.loss == (_gradients, _values)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def _gradients(y, f):
    return f - y, np.ones_like(f)


def _values(y, f):
    return 0.5 * (y - f) ** 2


def test_functions_are_not_saved_and_the_file_says_so(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0]
    model = UnbiasedGBMRegressor(n_estimators=3, loss=(_gradients, _values)).fit(X, y)
    model.save_model(tmp_path / "m.json")
    with pytest.warns(UnsavedParameterWarning, match="loss"):
        again = load_model(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"_gradients.*set_params"):
        again.fit(X, y)
    # and it stays so when it is saved again
    again.save_model(tmp_path / "m2.json")
    with pytest.warns(UnsavedParameterWarning):
        load_model(tmp_path / "m2.json")


@pytest.mark.parametrize(
    "params",
    [
        {"role_ratio": (1, 1.5)},
        {"min_split_gain": -np.inf},
        {"monotonic_cst": {"a": 1}},
        {"interaction_cst": [{0, 1}, {2}]},
        {"class_weight": {0: 1.0, 1: 2.5}},
        {"random_state": np.int32(7)},
        {"random_state": None},
        {"categorical_features": np.array([False, False, True])},
        {"scoring": ["loss", "accuracy"]},
    ],
)
def test_every_kind_of_parameter_survives(params, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "c": rng.integers(0, 4, 300)})
    model = UnbiasedGBMClassifier(n_estimators=2, **params).fit(X, (X["a"] > 0).astype(int))
    model.save_model(tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    (name, value), found = next(iter(params.items())), getattr(again, next(iter(params)))
    assert np.array_equal(found, value) or found == value or found == [sorted(v) for v in value] or found == list(value)
    again.fit(X, (X["a"] > 0).astype(int))
    if name != "random_state" or value is not None:
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [
        [False, True], np.array([3, 7], dtype=np.int8), np.array([1.0, 2.0], dtype=np.float32), ["β", "α"],
        np.array(["x", "y"], dtype=object), np.array([2**63, 2**63 + 1], dtype=np.uint64),
    ],
)  # fmt: skip
def test_labels_keep_their_type(labels, tmp_path):
    labels = np.array(labels)
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = UnbiasedGBMClassifier(n_estimators=2).fit(X, labels[(X[:, 0] > 0).astype(int)])
    model.save_model(tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_names_in_any_script_and_infinite_history(tmp_path):
    rng = np.random.default_rng(0)
    names = [
        "Größe",
        "大きさ",
        "اسم",
        '"quoted"',
        "back\\slash",
        "{json: [1,2]}",
        "line\nbreak",
        "\u2028",
        "🙂",
    ]
    X = pd.DataFrame(rng.normal(size=(120, len(names))), columns=names)
    model = UnbiasedGBMRegressor(n_estimators=2).fit(X, X["🙂"])
    model._model.history["validation"] = {"loss": [np.inf, float("nan")]}
    model.save_model(tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert list(again.feature_names_in_) == names
    assert again.history_["validation"]["loss"][0] == np.inf
    assert np.isnan(again.history_["validation"]["loss"][1])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_half_a_surrogate_pair_survives(tmp_path):
    container.write(tmp_path / "m.json", {"name": "\ud800", "other": "é"})
    assert container.read(tmp_path / "m.json") == {"name": "\ud800", "other": "é"}


def test_the_schema_describes_the_file(kinds, tmp_path):
    schema = json.loads(files("unbiasedgbm.files").joinpath("model.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for model, _ in kinds.values():
        model.save_model(tmp_path / "m.json")
        document = json.loads((tmp_path / "m.json").read_text())
        validator.validate(document)
        assert set(document) == set(schema["required"])
    document["trees"]["left"][0] = -2
    assert not validator.is_valid(document)


def test_the_page_and_the_schema_name_the_format_that_is_written():
    page = (Path(__file__).parents[2] / "docs" / "lifecycle" / "model-files.md").read_text()
    assert f'`"unbiasedgbm-model"`, `{FORMAT_VERSION}`' in page
    schema = json.loads(files("unbiasedgbm.files").joinpath("model.schema.json").read_text())
    assert schema["title"].endswith(f"format {FORMAT_VERSION}")


def test_notes_are_kept_with_the_file_not_with_the_estimator(kinds, tmp_path):
    model, table = kinds["regression"]
    notes = {"seed": 3, "share": 0.25, "größe": "x"}
    save_model(model, tmp_path / "m.json.gz", notes)
    assert load_notes(tmp_path / "m.json.gz") == notes
    again = load_model(tmp_path / "m.json.gz")
    assert_equal_models(model, again, table)
    again.save_model(tmp_path / "m.json")
    assert load_notes(tmp_path / "m.json") == {}
    assert load_notes(GOLDEN / "format-4-regression.json") == {}
    with pytest.raises(ModelFileError, match="notes"):
        save_model(model, tmp_path / "m.json", {"a": float("nan")})
    (tmp_path / "m.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"m\.json"):
        load_notes(tmp_path / "m.json")


def test_loading_a_thousand_trees_is_fast(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=3000) > 0).astype(int)
    options = {"split_rule": "standard", "num_leaves": 31, "min_split_gain": -np.inf}
    model = UnbiasedGBMClassifier(n_estimators=1000, **options).fit(X, y)
    assert model.ensemble_.n_trees == 1000
    assert model.ensemble_.n_nodes == 61_000
    model.save_model(tmp_path / "m.json")
    load_model(tmp_path / "m.json")
    spent = min(_cpu_seconds(lambda: load_model(tmp_path / "m.json")) for _ in range(3))
    assert spent < 0.5


def _cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


# -- untrusted files -------------------------------------------------------------------------------------------------


def resealed(model, change):
    document = json.loads(json.dumps(to_json(estimator_to_dict(model))))
    change(document)
    return container.parse(container.seal(json.dumps(document).encode()))


def set_in(*path):
    *parents, (key, value) = path

    def change(document):
        for parent in parents:
            document = document[parent]
        document[key] = value

    return change


def share_a_child(document):
    """Two nodes of the largest tree name the same children."""
    sizes, left = document["trees"]["n_nodes"], document["trees"]["left"]
    begin = sum(sizes[: sizes.index(max(sizes))])
    inner = [k for k in range(begin, begin + max(sizes)) if left[k] >= 0]
    left[inner[-2]] = left[inner[-1]]


def with_every_level(document):
    """A set of more levels than its feature has."""
    sets = document["trees"]["sets"]
    sets[0] = "f" * len(sets[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in(("format", "other")), "no model file"),
        (set_in(("format_version", 6)), "format 6, written by.*Install a newer"),
        (set_in(("format_version", True)), "format_version"),
        (set_in(("estimator", "os.system")), "estimator"),
        (set_in(("extra", 1)), "extra"),
        (set_in("parameters", ("learning_rate", -1)), "learning_rate"),
        (set_in("parameters", ("unheard_of", 1)), "unheard_of"),
        (set_in("parameters", ("n_jobs", 10**6)), "n_jobs"),
        (set_in("parameters", ("n_jobs", 0)), "n_jobs"),
        (set_in("classes", ("labels", ["nein", "ja"])), "labels"),
        (set_in("classes", ("labels", ["ja", "ja"])), "labels"),
        (set_in("classes", ("labels", ["a", "b", "c"])), "n_outputs"),
        (set_in(("classes", None)), "classes"),
        (set_in("table", ("n_features", 10**9)), "categories"),
        (set_in("table", "categories", (1, ["b", "a"])), "sorted"),
        (set_in("trees", ("base", ["inf"])), "base"),
        (set_in("trees", ("base", [0.0, 0.0])), "base"),
        (set_in("trees", "left", (0, 0)), "child"),
        (set_in("trees", "left", (0, 10**6)), "child"),
        (share_a_child, "child of one"),
        (set_in("trees", "left", (0, 1.0)), "left"),
        (set_in("trees", "feature", (0, 99)), "feature"),
        (set_in("trees", "threshold", (0, "nan")), "NaN"),
        (set_in("trees", "threshold", (0, "1e5")), "threshold"),
        (set_in("trees", "value", (0, "inf")), "value"),
        (set_in("trees", "value", (0, None)), "value"),
        (set_in("trees", "cover", (0, -1.0)), "cover"),
        (set_in("trees", "sets", (0, "0" * 15)), "hexadecimal"),
        (set_in("trees", "sets", (0, "0x" + "0" * 14)), "hexadecimal"),
        (with_every_level, "level"),
        (set_in("trees", ("n_nodes", [1])), "n_nodes"),
        (set_in("training", ("n_iterations", 3)), "entries"),
        (set_in("training", ("best_iteration", 99)), "best_iteration"),
        (set_in("training", ("seed", -1)), "seed"),
        (set_in("training", ("memories", [])), "memories"),
        (set_in("training", "importance", (0, [1])), "importance"),
        (set_in("training", ("n_bags", 2)), "n_nodes"),
        (set_in("training", ("n_bags", 0)), "n_bags"),
        (set_in("training", ("start_squares", [])), "start_squares"),
        (set_in("training", ("worth", "nan")), "worth"),
        (set_in("training", ("peak", 10**6)), "peak"),
        (set_in("training", ("peak_worth", None)), "peak_worth"),
        (set_in("history", ("validation", {"loss": [0.0] * 99})), "history"),
        (set_in("history", ("elsewhere", {})), "history"),
        (set_in(("notes", None)), "notes"),
        (set_in("notes", ("a", [1])), "notes"),
        (set_in("notes", ("a", True)), "notes"),
    ],
)
def test_a_bad_file_is_a_clear_error(kinds, change, message):
    model, _ = kinds["binary"]
    with pytest.raises(ModelFileError, match=message):
        estimator_from_dict(resealed(model, change))


def test_damage_is_found(kinds, tmp_path):
    model, _ = kinds["binary"]
    path = tmp_path / "m.json"
    model.save_model(path)
    data = path.read_bytes()
    place = data.index(b'"value":[') + 10
    for damaged, message in [
        (data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], "checksum"),
        (data[: len(data) // 2], "cut off"),
        (b"", "cut off"),
        (b"[" * 100_000, "cut off"),
        (container.seal(b'{"format":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested"),
        (container.seal(b'{"a":1,"a":2}'), "twice"),
        (container.seal(b'{"a":NaN}'), "NaN"),
        (container.seal(b'{"a":"\xff"}'), "JSON"),
        (gzip.compress(data)[:-20], "cut off"),
        (gzip.compress(data) + b"x", "followed"),
        (b"\x1f\x8b" + b"nonsense", "damaged"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=message) as caught:
            load_model(path)
        assert str(path) in str(caught.value)


def test_a_small_file_cannot_fill_the_memory():
    bomb = gzip.compress(b"{" + b" " * (300 << 20), 9)
    assert len(bomb) < 400_000
    with pytest.raises(ModelFileError, match="far more"):
        container.parse(bomb)


def test_mutants():
    outcomes = run(4000, seed=1)
    assert outcomes["sealed loaded"] > 50
    assert outcomes["refused"] > 1500


def test_the_check_of_mutants_can_fail(kinds, monkeypatch):
    # without the checksum, a flipped digit loads as another model, and the check must see it
    monkeypatch.setattr(container, "_unseal", lambda data: data.rpartition(b',"checksum":"')[0] + b"}")
    with pytest.raises(AssertionError, match="another model"):
        run(3000, seed=2)
    for path in Path.cwd().glob("mutant-2-*.json"):
        path.unlink()


# -- the disk --------------------------------------------------------------------------------------------------------


def test_an_unwritable_path_loses_nothing(kinds, tmp_path):
    model, _ = kinds["regression"]
    for path, kind in ((tmp_path / "nowhere" / "m.json", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind) as caught:
            model.save_model(path)
        assert str(caught.value).endswith(f": {str(path)!r}")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_loses_nothing(kinds, tmp_path, monkeypatch):
    model, _ = kinds["regression"]
    path = tmp_path / "m.json"
    model.save_model(path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/m.json'"):
        kinds["binary"][0].save_model(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.json"]


def test_a_really_full_disk_loses_nothing(kinds, tmp_path):
    """A file size limit makes the system itself refuse to write on."""
    model, _ = kinds["regression"]
    path = tmp_path / "m.json"
    model.save_model(path)
    before = path.read_bytes()
    code = (
        "import resource, signal, sys\n"
        "from unbiasedgbm.files.atomic import write_atomically\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_atomically(sys.argv[1], b'x' * 5000)\n"
        "except OSError as error:\n    print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "File too large"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.json"]


def test_a_link_stays_a_link_and_permissions_stay(kinds, tmp_path):
    model, _ = kinds["regression"]
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    model.save_model(real)
    os.chmod(real, 0o640)
    link.symlink_to(real)
    model.save_model(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640


def test_many_writers_leave_one_whole_file(kinds, tmp_path):
    path = tmp_path / "m.json"
    chosen = [kinds["regression"][0], kinds["multiclass"][0]]
    chosen[0].save_model(path)
    stop = threading.Event()
    errors = []

    def write(model):
        while not stop.is_set():
            model.save_model(path)

    writers = [threading.Thread(target=write, args=(model,)) for model in chosen]
    for writer in writers:
        writer.start()
    try:
        for _ in range(40):
            try:
                load_model(path)
            except Exception as error:
                errors.append(error)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not errors
    assert os.listdir(tmp_path) == ["m.json"]


def test_another_process_with_other_threads_predicts_the_same(kinds, tmp_path):
    model, _ = kinds["multiclass"]
    model.save_model(tmp_path / "m.json")
    table = mixed_table(5000, seed=9)
    table.to_parquet(tmp_path / "t.parquet")
    code = (
        "import sys, numpy as np, pandas as pd\n"
        "from unbiasedgbm import load_model\n"
        "model = load_model(sys.argv[1]).set_params(n_jobs=3)\n"
        "np.save(sys.argv[3], model.decision_function(pd.read_parquet(sys.argv[2])))\n"
    )
    paths = [tmp_path / name for name in ("m.json", "t.parquet", "out.npy")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True)
    np.testing.assert_array_equal(np.load(paths[2]), model.decision_function(table))


# -- files of earlier versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("format-*.json*")), ids=lambda path: path.name)
def test_golden_files_load_and_predict_as_they_did(path):
    model = load_model(path)
    expected = json.loads((GOLDEN / "expected.json").read_text())[path.name.removesuffix(".gz").removesuffix(".json")]
    found = raw(model, mixed_table(20, seed=3))
    np.testing.assert_array_equal(found, np.array(expected["raw"]))
    assert model.n_iter_ == expected["n_iter"]


def test_there_is_a_golden_file_of_every_format():
    assert {path.name for path in GOLDEN.glob("format-*")} >= {
        f"format-{version}-{name}"
        for version in range(1, FORMAT_VERSION + 1)
        for name in ("binary.json", "multiclass.json.gz", "regression.json")
    }  # fmt: skip
