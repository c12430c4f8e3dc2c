# SPDX-License-Identifier: BSD-3-Clause
"""Parse and print numbers with units: a closed set of units per dimension, parsed exactly.

Inside the program every number is in the base unit of its dimension (ns, B, pps, share, cycles); prefixes exist only in
specs and on screens. A unit is never guessed: a bare number is accepted only where the key's own name carries the unit.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?)\s*([A-Za-zµ%]*)\s*")


@dataclass(frozen=True, eq=False)
class Dimension:
    """A physical dimension and the units that it accepts.

    Attributes:
        name: for error messages.
        base: the unit in which values are kept.
        factors: unit -> its size in base units; contains `base`.
        whole: values are integers in the base unit.
        bare: a number without unit is in the base unit (for keys whose name carries the unit).
    """

    name: str
    base: str
    factors: Mapping[str, Fraction]
    whole: bool
    bare: bool = False

    @property
    def allowed(self) -> str:
        """Return the allowed units for an error message."""
        return ", ".join(self.factors)


def _units(**factors: float | Fraction) -> Mapping[str, Fraction]:
    return MappingProxyType({unit: Fraction(value) for unit, value in factors.items()})


TIME = Dimension("a time", "ns", _units(ns=1, us=1000, ms=1_000_000, s=10**9, min=60 * 10**9), whole=True)
SIZE = Dimension("a size", "B", _units(B=1, KiB=2**10, MiB=2**20, GiB=2**30, kB=1000, MB=10**6, GB=10**9), whole=True)
RATE = Dimension("a packet rate", "pps", _units(pps=1, kpps=1000, Mpps=10**6), whole=False, bare=True)
SHARE = Dimension("a share", "share", MappingProxyType({"%": Fraction(1, 100)}), whole=False)
CYCLES = Dimension("a number of cycles", "cycles", _units(cycles=1, kcycles=1000), whole=True, bare=True)
DIMENSIONS = (TIME, SIZE, RATE, SHARE, CYCLES)


@dataclass(frozen=True)
class Quantity:
    """A number as the user wrote it: `value` in `unit` of `dimension`."""

    value: Fraction
    unit: str
    dimension: Dimension

    def in_base(self) -> int | float:
        """Return the value in the base unit: an int for whole dimensions, otherwise a float.

        Raises:
            ValueError: the dimension is whole, but the value is not a whole number of base units.
        """
        base = self.value * self.dimension.factors.get(self.unit, Fraction(1))
        if not self.dimension.whole:
            return float(base)
        if base.denominator != 1:
            raise ValueError(f"{float(self.value)} {self.unit} is not a whole number of {self.dimension.base}")
        return int(base)

    def to(self, unit: str) -> Fraction:
        """Return the value in another unit of the same dimension."""
        factors = self.dimension.factors
        return self.value * factors.get(self.unit, Fraction(1)) / factors.get(unit, Fraction(1))


def parse_quantity(text: object, dimension: Dimension) -> Quantity:
    """Read `3 Mpps`, `100 ms`, `64 B` or `25 %`.

    Raises:
        ValueError: not a number, no unit where one is needed, or a unit that is not in the closed set.
    """
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError(f"{dimension.name} is needed, for instance '1 {next(iter(dimension.factors))}'")
    match = _NUMBER_AND_UNIT.fullmatch(str(text))
    if match is None:
        raise ValueError(f"'{text}' is not {dimension.name}; write a number and one of {dimension.allowed}")
    number, unit = match.groups()
    if unit == "" and not dimension.bare:
        raise ValueError(f"'{text}' has no unit; allowed: {dimension.allowed}")
    if unit and unit not in dimension.factors:
        raise ValueError(f"'{unit}' is not a unit of {dimension.name}; allowed: {dimension.allowed}")
    return Quantity(Fraction(number), unit or dimension.base, dimension)


def parse(text: object, dimension: Dimension) -> int | float:
    """Read a number with its unit and return it in the base unit; raise ValueError as `parse_quantity` does."""
    return parse_quantity(text, dimension).in_base()


_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_IEC_PREFIXES = ((2**60, "Ei"), (2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
# Units that follow a prefix without a blank: `12.5 Mpps`, but `3.1 M polls/s`.
_JOINT = ("pps", "bit/s", "B/s", "B", "W", "Hz")
# Numbers nearer to zero are rounding noise and print as "about 0".
_NEXT_TO_NOTHING = 1e-6
# Smaller probabilities print as "< 0.0001".
_LEAST_P = 0.0001
_SINGULAR = {"packets": "packet", "reads": "read", "ticks": "tick", "clocks": "clock", "cycles": "cycle"}


def human_number(value: float, digits: int = 3) -> str:
    """Return a number in plain decimal notation, whatever its size: `0.00012`, `12.5`, `1,234`, `1,550,000`.

    Below a million, digits before the decimal point are never rounded. NaN prints as `absent`, infinity as `unbounded`.
    """
    if math.isnan(value):
        return "absent"
    if math.isinf(value):
        return "unbounded"
    if value == 0:
        return "0"  # also of a negative value
    if abs(value) < _NEXT_TO_NOTHING:
        return "about 0"
    rounded = value if 10**digits <= abs(value) < 1e6 else float(f"{value:.{digits}g}")
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{rounded:,.0f}"
    return f"{Decimal(f'{rounded:.{digits}g}'):,f}"


def human(value: float, unit: str, digits: int = 3, like: float | None = None) -> str:
    """Return an amount with an SI prefix before the unit: 12500000, 'pps' -> '12.5 Mpps'.

    `like`: use the prefix of this amount, so that neighbouring amounts share one.
    """
    if not math.isfinite(value):
        return human_number(value)
    for factor, prefix in _PREFIXES:
        if abs(float(f"{value if like is None else like:.{digits}g}")) >= factor:
            joint = "" if unit in _JOINT else " "
            return f"{human_number(value / factor, digits)} {prefix}{joint}{unit}".rstrip()
    return with_unit(human_number(value, digits), unit)


def with_unit(number: str, unit: str) -> str:
    """Return a number and its unit, in the singular after 1, and without unit after `absent` and `unbounded`."""
    if number in ("absent", "unbounded"):
        return number
    head, slash, rest = unit.partition("/")
    return f"{number} {_SINGULAR.get(head, head) if number == '1' else head}{slash}{rest}".rstrip()


def counted(count: float, noun: str) -> str:
    """Return a count and its noun: `1 queue`, `1,024 queues`."""
    return f"{human_number(count, 6)} {noun}{'' if count == 1 else 's'}"


def human_rate(pps: float) -> str:
    """Return a packet rate: `3.14 Mpps`."""
    return human(pps, "pps")


def human_size(size_bytes: float, digits: int = 3) -> str:
    """Return a memory size with an IEC prefix: `1.5 GiB`."""
    for factor, prefix in _IEC_PREFIXES:
        if round(abs(size_bytes) / (factor / 2**10)) >= 2**10:
            return f"{human_number(size_bytes / factor, digits)} {prefix}B"
    return f"{size_bytes:.0f} B"


def human_time(seconds: float) -> str:
    """Return a duration: `450 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 or seconds == 0 else human_ns(seconds * 1e9)
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def human_ns(value_ns: float, like: float | None = None, digits: int = 3) -> str:
    """Return nanoseconds in a readable unit: 1500 -> '1.5 us'; three digits suit measured times.

    `like`: use the unit of this time, so that neighbouring times share one.
    """
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if math.isfinite(value_ns) and abs(float(f"{value_ns if like is None else like:.{digits}g}")) >= factor:
            return f"{human_number(value_ns / factor, digits)} {unit}"
    return with_unit(human_number(value_ns, digits), "ns")


def human_p(probability: float) -> str:
    """Return the p-value of a statistical test: `p = 0.031`, `p < 0.0001`."""
    return f"p < {_LEAST_P}" if probability < _LEAST_P else f"p = {human_number(probability, 2)}"


def human_share(share: float, digits: int = 3) -> str:
    """Return a share in percent: `41.3 %`."""
    return with_unit(human_number(100 * share, digits), "%")
