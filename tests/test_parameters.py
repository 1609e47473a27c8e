import inspect
import math

import numpy as np
import pytest

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS, check_parameters, check_role_ratio

TABLES = {UnbiasedGBMClassifier: CLASSIFIER_PARAMETERS, UnbiasedGBMRegressor: REGRESSOR_PARAMETERS}


@pytest.mark.parametrize("cls", TABLES)
def test_the_table_is_the_signature(cls):
    signature = inspect.signature(cls).parameters
    assert {p.name: p.default for p in TABLES[cls]} == {name: p.default for name, p in signature.items()}
    check_parameters(TABLES[cls], cls().get_params())


@pytest.mark.parametrize("parameter", REGRESSOR_PARAMETERS + CLASSIFIER_PARAMETERS[-1:], ids=lambda p: p.name)
def test_bounds(parameter):
    if parameter.kind in ("int", "float"):
        kind = int if parameter.kind == "int" else float
        for bound, outward, is_open in (
            (parameter.low, -1, parameter.open_low),
            (parameter.high, 1, parameter.open_high),
        ):
            if math.isinf(bound):
                continue
            bound = kind(bound)
            step = 1 if parameter.kind == "int" else 1e-9
            if is_open:
                refused(parameter, bound)
            else:
                parameter.check(bound)
            refused(parameter, bound + outward * step)
            parameter.check(bound - outward * step)
        for wrong in ("1", float("nan"), True, [1], *([1.5] if parameter.kind == "int" else [])):
            refused(parameter, wrong)
        parameter.check(np.int64(max(1, parameter.low)) if parameter.kind == "int" else parameter.default)
    elif parameter.kind == "choice":
        for choice in parameter.choices:
            parameter.check(choice)
        refused(parameter, "nonsense")
        refused(parameter, 1)
    elif parameter.kind == "bool":
        parameter.check(True)
        refused(parameter, "yes")
    if parameter.kind != "free":
        if parameter.optional:
            parameter.check(None)
        else:
            refused(parameter, None)


def refused(parameter, value):
    with pytest.raises(ValueError, match=f"^{parameter.name} must be "):
        parameter.check(value)


def test_role_ratio():
    assert check_role_ratio(None) is None
    assert check_role_ratio([1, 2]) == (1.0, 2.0)
    assert check_role_ratio(np.array([4, 1, 1])) == (4.0, 1.0, 1.0)
    for wrong in ((1,), (1, 2, 3, 4), (0, 1), (1, 0), (-1, 1), (1, float("inf")), "ab", 3, (1, None)):
        with pytest.raises(ValueError, match=r"^role_ratio must be None or two or three numbers"):
            check_role_ratio(wrong)
