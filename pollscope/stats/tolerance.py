# SPDX-License-Identifier: BSD-3-Clause
"""Derive the bounds of a claim from the number or the word that a paper states: one rule for all claims.

A number has a tolerance of a quarter of the effect that it states, or of half a unit of its last printed digit where
that is more. The effect of a ratio is its distance from 1. So the bounds contain the stated value, and neither no
effect nor the opposite. docs/validity.md states the rule for readers.
"""

import re
from typing import NamedTuple

# Allowed deviation of another machine, as a share of the stated effect.
EFFECT_SHARE = 0.25
# Ends of "slightly" and "about the same", of "the same", and of "none".
TENTH, TWENTIETH, HUNDREDTH = 0.1, 0.05, 0.01
# Digits of bounds.
_DIGITS = 4

_NUMBER = r"\d+(?:\.\d+)?(?:e\+?\d+)?"
_VALUE = rf"(?P<value>{_NUMBER})(?: / (?P<divisor>{_NUMBER}))?(?P<percent> %)?(?P<change> lower| higher)?"
_COMPARED = re.compile(rf"(?P<how>more than|at least|less than|at most) {_VALUE}")
_RANGE = re.compile(rf"(?P<low>{_NUMBER})(?P<low_percent> %)? to (?P<high>{_NUMBER})(?P<high_percent> %)?")
_SINGLE = re.compile(_VALUE)
_BESIDE = re.compile(rf"(?P<how>exactly|below|reaches|well below|none beside|some beside) (?P<value>{_NUMBER})")
_SCALED = re.compile(rf"(?P<text>.+) x (?P<times>{_NUMBER}) / (?P<over>{_NUMBER})")


class Bounds(NamedTuple):
    """The range that agrees with a statement; an end of None is open."""

    low: float | None
    high: float | None


# Words on a ratio.
WORDS = {
    "lower": Bounds(None, 1.0),
    "higher": Bounds(1.0, None),
    "slightly lower": Bounds(1 - TENTH, 1.0),
    "slightly higher": Bounds(1.0, 1 / (1 - TENTH)),
    "considerably lower": Bounds(None, 1 - TENTH),
    "considerably higher": Bounds(1 / (1 - TENTH), None),
    "drastically lower": Bounds(None, 0.5),
    "drastically higher": Bounds(2.0, None),
    "the same": Bounds(1 - TWENTIETH, 1 + TWENTIETH),
    "about the same": Bounds(1 - TENTH, 1 + TENTH),
}


def bounds_of(stated: str, of_ratio: bool) -> Bounds:
    """Return the bounds for what a paper states, as `17.68 / 16.43`, `30 % lower`, `20 % to 28 %`, `slightly lower`.

    Args:
        stated: a number as printed, a quotient, a range, a comparison, or a word of WORDS; `... x A / B` scales it.
        of_ratio: the statement is on a ratio, whose effect is its distance from 1; otherwise it is on a quantity.

    Raises:
        ValueError: the text has none of these forms.
    """
    if scaled := _SCALED.fullmatch(stated):
        times = float(scaled["times"]) / float(scaled["over"])
        return _rounded(*(None if end is None else end * times for end in bounds_of(scaled["text"], of_ratio)))
    if of_ratio and stated in WORDS:
        return _rounded(*WORDS[stated])
    if found := _BESIDE.fullmatch(stated):
        return _beside(found["how"], float(found["value"]))
    if found := _RANGE.fullmatch(stated):
        low, high = (float(found[end]) / (100 if found[f"{end}_percent"] else 1) for end in ("low", "high"))
        return Bounds(low, high)
    if found := _COMPARED.fullmatch(stated):
        value, _ = _value(found)
        upwards = (found["how"] in ("more than", "at least")) is not (found["change"] == " lower")
        return _rounded(value, None) if upwards else _rounded(None, value)
    if found := _SINGLE.fullmatch(stated):
        value, printed = _value(found)
        width = max(printed, EFFECT_SHARE * abs(value - of_ratio))
        return _rounded(value - width, value + width)
    raise ValueError(f"'{stated}' is not a number, range, comparison or word with a tolerance")


def _beside(how: str, value: float) -> Bounds:
    """Return the bounds of a comparison that leaves a hundredth, or a half, of a value."""
    return {
        "exactly": Bounds(value, value),
        "below": _rounded(None, (1 - HUNDREDTH) * value),
        "reaches": _rounded((1 - HUNDREDTH) * value, None),
        "well below": Bounds(None, value / 2),
        "none beside": Bounds(None, HUNDREDTH * value),
        "some beside": Bounds(HUNDREDTH * value, None),
    }[how]


def _value(found: re.Match[str]) -> tuple[float, float]:
    """Return the stated value, and half a unit of its last printed digit."""
    value, half = float(found["value"]), _half_digit(found["value"])
    if found["divisor"]:
        over, half_over = float(found["divisor"]), _half_digit(found["divisor"])
        low, high = (value - half) / (over + half_over), (value + half) / (over - half_over)
        value, half = value / over, (high - low) / 2
    if found["percent"]:
        value, half = value / 100, half / 100
    if found["change"]:
        value = 1 - value if found["change"] == " lower" else 1 + value
    return value, half


def _half_digit(text: str) -> float:
    """Return half a unit of the last digit of a number as printed."""
    mantissa, _, exponent = text.partition("e")
    return float(0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _rounded(low: float | None, high: float | None) -> Bounds:
    return Bounds(*(None if end is None else float(f"{end:.{_DIGITS}g}") for end in (low, high)))
