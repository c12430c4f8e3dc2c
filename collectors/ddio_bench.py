# SPDX-License-Identifier: BSD-3-Clause
"""Result tables of ddio-bench: `ways rate rate ...`, hit rates in percent of repeated runs per number of IIO LLC ways.

They are published reference measurements (SKX, 11 ways), used to check the direction of DDIO effects.
"""

from collections.abc import Iterable, Iterator

from .parsing import Origin, clean, parse_cell, scaled, without_mark
from .sample import Kind, Metric, Reading, reading

_HIT = Metric("hit_share", "1", Kind.GAUGE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """A reading a run; the unit path is the number of ways.

    Raises:
        ParseError: a row that does not begin with a number of ways, or no row.
    """
    found = False
    for number, line in enumerate(without_mark(lines, origin), 1):
        # a finished result file, not a log that grows: its last line needs no newline
        text = clean(line)
        ways, *rates = text.split() or [""]
        if not ways:
            continue
        if not ways.isdigit() or not rates:
            raise origin.refuse(
                number, f"no row 'ways rate rate ...': {text[:40]!r}", "give a result table of ddio-bench"
            )
        found = True
        for run, rate in enumerate(rates):
            yield reading(None, f"ways{ways}/run{run}", [(_HIT, *scaled(parse_cell(rate), 0.01))])
    if not found:
        raise origin.refuse(0, "empty", "give a result table of ddio-bench")
