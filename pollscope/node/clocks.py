# SPDX-License-Identifier: BSD-3-Clause
"""Check whether the CPUs of a node have one clock, by the node's measurement at its start (`tsc_offsets` of its hello).

Windows are cut by the main lcore's TSC, and the generator reads both ends of a latency on its own lcore. A constant
offset therefore only shifts windows against each other, which is reported. A moving offset makes latencies wrong, which
are then refused.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pollscope.base.units import human_ns

_Hello = Mapping[str, Any]


def clocks(hello: _Hello, cpus: Collection[int]) -> dict[str, Any]:
    """Return `result.clocks` of a trial on these CPUs (docs/internals/store-format.md); empty if not recorded."""
    if "tsc_offsets" not in hello:
        return {}
    found = [offset for offset in hello["tsc_offsets"]["cpus"] if offset["cpu"] in cpus]
    reasons = [text for offset in found if (text := _what_is_wrong(offset, hello))]
    if not reasons:
        return {"shared": True}
    moves = any("absent" not in offset and offset["low_cycles"] > offset["high_cycles"] for offset in found)
    return {"shared": False, "steady": not moves, "reason": "; ".join(reasons)}


def clock_warnings(hello: _Hello, prefix: str = "") -> list[str]:
    """Return one sentence for each CPU whose TSC may differ from the main lcore's; `prefix` names the host."""
    cpus = hello.get("tsc_offsets", {}).get("cpus", [])
    return [f"{prefix}{text}" for offset in cpus if (text := _what_is_wrong(offset, hello))]


def _what_is_wrong(offset: Mapping[str, Any], hello: _Hello) -> str | None:
    of = f"the TSC of CPU {offset['cpu']}"
    reference = f"that of CPU {hello['tsc_offsets']['reference_cpu']}"
    if "absent" in offset:
        return f"{of} could not be compared with {reference}: {offset['absent']}"
    low, high = offset["low_cycles"], offset["high_cycles"]
    if low > high:
        return (
            f"{of} does not keep its distance from {reference}: it moved by at least {low - high} cycles within "
            f"{offset['rounds']} messages, so no latency is reliable"
        )
    if low <= 0 <= high:
        return None
    middle, bound = (low + high) / 2, (high - low) / 2
    side, offset_ns = "ahead of" if middle > 0 else "behind", abs(middle) / hello["tsc_hz"] * 1e9
    return (
        f"{of} is {abs(middle):.0f} cycles {side} {reference} (+-{bound:.0f}, half of a message's round trip), "
        f"{human_ns(offset_ns)}: the windows of their lcores are shifted by that, and so is all that is read on one "
        "and compared on the other"
    )
