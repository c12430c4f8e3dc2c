# SPDX-License-Identifier: BSD-3-Clause
"""Contradictions between the parameters of a point, which no testbed could resolve; most are data."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from ruamel.yaml import YAML

from pollscope.base.fields import delays_ns, frame_mix
from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES, WORKLOADS
from pollscope.base.paths import data_folder
from pollscope.base.units import human_time
from pollscope.host.cpus import listed_cpus
from pollscope.spec import lcores
from pollscope.spec.expressions import Expression, parse
from pollscope.spec.model import Parameters, Spec
from pollscope.spec.points import all_points, dropped

# The wrong key, and what is wrong.
_Contradiction = tuple[str, str]

# Limit of the node (docs/internals/node-protocol.md, `hiccup`).
_MOST_HICCUP_NS = 10**9
# Keys that only notification qwait uses.
OF_QWAIT = ("service_order", "queue_weights", "ready_set", "ready_set_sharing", "idle")
# Next hops of its routing table: forward, drop, encrypt (apps/node/workload/ipsec.c).
_IPSEC_ROUTES = 3
_WORKLOAD_PARAMETERS = tuple(dict.fromkeys(name for each in WORKLOADS.values() for name in each.parameters))
# A frame that ends behind the generator's stamp (apps/lib/packets.h), with FCS.
_STAMPED_FRAME_BYTES = 64
# Workloads that process the bytes behind the stamp, and the bytes that they add (apps/node/workload).
_PAYLOAD_TASKS = frozenset({"crypto", "rs", "raid", "dispatch"})
CODER_BLOCK_BYTES, AES_BLOCK_BYTES, RPC_CALL_BYTES = 32, 16, 44
# Header and FCS.
_ETHERNET_BYTES = 18
_FIELDS = tuple(name for name in Parameters.model_fields if name not in ("load_of_max", "load_of_line", "load_pps"))


def contradictions(spec: Spec) -> Iterator[_Contradiction]:
    """Yield the contradictions of the points that the spec does not drop itself, each once."""
    seen, judged = set[_Contradiction](), set[str]()
    for point in all_points(spec):
        # Points that differ in their load alone contradict themselves alike, unless it fills a period.
        load_pps = point.params.load_pps if point.params.arrivals == "on-off" else None
        read = repr([load_pps, *(getattr(point.params, name) for name in _FIELDS)])
        if read in judged or dropped(spec, point) is not None:
            continue
        judged.add(read)
        of_code = (check(point.params, spec) for check in (_workload_keys, _payload, _hiccup))
        for found in (*_by_rules(point.params, spec), *of_code):
            if found is not None and found not in seen:
                seen.add(found)
                yield found


def _by_rules(params: Parameters, spec: Spec) -> Iterator[_Contradiction]:
    """Yield the contradictions of one point by configs/contradictions.yaml."""
    values: dict[str, Any] = {name: "none" if value is None else value for name, value in params}
    values |= {
        "dispatching": lcores.dispatchers(params),
        "dut_lcores": lcores.dut_lcores(params),
        "has_generator": lcores.has_generator(params),
        "sharing": params.organisation in SHARED_QUEUES,
        "receives": params.workload not in RECEIVE_NOTHING,
        "waits_after": params.waits_after,
        "listed": len(listed_cpus(params.placement)),
        "rx_desc_bits": params.rx_desc.bit_count(),
        "tx_desc_bits": params.tx_desc.bit_count(),
        "frame_sizes": len(frame_mix(params.frame)),
        "swept": list(spec.levels),
    }
    given = [name for name in _FIELDS if getattr(params, name) != Parameters.model_fields[name].default]
    for choice in ("organisation", "rx_buffers", "notification"):
        values[f"vain_{choice}"] = [name for name in given if _in_vain(params, spec, name, choice)]
    for rules in _rules():
        for key, when, say in rules:
            values["key"] = key
            if when(values):
                yield key, say.format(**values)
                break


@cache
def _rules() -> list[list[tuple[str, Expression, str]]]:
    """Return key, condition and sentence of each rule, by group; a rule with several keys is several rules."""
    groups = YAML(typ="safe").load(data_folder("configs") / "contradictions.yaml").values()
    return [
        [
            (key, parse(each["when"]), each["say"])
            for each in rules
            for key in ([each["key"]] if isinstance(each["key"], str) else each["key"])
        ]
        for rules in groups
    ]


def _in_vain(params: Parameters, spec: Spec, name: str, choice: str) -> bool:
    """Return whether a parameter was given that this choice does not use; of swept choices another may use it."""
    other = getattr(params, name) != Parameters.model_fields[name].default
    return other and (name in spec.levels or choice not in spec.levels)


def _workload_keys(params: Parameters, spec: Spec) -> _Contradiction | None:
    """Find a parameter that the workload does not read."""
    own = WORKLOADS[params.workload].parameters
    for name in _WORKLOAD_PARAMETERS:
        if name not in own and _in_vain(params, spec, name, "workload"):
            those = ", ".join(sorted(each for each in WORKLOADS if name in WORKLOADS[each].parameters))
            return name, f"the workload {params.workload} does not use it; it is for {those}"
    if params.workload == "ipsec" and params.routes < _IPSEC_ROUTES:
        return "routes", f"ipsec decides by routes, so it needs at least {_IPSEC_ROUTES}, not {params.routes}"
    return None


def grown_frame_bytes(params: Parameters, frame_bytes: int) -> int:
    """Return the size of the frame that leaves a task, with FCS; frames without bytes behind the stamp are dropped."""
    payload, buffers = frame_bytes - _STAMPED_FRAME_BYTES, params.task_buffers
    block = -(-payload // (buffers * CODER_BLOCK_BYTES)) * CODER_BLOCK_BYTES
    more = {
        "crypto": AES_BLOCK_BYTES + AES_BLOCK_BYTES - payload % AES_BLOCK_BYTES,
        "rs": params.parity_buffers * block,
        "raid": 2 * block,
        "dispatch": RPC_CALL_BYTES + -payload % 4,
    }
    return frame_bytes + more.get(params.workload, 0)


def _payload(params: Parameters, _spec: Spec) -> _Contradiction | None:
    """Check that a payload task has a payload and its output fits the TX port (apps/node/workload/payload.h)."""
    if params.workload not in _PAYLOAD_TASKS or params.trace is not None:
        return None
    sizes = [entry["bytes"] for entry in frame_mix(params.frame)]
    if min(sizes) <= _STAMPED_FRAME_BYTES:
        return "frame", (
            f"the workload {params.workload} works on what lies behind the generator's stamp: "
            f"a frame needs more than {_STAMPED_FRAME_BYTES} B"
        )
    grown = max(grown_frame_bytes(params, size) for size in sizes)
    if grown > params.mtu + _ETHERNET_BYTES:
        return "frame", (
            f"{max(sizes)} B leave the workload {params.workload} as {grown} B, "
            f"for which mtu has to be {grown - _ETHERNET_BYTES} or more, not {params.mtu}"
        )
    return None


def _hiccup(params: Parameters, spec: Spec) -> _Contradiction | None:
    if not params.hiccup_probability:
        return None
    kind, delays = params.hiccup_distribution, params.hiccup_delays
    key = "hiccup_delays" if kind == "list" else "hiccup_delay"
    longest = params.hiccup_delay if kind != "list" else max(delays_ns(delays)) if delays is not None else None
    if longest is None:
        return "hiccup_probability", f"a hiccup of the distribution '{kind}' needs {key}"
    if longest > _MOST_HICCUP_NS:
        return key, f"a hiccup lasts at most {human_time(_MOST_HICCUP_NS / 1e9)}, not {human_time(longest / 1e9)}"
    if longest > spec.trial.window_ns:
        window = human_time(spec.trial.window_ns / 1e9)
        return key, f"a hiccup of {human_time(longest / 1e9)} is longer than the window of {window}"
    return None
