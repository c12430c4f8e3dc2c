# SPDX-License-Identifier: BSD-3-Clause
"""Records of /dev/kmsg (format in the kernel's dev-kmsg document)."""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

_MESSAGE, _LEVEL = SourceMetric("message", "", Kind.STATE), SourceMetric("level", "1", Kind.STATE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read records `priority,sequence,microseconds,flags;text`; indented continuation lines are ignored.

    The time of a record is the kernel's own (CLOCK_MONOTONIC since boot), also when the record was read later.
    """
    for number, text in numbered(lines, origin):
        match = re.fullmatch(r"(\d{1,4}),\d+,(\d{1,18}),[^;]*;(.*)", text)
        if match:
            yield reading(int(match[2]) * 1000, "system", [(_LEVEL, int(match[1]) & 7, ""), (_MESSAGE, match[3], "")])
        elif text and not text.startswith(" "):
            origin.leave_out(number, f"no record of /dev/kmsg: {text[:60]!r}")
