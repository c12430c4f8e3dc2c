# SPDX-License-Identifier: BSD-3-Clause
"""Fill parameters into the arguments of a program that is the DUT (docs/your-program.md).

`{queues}` is the value of a parameter. `{queues:(0,#,1)}` is the text behind the colon once for each number below
that value, with commas in between; `#` is the number. `{cache}` is the cache folder of pollscope. `{eal}`, an
argument of its own, stays, because the testbed replaces it.
"""

import re
from collections.abc import Iterator, Mapping

from pollscope.base.paths import cache_folder

EAL = "{eal}"
_CACHE = "{cache}"
_PLACEHOLDER = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}")


def placeholders(argument: str) -> Iterator[tuple[str, bool]]:
    """Yield the name of each placeholder that stands for a parameter, and whether it repeats a text."""
    for found in _PLACEHOLDER.finditer(argument):
        if found[0] not in (EAL, _CACHE):
            yield found[1], found[2] is not None


def filled(argument: str, values: Mapping[str, object]) -> str:
    """Return an argument with values in place of its placeholders."""
    return argument if argument == EAL else _PLACEHOLDER.sub(lambda found: _value(found, values), argument)


def _value(found: re.Match[str], values: Mapping[str, object]) -> str:
    if found[0] == _CACHE:
        return str(cache_folder())
    value, text = values[found[1]], found[2]
    if text is None:
        return str(value)
    return ",".join(text.replace("#", str(number)) for number in range(int(str(value))))
