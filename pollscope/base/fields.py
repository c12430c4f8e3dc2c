# SPDX-License-Identifier: BSD-3-Clause
"""Read values from user files: numbers with units, frame sizes and mixes, and lists or ranges of levels."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from pollscope.base import units
from pollscope.base.names import PLACEMENTS
from pollscope.base.units import Dimension, Quantity, human_share

# RFC 2544 counts the CRC in a frame's size; drivers do not.
FCS_BYTES = 4
# Simple IMIX as Ethernet frames with FCS: IP packets of 40, 576 and 1500 bytes in the proportion 7:4:1.
IMIX = {64: 7, 594: 4, 1518: 1}
FRAME_MIN_BYTES, FRAME_MAX_BYTES = 64, 9000
# A range with more levels than this is probably a typing error.
_MAX_LEVELS = 4096
# So are larger values: a window of a day, the rate of a thousand 800 Gbit/s links.
_DAY_NS = 86_400 * 10**9
_MAX_PPS = 1e12
# Limits of the node (docs/internals/node-protocol.md, `hiccup` and `queue_weights`).
_MAX_DELAYS = 1024
MAX_WEIGHTS, WEIGHT_MAX = 64, 1000


class StrictModel(BaseModel):
    """Base class of the models of files: frozen, without unknown keys, without silent conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


def _reader(dimension: Dimension) -> BeforeValidator:
    def read(value: object) -> int | float:
        return units.parse(value, dimension)

    return BeforeValidator(read)


def _schema(dimension: Dimension, example: str) -> WithJsonSchema:
    text = {
        "type": "string",
        "pattern": rf"^\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*({'|'.join(dimension.factors)})\s*$",
        "examples": [example],
    }
    return WithJsonSchema({"anyOf": [text, {"type": "number"}]} if dimension.bare else text)


class OneOf:
    """A type whose values are the words that a function returns: `Annotated[str, OneOf(papers)]`."""

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        return core_schema.literal_schema(list(self._words()))


Nanoseconds = Annotated[int, units.TIME, _reader(units.TIME), Field(ge=0, le=_DAY_NS), _schema(units.TIME, "100 ms")]
WindowNs = Annotated[int, units.TIME, _reader(units.TIME), Field(ge=1_000_000, le=_DAY_NS), _schema(units.TIME, "1 s")]
IntervalNs = Annotated[
    int, units.TIME, _reader(units.TIME), Field(ge=10_000_000, le=3_600_000_000_000), _schema(units.TIME, "100 ms")
]
Share = Annotated[float, units.SHARE, _reader(units.SHARE), Field(ge=0), _schema(units.SHARE, "25 %")]


def _at_most_all(share: float) -> float:
    if not 0 <= share <= 1:
        raise ValueError(f"must be from 0 % to 100 %, not {human_share(share, 6)}")
    return share


Probability = Annotated[
    float, units.SHARE, _reader(units.SHARE), AfterValidator(_at_most_all), _schema(units.SHARE, "5 %")
]
PacketRate = Annotated[float, units.RATE, _reader(units.RATE), Field(ge=0, le=_MAX_PPS), _schema(units.RATE, "3 Mpps")]
Footprint = Annotated[int, units.SIZE, _reader(units.SIZE), Field(ge=1536, le=2**42), _schema(units.SIZE, "32 MiB")]
FlowSize = Annotated[int, units.SIZE, _reader(units.SIZE), Field(ge=1, le=2**44), _schema(units.SIZE, "100 kB")]
TaskData = Annotated[int, units.SIZE, _reader(units.SIZE), Field(ge=0, le=2**20), _schema(units.SIZE, "4 KiB")]
Cycles = Annotated[
    int, units.CYCLES, _reader(units.CYCLES), Field(ge=0, le=10**8), _schema(units.CYCLES, "2000 cycles")
]


def _frame_bytes(text: object) -> int:
    size = int(units.parse(text, units.SIZE))
    if not FRAME_MIN_BYTES <= size <= FRAME_MAX_BYTES:
        raise ValueError(f"a frame has {FRAME_MIN_BYTES} to {FRAME_MAX_BYTES} bytes with FCS, not {size}")
    return size


def _mix_entry(entry: object) -> tuple[int, int]:
    if not isinstance(entry, Mapping) or set(entry) != {"size", "weight"}:
        raise ValueError("an entry of a frame mix is {size: 64 B, weight: 7}")
    weight = entry["weight"]
    if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
        raise ValueError(f"the weight of a frame size is a whole number of at least 1, not {weight!r}")
    return _frame_bytes(entry["size"]), weight


def read_frame(value: object) -> int | str:
    """Read `64 B`, `imix` or a list of {size, weight}; return bytes, `imix` or `64:7,594:4` (size:weight).

    Raises:
        ValueError: a size outside 64..9000 B, or an entry of another form.
    """
    if value == "imix":
        return "imix"
    if isinstance(value, list):
        if not value:
            raise ValueError("a frame mix needs at least one {size, weight}")
        return ",".join(f"{size}:{weight}" for size, weight in map(_mix_entry, value))
    return _frame_bytes(value)


def frame_mix(frame: int | str) -> list[dict[str, int]]:
    """Return the frame sizes and weights of a resolved `frame` in the form of the node protocol."""
    if isinstance(frame, int):
        return [{"bytes": frame, "weight": 1}]
    if frame == "imix":
        return [{"bytes": size, "weight": weight} for size, weight in IMIX.items()]
    pairs = (entry.split(":") for entry in frame.split(","))
    return [{"bytes": int(size), "weight": int(weight)} for size, weight in pairs]


_FRAME_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": r"^(imix|\d+ ?B)$", "examples": ["64 B", "imix"]},
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"size": {"type": "string"}, "weight": {"type": "integer", "minimum": 1}},
                "required": ["size", "weight"],
                "additionalProperties": False,
            },
        },
    ]
}
Frame = Annotated[int | str, BeforeValidator(read_frame), WithJsonSchema(_FRAME_SCHEMA)]


def _read_placement(value: object) -> str:
    """Read a policy or a list of CPUs; return the policy, or `2,3`."""
    if value in PLACEMENTS:
        return str(value)
    if not isinstance(value, list) or not value:
        raise ValueError(f"is one of {', '.join(PLACEMENTS)}, or a list of CPUs [2, 3], not {value!r}")
    bad = [cpu for cpu in value if isinstance(cpu, bool) or not isinstance(cpu, int) or cpu < 0]
    if bad:
        raise ValueError(f"{bad[0]!r} is not the number of a CPU")
    twice = [cpu for cpu in value if value.count(cpu) > 1]
    if twice:
        raise ValueError(f"CPU {twice[0]} is listed twice; every lcore needs one of its own")
    return ",".join(map(str, value))


_PLACEMENT_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": list(PLACEMENTS)},
        {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
    ]
}
Placement = Annotated[str, BeforeValidator(_read_placement), WithJsonSchema(_PLACEMENT_SCHEMA)]


def _read_delays(value: object) -> str:
    """Read a list of times; return `1000,50000` (ns)."""
    if not isinstance(value, list) or not value:
        raise ValueError("is a list of times [1 us, 100 us]")
    delays = [int(units.parse(each, units.TIME)) for each in value]
    if min(delays) < 0:
        raise ValueError("a delay is not negative")
    if len(delays) > _MAX_DELAYS:
        raise ValueError(f"has at most {_MAX_DELAYS} times, not {len(delays)}")
    return ",".join(map(str, delays))


def delays_ns(delays: str) -> list[int]:
    """Return the times of a resolved list of delays, ns."""
    return [int(delay) for delay in delays.split(",")]


_DELAYS_SCHEMA = {"type": "array", "minItems": 1, "items": {"type": "string", "examples": ["100 us"]}}
Delays = Annotated[str, BeforeValidator(_read_delays), WithJsonSchema(_DELAYS_SCHEMA)]


def _read_weights(value: object) -> str:
    """Read a list of weights; return `3,1`."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_WEIGHTS:
        raise ValueError(f"is a list of 1 to {MAX_WEIGHTS} weights [3, 1]")
    bad = [each for each in value if isinstance(each, bool) or not isinstance(each, int) or not 1 <= each <= WEIGHT_MAX]
    if bad:
        raise ValueError(f"a weight is a whole number from 1 to {WEIGHT_MAX}, not {bad[0]!r}")
    return ",".join(map(str, value))


def weights_of(weights: str) -> tuple[int, ...]:
    """Return the weights of a resolved list."""
    return tuple(int(weight) for weight in weights.split(","))


_WEIGHTS_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_WEIGHTS,
    "items": {"type": "integer", "minimum": 1, "maximum": WEIGHT_MAX},
}
Weights = Annotated[str, BeforeValidator(_read_weights), WithJsonSchema(_WEIGHTS_SCHEMA)]


def _power_of_two(size: int) -> int:
    if size & (size - 1):
        raise ValueError(f"must be a power of two, not {size}")
    return size


RingSize = Annotated[int, Field(ge=2, le=2**20), AfterValidator(_power_of_two)]


def expand_levels(value: object) -> object:
    """Return the levels of a range as a spec would write them; return a list as it is.

    Ranges: {from, to, step} is linear; {from, to, times} multiplies; {from, to, per_octave} has n levels per doubling.
    `to` is always a level. Whole numbers stay whole, so neighbouring levels may be equal; equal levels are merged.

    Raises:
        ValueError: neither a list nor one of the three ranges, or a range that does not lead from `from` to `to`.
    """
    if not isinstance(value, Mapping):
        return _listed(value)
    how = set(value) - {"from", "to"}
    if not {"from", "to"} <= set(value) or len(how) != 1 or not how <= set(_RANGES):
        raise ValueError("a range is {from, to, step}, {from, to, times} or {from, to, per_octave}")
    first, unit = _number(value["from"])
    last = _in_unit(value["to"], unit, "to")
    if first > last:
        raise ValueError("a range goes upwards: 'from' is at most 'to'")
    kind = how.pop()
    steps = _RANGES[kind](first, last, value[kind], unit)
    return [_written(step, unit, whole=first.denominator == 1) for step in dict.fromkeys(steps)]


def _listed(value: object) -> object:
    if not isinstance(value, list):
        raise ValueError("the levels are a list [1, 2, 4] or a range {from: 1, to: 8, step: 1}")
    if not value:
        raise ValueError("a factor needs at least one level")
    return value


def _number(text: object) -> tuple[Fraction, str]:
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError(f"'{text}' is not a number")
    dimension = _dimension(str(text).strip().lstrip("+-.0123456789eE "))
    quantity = units.parse_quantity(text, dimension)
    return quantity.value, quantity.unit


def _dimension(unit: str) -> Dimension:
    known = (units.TIME, units.SIZE, units.RATE, units.SHARE, units.CYCLES)
    return next((each for each in known if unit in each.factors), Dimension("a number", "", {}, whole=False, bare=True))


def _in_unit(text: object, unit: str, key: str) -> Fraction:
    value, own = _number(text)
    if own == unit:
        return value
    dimension = _dimension(unit)
    if own not in dimension.factors:
        raise ValueError(f"'{key}' has a unit of the same kind as 'from', not '{own}' beside '{unit}'")
    return Quantity(value, own, dimension).to(unit)


def _linear(first: Fraction, last: Fraction, step: object, unit: str) -> list[Fraction]:
    size = _in_unit(step, unit, "step")
    if size <= 0:
        raise ValueError("'step' is above 0")
    _check_count((last - first) / size)
    levels = [first + i * size for i in range(int((last - first) / size) + 1)]
    return levels if levels[-1] == last else [*levels, last]


def _geometric(first: Fraction, last: Fraction, times: object, _unit: str) -> list[Fraction]:
    ratio, ratio_unit = _number(times)
    if ratio <= 1 or ratio_unit or first <= 0:
        raise ValueError("'times' is a number above 1, and 'from' is above 0")
    levels = [first]
    while levels[-1] * ratio < last:
        _check_count(Fraction(len(levels)))
        levels.append(levels[-1] * ratio)
    return levels if levels[-1] == last else [*levels, last]


def _octaves(first: Fraction, last: Fraction, per_octave: object, unit: str) -> list[Fraction]:
    if isinstance(per_octave, bool) or not isinstance(per_octave, int) or not 1 <= per_octave <= 64 or first <= 0:
        raise ValueError("'per_octave' is a whole number from 1 to 64, and 'from' is above 0")
    whole = first.denominator == 1 and unit in ("", "B")  # counts and bytes have no fractions
    levels, index = [first], 1
    while (level := first * Fraction(2 ** (index / per_octave))) < last:
        levels.append(Fraction(round(level)) if whole else level.limit_denominator(10**6))
        index += 1
    return levels if levels[-1] == last else [*levels, last]


_RANGES: dict[str, Callable[[Fraction, Fraction, object, str], list[Fraction]]] = {
    "step": _linear,
    "times": _geometric,
    "per_octave": _octaves,
}


def _check_count(count: Fraction) -> None:
    if count >= _MAX_LEVELS:
        raise ValueError(f"the range has more than {_MAX_LEVELS} levels")


def _written(value: Fraction, unit: str, whole: bool) -> Any:
    if value.denominator == 1 and whole:
        number: int | float = int(value)
    else:
        number = float(value)
    return f"{number!r} {unit}" if unit else number
