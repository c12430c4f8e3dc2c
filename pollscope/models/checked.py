# SPDX-License-Identifier: BSD-3-Clause
"""Refuse values that a model cannot compute with."""

import math

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number

NS_PER_S = 1e9


def at_least(model: str, least: float, **values: float) -> None:
    """Refuse a value that is not a finite number of at least `least`.

    Raises:
        UsageError: names the model, the value and what is allowed.
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value >= least):
            raise UsageError(f"is {value}, allowed is a number from {human_number(least)} on", f"{model}: {name}")


def above_zero(model: str, **values: float) -> None:
    """Refuse a value that is not a finite number above 0.

    Raises:
        UsageError: names the model, the value and what is allowed.
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"is {value}, allowed is a number above 0", f"{model}: {name}")


def share(model: str, **values: float) -> None:
    """Refuse a value outside 0 to 1.

    Raises:
        UsageError: names the model, the value and what is allowed.
    """
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UsageError(f"is {value}, allowed is 0 to 1", f"{model}: {name}")


def whole(model: str, least: int, **values: int) -> None:
    """Refuse a value that is not a whole number of at least `least`.

    Raises:
        UsageError: names the model, the value and what is allowed.
    """
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"is {value}, allowed is a whole number from {least} on", f"{model}: {name}")


def stable(model: str, utilisation: float) -> float:
    """Return the utilisation if a queue with it has a steady state.

    Raises:
        UsageError: it has none: more arrives than can be served.
    """
    if utilisation >= 1:
        raise UsageError(
            f"is {human_number(utilisation, 6)}, allowed is below 1",
            f"{model}: utilisation",
            "lower the rate or the service time",
        )
    return utilisation
