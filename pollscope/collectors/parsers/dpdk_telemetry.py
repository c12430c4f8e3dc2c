# SPDX-License-Identifier: BSD-3-Clause
"""Replies of DPDK's telemetry socket (version 2): one JSON object per reply, `{"/command": result}`.

A command that this DPDK does not know, a parameter that is wrong, and an application without the callback all answer
`null`; the value is then absent. The arrays `q_ipackets[16]` of old /ethdev/stats have 16 entries for any number of
queues and are ignored: /ethdev/xstats names the queues that exist.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import WRAPPED_64, Origin, clean, parse_cell, without_mark
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, absent, reading

_QUEUE = re.compile(r"(rx|tx)_q(\d+)_?(.+)")
_NORMALISED = counter_names("dpdk-telemetry")
_LCORE = SourceMetric("busy_share", "1", Kind.GAUGE)
_PROMPT = "-->"
_SESSION = (_PROMPT, "Connecting to ", "Connected to application: ")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read replies, one per line; `origin.label` is the request (`/ethdev/stats,0`: its parameter is the port).

    A session of dpdk-telemetry.py is read too: its prompt names the request, and a reply may be spread over lines.

    Raises:
        ParseError: a line that is not a JSON object.
    """
    found, request = False, origin.label
    for number, text in _joined(lines, origin):
        if text.startswith(_PROMPT):
            request = text.removeprefix(_PROMPT).strip()
        if text.startswith(_SESSION):
            continue
        try:
            reply: Any = json.loads(text)
        except (json.JSONDecodeError, RecursionError, ValueError):
            raise origin.refuse(
                number, f"no JSON: {text[:60]!r}", "a reply longer than max_output_len is cut by the application"
            ) from None
        if not isinstance(reply, dict):
            raise origin.refuse(number, "the reply is no JSON object", "record whole replies of the telemetry socket")
        found = True
        for command, result in reply.items():
            yield from _reply(command, result, request, origin)
    if not found:
        raise origin.refuse(0, "no reply in it", "record whole replies of the telemetry socket")


def _joined(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, str]]:
    """Yield lines that are not blank; join an indented document, from a lone brace to a lone brace, into one."""
    held: list[str] = []
    first = 0
    for number, line in enumerate(without_mark(lines, origin), 1):
        text = clean(line).rstrip()
        if text == "{" and not held:
            held, first = [text], number
        elif held:
            held.append(text)
            if text == "}":
                yield first, "".join(held)
                held = []
        elif text:
            yield number, text.strip()
    if held:
        yield first, "".join(held)


def _reply(command: str, result: Any, request: str, origin: Origin) -> Iterator[Reading]:
    t_ns = origin.now()
    parameter = request.partition(",")[2].partition(",")[0]
    port = f"port{parameter}" if parameter.isdigit() else "port"
    if result is None:
        reason = "the application answers null: unknown to its DPDK version, wrong parameter, or no callback registered"
        yield absent(t_ns, "application", [SourceMetric(command.strip("/").replace("/", "."), "", Kind.STATE)], reason)
    elif command == "/ethdev/stats" and isinstance(result, dict):
        yield reading(t_ns, port, _counters(result))
    elif command == "/ethdev/xstats" and isinstance(result, dict):
        yield from _xstats(t_ns, port, result)
    elif command == "/eal/lcore/usage" and isinstance(result, dict):
        yield from _usage(t_ns, result)
    elif command == "/eal/lcore/info" and isinstance(result, dict):
        lcore = {key: [result[key]] for key in ("total_cycles", "busy_cycles") if key in result}
        yield from _usage(t_ns, {"lcore_ids": [result.get("lcore_id")], **lcore})
    elif isinstance(result, dict):
        yield reading(t_ns, _subject(command, result, port), _states(command, result))
    elif isinstance(result, (list, str, int, float)):
        metric = SourceMetric(command.strip("/").replace("/", ".") or "commands", "", Kind.STATE)
        yield reading(t_ns, "application", [(metric, _text(result), "")])


def _subject(command: str, result: dict[str, Any], port: str) -> str:
    if command.startswith("/ethdev/"):
        return port
    return f"mempool:{result.get('name', '?')}" if command == "/mempool/info" else "application"


def _counters(result: dict[str, Any]) -> Iterator[tuple[SourceMetric, Value, str]]:
    for name, value in result.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        cell = parse_cell(str(value), wrapped=WRAPPED_64)
        for metric in _metrics(name):
            yield metric, *cell


@lru_cache(maxsize=4096)
def _metrics(name: str) -> list[SourceMetric]:
    """Return the counter under its own name, and also under its normalised name if it has one."""
    unit = "B" if name.endswith(("bytes", "octets")) else "1"
    metrics = [SourceMetric(name, unit, Kind.COUNTER)]
    normal = _NORMALISED.get(name)
    if normal:
        gauge = normal.endswith("percent")
        metrics.append(SourceMetric(normal, "%" if gauge else unit, Kind.GAUGE if gauge else Kind.COUNTER))
    return metrics


def _xstats(t_ns: int | None, port: str, result: dict[str, Any]) -> Iterator[Reading]:
    """Return counters by queue: `rx_q0_packets` (ethdev) and `rx_q0packets` (older) belong to rx_queue0."""
    units: dict[str, dict[str, Any]] = {port: {}}
    for name, value in result.items():
        queue, counter = _place(name)
        units.setdefault(f"{port}/{queue}" if queue else port, {})[counter] = value
    for path, values in units.items():
        if values:
            yield reading(t_ns, path, _counters(values))


@lru_cache(maxsize=16384)
def _place(name: str) -> tuple[str, str]:
    """Return the queue (empty: the port itself) and the counter's name there."""
    match = _QUEUE.fullmatch(name)
    return (f"{match[1]}_queue{match[2]}", match[3]) if match else ("", name)


def _usage(t_ns: int | None, result: dict[str, Any]) -> Iterator[Reading]:
    """Read busy and total TSC cycles per lcore, as the application counts them (testpmd: --record-core-cycles)."""
    columns = [result.get(key) for key in ("lcore_ids", "total_cycles", "busy_cycles")]
    lists = [column if isinstance(column, list) else [] for column in columns]
    for lcore, total, busy in zip(*lists, strict=False):
        cells = [parse_cell(str(value), wrapped=WRAPPED_64) for value in (total, busy)]
        numbers = [value for value, _ in cells]
        share = numbers[1] / numbers[0] if numbers[0] and numbers[1] is not None else None
        yield reading(
            t_ns,
            f"lcore{lcore}",
            [
                (SourceMetric("total_cycles", "cycles", Kind.COUNTER), *cells[0]),
                (SourceMetric("busy_cycles", "cycles", Kind.COUNTER), *cells[1]),
                (_LCORE, share, "no cycles counted yet"),
            ],
        )


def _states(command: str, result: dict[str, Any]) -> Iterator[tuple[SourceMetric, Value, str]]:
    """Yield settings: numbers as numbers, lists and hexadecimal flags (int in 22.11, text later) as text."""
    for name, value in result.items():
        metric = SourceMetric(f"{command.strip('/').replace('/', '.')}.{name}", "", Kind.STATE)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and not math.isfinite(value):
            yield metric, None, f"not finite: {value}"
        else:
            yield metric, value if number else _text(value), ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
