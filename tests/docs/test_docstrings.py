"""Everything public says what it is, with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import unbiasedgbm
from unbiasedgbm import callbacks, export
from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (unbiasedgbm, callbacks, export)
    for name in module.__all__
    if name != "__version__"
}

# Seen in the examples of others: what a callback is handed, a base class, a helper, a result, errors and warnings.
WITHOUT_EXAMPLE = {"TrainingState", "BaseCallback", "call_all", "ShapModel"}


def needs_example(thing: object) -> bool:
    return thing.__name__ not in WITHOUT_EXAMPLE and not (isinstance(thing, type) and issubclass(thing, Exception))


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    assert ">>>" in text or not needs_example(thing), f"{name} has no example"
    for test in doctest.DocTestFinder(recurse=False).find(
        thing, name, module=importlib.import_module(thing.__module__)
    ):
        out: list[str] = []
        found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=out.append)
        assert found.failed == 0, "".join(out)


@pytest.mark.parametrize(
    "name", [name for name in PUBLIC if inspect.isfunction(PUBLIC[name]) and needs_example(PUBLIC[name])]
)
def test_parameters_are_described(name):
    text = inspect.getdoc(PUBLIC[name])
    for parameter in inspect.signature(PUBLIC[name]).parameters:
        assert parameter in text, f"{name}: {parameter}"


@pytest.mark.parametrize(
    ("estimator", "table"),
    [
        (unbiasedgbm.UnbiasedGBMClassifier, CLASSIFIER_PARAMETERS),
        (unbiasedgbm.UnbiasedGBMRegressor, REGRESSOR_PARAMETERS),
    ],
)
def test_parameters_of_the_estimators_are_those_of_the_table(estimator, table):
    signature = inspect.signature(estimator).parameters
    assert list(signature) == [parameter.name for parameter in table]
    for parameter in table:
        assert signature[parameter.name].default == parameter.default, parameter.name
    if estimator is unbiasedgbm.UnbiasedGBMClassifier:
        text = inspect.getdoc(estimator)
        for parameter in table:
            assert parameter.name in text, parameter.name


def test_version():
    from importlib.metadata import version

    assert unbiasedgbm.__version__ == version("unbiasedgbm")


def test_names_are_only_what_is_listed():
    assert sorted(unbiasedgbm.__all__) == sorted(dir(unbiasedgbm))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = unbiasedgbm.nonsense
