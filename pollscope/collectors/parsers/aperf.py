# SPDX-License-Identifier: BSD-3-Clause
"""APERF and MPERF as recorded: `cpuN ADDRESS HEX` lines."""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered
from pollscope.collectors.sample import Kind, Reading, SourceMetric

REGISTERS = {0xE7: "mperf", 0xE8: "aperf"}
_METRICS = {address: SourceMetric(name, "cycles", Kind.COUNTER) for address, name in REGISTERS.items()}
_LINE = re.compile(r"(cpu\d+) 0x([0-9a-f]+) ([0-9a-f]{1,16})")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read the recorded registers.

    Raises:
        ParseError: no register in it.
    """
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text)
        metric = _METRICS.get(int(match[2], 16)) if match else None
        if match is None or metric is None:
            origin.leave_out(number, f"no register: {text[:60]!r}")
            continue
        found = True
        yield Reading(t_ns, match[1], (metric,), (int(match[3], 16),))
    if not found:
        raise origin.refuse(0, "no register in it", "record with: pollscope collect aperf")
