# SPDX-License-Identifier: BSD-3-Clause
"""`lscpu -J`: the processor's description of itself, as states. A field without data is a heading."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pollscope.collectors.parsing import Origin, slug, without_mark
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read one JSON document; nested `children` (util-linux 2.38 and later) are flattened.

    Raises:
        ParseError: not the JSON of lscpu.
    """
    try:
        document: Any = json.loads("".join(without_mark(lines, origin)))
        fields = list(_fields(document["lscpu"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise origin.refuse(1, "not the JSON of lscpu", "record with: lscpu -J") from None
    yield reading(origin.now(), "system", fields)


def _fields(entries: list[dict[str, Any]]) -> Iterator[tuple[SourceMetric, Value, str]]:
    for entry in entries:
        name, data = slug(str(entry["field"])), entry.get("data")
        if data is not None:
            number = int(data) if str(data).isdigit() and str(data).isascii() and len(str(data)) < 16 else None
            yield (
                SourceMetric(name, "1" if number is not None else "", Kind.STATE),
                str(data) if number is None else number,
                "",
            )
        yield from _fields(entry.get("children") or [])
