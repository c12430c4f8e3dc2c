# SPDX-License-Identifier: BSD-3-Clause
"""Ways of the LLC as people write them, for whatever sets them."""

from pollscope.knobs.base import Knob, parse_whole

MOST_WAYS = 20
FEWEST_WAYS = 2  # no published setting goes below the two ways of the reset value


def parse_ways(knob: type[Knob], value: object) -> str:
    """Parse a number of ways ("4 ways") or a mask ("0x600")."""
    text = str(value).strip()
    # YAML hands over 0x600 as a number; no mask of two or more ways is as small as a number of ways.
    is_mask = text.startswith("0x") or (isinstance(value, int) and value > MOST_WAYS)
    if is_mask:
        return f"{parse_whole(knob, value, 1, (1 << MOST_WAYS) - 1):#x}"
    count = parse_whole(knob, value if isinstance(value, bool) else text.removesuffix("ways"), FEWEST_WAYS, MOST_WAYS)
    return f"{count} ways"


def mask_of(value: str, ways: int) -> int:
    """Return the mask of a value of parse_ways() for a cache with `ways` ways; 0 if it has fewer than needed."""
    return ways_mask(int(value.split()[0]), ways) if value.endswith("ways") else int(value, 16)


def ways_mask(count: int, ways: int) -> int:
    """Return the `count` highest of `ways` bits; 0 if there are fewer."""
    return ((1 << count) - 1) << (ways - count) if count <= ways else 0
