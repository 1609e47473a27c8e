"""Parameters: one table says what each may be; validation and the reference page both read it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbiasedgbm.losses import REGRESSION_LOSSES
from unbiasedgbm.training.splitting import SPLIT_RULES

MAX_BAGS = 1024


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be.

    Attributes
    ----------
    name : str
    kind : {"int", "float", "share", "choice", "bool", "free"}
        ``"share"`` is one between 0 and 1, or a whole number of rows; ``"free"`` is checked where it is used.
    default : object
    meaning : str
    low, high : float
        Bounds of a number.
    open_low, open_high : bool
        Whether ``low`` or ``high`` itself is excluded.
    choices : tuple of str
    optional : bool
        Whether None is allowed.
    """

    name: str
    kind: str
    default: Any
    meaning: str
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.kind == "choice":
            words = "one of " + ", ".join(repr(choice) for choice in self.choices)
        elif self.kind == "bool":
            words = "True or False"
        elif self.kind == "share":
            words = "a number > 0 and < 1, a whole number >= 1"
        elif self.kind == "free":
            words = "see its description"
        else:
            words = "a whole number" if self.kind == "int" else "a number"
            if self.low > -math.inf:
                words += f" {'>' if self.open_low else '>='} {_plain(self.low)}"
            if self.high < math.inf:
                words += (
                    f"{' and' if self.low > -math.inf else ''} {'<' if self.open_high else '<='} {_plain(self.high)}"
                )
        return words + (", or None" if self.optional else "")

    def check(self, value: Any) -> None:
        """Raise ValueError unless ``value`` is allowed."""
        if self.kind == "free" or (value is None and self.optional):
            return
        if not self._fits(value):
            raise ValueError(f"{self.name} must be {self.allowed}; got {value!r}.")

    def _fits(self, value: Any) -> bool:
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if self.kind == "bool":
            return isinstance(value, bool | np.bool_ | numbers.Integral) and value in (0, 1)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        number = float(value)
        if self.kind == "share":
            return number >= 1 if isinstance(value, numbers.Integral) else 0 < number < 1
        if self.kind == "int" and not isinstance(value, numbers.Integral):
            return False
        if math.isnan(number) or number > self.high or (self.open_high and number == self.high):
            return False
        return number > self.low if self.open_low else number >= self.low


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"


_SHARED = (
    Parameter("n_estimators", "int", 200, "Largest number of boosting iterations.", low=1),
    Parameter(
        "learning_rate",
        "float",
        None,
        "Factor on every leaf value. None: 0.1; with split_rule='evidence' and more than 20,000 rows it grows with "
        "their cube root, up to 0.2.",
        low=0,
        open_low=True,
        open_high=True,
        optional=True,
    ),
    Parameter(
        "num_leaves",
        "int",
        None,
        "Largest number of leaves of a tree. None: 127, and 31 with more than two classes, each of which has its own "
        "trees; with split_rule='evidence' 255 if loss='squared_error', and more in large tables: by the root of "
        "rows / 20,000, up to 1,023, and with more than two classes up to a leaf for every 130 rows.",
        low=2,
        high=1 << 20,
        optional=True,
    ),
    Parameter("max_depth", "int", None, "Largest depth of a leaf; None for no limit.", low=1, optional=True),
    Parameter(
        "min_samples_leaf",
        "int",
        None,
        "Rows that both children of a split must have, in every role. None: 5, and 3 in regression; with "
        "split_rule='evidence' from 30 rows on at most a hundredth of them, but no less than 2, and 1 with "
        "loss='squared_error'.",
        low=1,
        high=1 << 20,
        optional=True,
    ),
    Parameter("min_child_weight", "float", 1e-3, "Sum of hessians that both children must have.", low=0),
    Parameter(
        "min_split_gain",
        "float",
        0.0,
        "Score that a split must exceed. Zero is where a useless split scores on average with 'separate' and "
        "'without_se'; with 'evidence', where the best of all useless features does; with the other rules a useless "
        "split scores more. May be negative, and -inf turns the limit off, and with it the end of boosting where "
        "splits are no longer worth it.",
    ),
    Parameter(
        "reg_lambda",
        "float",
        1.0,
        "L2 penalty on leaf values, added to hessian sums; with more than two classes, a class's share of it.",
        low=0,
    ),
    Parameter(
        "max_bins",
        "int",
        None,
        "Bins for the values of a numeric feature. None: 128, or one for each value if there are 255 at most, with 16 "
        "rows each on average.",
        low=2,
        high=255,
        optional=True,
    ),
    Parameter("subsample", "float", 1.0, "Share of the rows drawn for each tree.", low=0, high=1, open_low=True),
    Parameter(
        "colsample_bytree", "float", 1.0, "Share of the features drawn for each tree.", low=0, high=1, open_low=True
    ),
    Parameter(
        "colsample_bynode", "float", 1.0, "Share of the features drawn for each node.", low=0, high=1, open_low=True
    ),
    Parameter(
        "n_bags",
        "int",
        None,
        "Chains of trees that grow side by side, each with its own roles; the model is their mean. None: 3 for "
        "split_rule='evidence', else 1.",
        low=1,
        high=MAX_BAGS,
        optional=True,
    ),
    Parameter(
        "linear_start",
        "bool",
        None,
        "Whether the trees begin from a line in numbers and levels of categories, where rows that did not choose it "
        "agree that there is one. None: for split_rule='evidence', if the loss has Newton steps.",
        optional=True,
    ),
    Parameter(
        "split_rule", "choice", "evidence", "Which rows choose a split and which judge it.", choices=tuple(SPLIT_RULES)
    ),
    Parameter("role_ratio", "free", None, "Rows S1 : S2 (: S3) of the split rule; None for the rule's own."),
    Parameter(
        "role_draw",
        "choice",
        "tree",
        "When roles are drawn: for each tree, for each node, or once.",
        choices=("tree", "node", "fit"),
    ),
    Parameter("categorical_features", "free", "from_dtype", "Which columns are categorical."),
    Parameter(
        "handle_unknown",
        "choice",
        "missing",
        "What becomes of a level at predict that training has not seen.",
        choices=("missing", "error"),
    ),
    Parameter("cat_smooth", "float", 5.0, "Hessian added to a level before levels are put in order.", low=0),
    Parameter("monotonic_cst", "free", None, "Features that the prediction must rise (1) or fall (-1) with."),
    Parameter("interaction_cst", "free", None, "Groups of features that may occur together on a path."),
    Parameter("early_stopping", "free", "auto", "True, False, or 'auto': on if and only if X_val is given to fit."),
    Parameter(
        "validation_fraction",
        "share",
        0.1,
        "Rows held out if X_val is not given: their share or their number. None: none, the training rows say when to "
        "stop.",
        optional=True,
    ),
    Parameter("n_iter_no_change", "int", 20, "Iterations without progress after which training stops.", low=1),
    Parameter("tol", "float", 1e-7, "What counts as progress.", low=0),
    Parameter(
        "scoring",
        "free",
        "loss",
        "'loss', a scorer's name, a scorer, or a list; the first one stops training. None: accuracy or R².",
    ),
    Parameter("warm_start", "bool", False, "Whether fit goes on from the last fit."),
    Parameter("random_state", "free", 0, "Seed, RandomState, or None for another model every time."),
    Parameter("n_jobs", "int", None, "Threads; None for the cores this process may use.", optional=True),
    Parameter("verbose", "int", 0, "0 for silence; k reports every k iterations.", low=0),
)

CLASSIFIER_PARAMETERS = (
    *_SHARED,
    Parameter("class_weight", "free", None, "Weights of classes: a mapping, 'balanced', or None."),
)

# Numbers have more to tell than classes: regression gains by finer cuts, classification does not.
_REGRESSOR_DEFAULTS = {"max_bins": 255}

REGRESSOR_PARAMETERS = (
    Parameter("loss", "free", "squared_error", f"One of {', '.join(REGRESSION_LOSSES)}, or two callables."),
    Parameter("quantile", "float", 0.5, "Level of loss='quantile'.", low=0, high=1),
    Parameter(
        "huber_quantile",
        "float",
        0.9,
        "Share of the residuals that loss='huber' squares.",
        low=0,
        high=1,
        open_low=True,
    ),
    Parameter(
        "tweedie_power",
        "float",
        1.5,
        "Variance power of loss='tweedie', between 1 and 2.",
        low=1,
        high=2,
        open_low=True,
        open_high=True,
    ),
    *(replace(one, default=_REGRESSOR_DEFAULTS.get(one.name, one.default)) for one in _SHARED),
)


def check_parameters(table: tuple[Parameter, ...], values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first value that its row of the table does not allow."""
    for parameter in table:
        if parameter.name in values:
            parameter.check(values[parameter.name])


def check_role_ratio(role_ratio: Any) -> tuple[float, ...] | None:
    """The ratio as floats: two or three numbers, the first two positive."""
    if role_ratio is None:
        return None
    try:
        ratio = tuple(float(part) for part in role_ratio)
    except (TypeError, ValueError):
        ratio = ()
    if len(ratio) not in (2, 3) or not all(math.isfinite(part) and part >= 0 for part in ratio) or min(ratio[:2]) <= 0:
        raise ValueError(
            f"role_ratio must be None or two or three numbers, S1 : S2 : S3, the first two positive; "
            f"got {role_ratio!r}."
        )
    return ratio
