# SPDX-License-Identifier: BSD-3-Clause
"""Contradictions between the parameters of a point, which no testbed could resolve."""

from collections.abc import Callable, Iterator

from pollscope.base.fields import delays_ns, frame_mix
from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES, WORKLOADS
from pollscope.base.units import human_time
from pollscope.host.cpus import listed_cpus
from pollscope.spec import lcores
from pollscope.spec.model import Parameters, Spec
from pollscope.spec.points import all_points, dropped

# The wrong key, and what is wrong.
_Contradiction = tuple[str, str]

# Limit of the node (docs/internals/node-protocol.md, `hiccup`).
_MOST_HICCUP_NS = 10**9
# Keys that only notification qwait uses.
OF_QWAIT = ("service_order", "queue_weights", "ready_set", "ready_set_sharing", "idle")
# Notifications that need no doorbell.
_UNRUNG = ("spin", "sleep-ramp", "pause")
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
# Limit of the node (docs/internals/node-protocol.md, `nic_stamps_ns`).
_LEAST_NIC_TIMESTAMPS_NS = 100_000


def contradictions(spec: Spec) -> Iterator[_Contradiction]:
    """Yield the contradictions of the points that the spec does not drop itself, each once."""
    seen: set[_Contradiction] = set()
    for point in all_points(spec):
        if dropped(spec, point) is not None:
            continue
        for check in _CHECKS:
            found = check(point.params, spec)
            if found is not None and found not in seen:
                seen.add(found)
                yield found


def _in_vain(params: Parameters, spec: Spec, name: str, choice: str) -> bool:
    """Return whether a parameter was given that this choice does not use; of swept choices another may use it."""
    other = getattr(params, name) != Parameters.model_fields[name].default
    return other and (name in spec.levels or choice not in spec.levels)


def _dispatchers(params: Parameters, _spec: Spec) -> _Contradiction | None:
    organisation, cores, count = params.organisation, params.cores, lcores.dispatchers(params)
    if organisation in (*SHARED_QUEUES, "rebalanced") and count:
        themselves = "the cores poll RX queues themselves, without dispatchers"
        return "dispatchers", f"{organisation}: {themselves}, not with {count}"
    if organisation == "scale-up" and not count:
        return "dispatchers", "scale-up: the ring is filled by at least one dispatcher"
    if organisation == "scale-out" and count not in (0, cores):
        return "dispatchers", f"scale-out: each core has a dispatcher of its own or none has, not {count} for {cores}"
    return None


def _rings(params: Parameters, spec: Spec) -> _Contradiction | None:
    swept = [name for name in ("ring_sync", "ring_size") if name in spec.levels]
    if "ring_sync" in swept and params.ring_sync != "default" and params.organisation != "scale-up":
        return (
            "ring_sync",
            f"{params.ring_sync} is for the ring that cores share: scale-up, not {params.organisation}",
        )
    if "ring_size" in swept and params.ring_size != 1024 and not lcores.dispatchers(params):
        return "ring_size", "without dispatchers there is no ring whose size could be swept"
    return None


def _corec(params: Parameters, _spec: Spec) -> _Contradiction | None:
    """Return what the receive ring of several cores does not support (docs/queue-sharing-and-notification.md)."""
    if params.organisation != "corec":
        return None
    if params.feed != "wire":
        return "feed", f"corec: cores share what the wire brings, not {params.feed}"
    if params.rx_desc & (params.rx_desc - 1):
        return "rx_desc", f"corec: an RX queue has a power of two of descriptors, not {params.rx_desc}"
    return None


def _rebalanced(params: Parameters, spec: Spec) -> _Contradiction | None:
    """Check `organisation: rebalanced`: one queue per core, and traffic that the RETA distributes."""
    if params.organisation != "rebalanced":
        for name in ("rebalance_period", "rebalance_threshold"):
            if _in_vain(params, spec, name, "organisation"):
                return name, f"{name} is for organisation rebalanced; {params.organisation} moves nothing"
        return None
    if params.queues != params.cores:
        return "queues", f"rebalanced: each core has one RX queue, so {params.cores} need as many, not {params.queues}"
    if params.feed != "wire":
        return "feed", f"rebalanced: the RETA spreads what the wire brings, not {params.feed}"
    return None


def _buffers(params: Parameters, spec: Spec) -> _Contradiction | None:
    """Check for buffers apart from the descriptors that frames are delivered to (apps/pmd/crossover.h)."""
    where = params.rx_buffers
    if where == "posted":
        if _in_vain(params, spec, "rx_buffer_pool", "rx_buffers"):
            return "rx_buffer_pool", "rx_buffer_pool is for rx_buffers shared or split; posted buffers have none"
        return None
    if params.rx_buffer_pool > params.rx_desc:
        return (
            "rx_buffer_pool",
            f"{where}: a buffer pool is no larger than rx_desc ({params.rx_desc}), not {params.rx_buffer_pool}",
        )
    for name, wanted in (("feed", "wire"), ("dma", "copy")):
        if getattr(params, name) != wanted:
            return name, f"rx_buffers {where} needs {name} {wanted}, not {getattr(params, name)}"
    if params.organisation == "corec":
        return "organisation", f"corec claims posted buffers; rx_buffers {where} has none"
    if params.notification not in _UNRUNG:
        return "notification", f"{params.notification} needs posted buffers, not rx_buffers {where}"
    return None


def _notification(params: Parameters, spec: Spec) -> _Contradiction | None:
    """Find what a notification does not work with (docs/queue-sharing-and-notification.md)."""
    notification = params.notification
    for name in OF_QWAIT if notification != "qwait" else ():
        if _in_vain(params, spec, name, "notification"):
            return name, f"{name} is for notification qwait; {notification} has none"
    if not params.waits_after and _in_vain(params, spec, "wait_after", "notification"):
        wanted = "notification adaptive, and for qwait with idle sleep"
        here = f"qwait with idle {params.idle}" if notification == "qwait" else notification
        return "wait_after", f"wait_after is for {wanted}, not {here}"
    if notification == "spin":
        return None
    if params.feed != "wire" and notification not in _UNRUNG:
        return "feed", f"{notification}: the sender announces packets, and with feed {params.feed} there is no sender"
    if params.organisation != "scale-out" or lcores.dispatchers(params):
        alone = "cores that read RX queues of their own: scale-out without dispatchers"
        return "notification", f"{notification} is for {alone}"
    if params.accounting != "sampled":
        return "accounting", f"{params.accounting} does not go with notification {notification}; use sampled"
    return _weights(params)


def _weights(params: Parameters) -> _Contradiction | None:
    if params.service_order == "weighted" and params.queue_weights is None:
        return "queue_weights", "service_order weighted needs weights: queue_weights: [3, 1]"
    if params.service_order != "weighted" and params.queue_weights is not None:
        return "queue_weights", f"queue_weights are for service_order weighted; {params.service_order} has none"
    return None


def _accounting(params: Parameters, _spec: Spec) -> _Contradiction | None:
    """Check that each core reads its own RX queues; the node has no other such loops (apps/node/loop/loop.h)."""
    mode = params.accounting
    if mode == "sampled":
        return None
    delays = params.extra_cycles or params.service_distribution != "fixed" or params.hiccup_probability
    counts_more = params.organisation in (*SHARED_QUEUES, "rebalanced")
    if delays or counts_more or lcores.dispatchers(params):
        what = "neither dispatchers, shared or rebalanced queues nor delays"
        return "accounting", f"{mode} goes with {what}; use sampled"
    return None


def _generator_sleep(params: Parameters, _spec: Spec) -> _Contradiction | None:
    if params.generator_sleep and (not lcores.has_generator(params) or params.flow_size is not None):
        return "generator_sleep", "there is no generator here that could sleep"
    return None


def _nic_timestamps(params: Parameters, _spec: Spec) -> _Contradiction | None:
    if not params.nic_timestamps:
        return None
    if params.nic_timestamps < _LEAST_NIC_TIMESTAMPS_NS:
        return "nic_timestamps", "reading a NIC's stamps takes microseconds: 100 us apart at least, or 0 for none"
    if not lcores.has_generator(params) or not params.generator_receives or params.flow_size is not None:
        return "nic_timestamps", "there is no generator here that takes frames back"
    if params.workload != "io":
        return (
            "nic_timestamps",
            f"stamped frames are PTP's, which the workload {params.workload} drops; only io does not",
        )
    return None


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


def _service(params: Parameters, _spec: Spec) -> _Contradiction | None:
    if params.service_distribution != "bimodal":
        return None
    if params.service_long_cycles is None or params.service_long_probability is None:
        missing = "service_long_cycles" if params.service_long_cycles is None else "service_long_probability"
        return "service_distribution", f"bimodal needs {missing}"
    if params.service_long_cycles < params.extra_cycles:
        return "service_long_cycles", f"long packets take at least extra_cycles ({params.extra_cycles})"
    return None


def _placement(params: Parameters, _spec: Spec) -> _Contradiction | None:
    given, needed = listed_cpus(params.placement), lcores.dut_lcores(params)
    if given and len(given) < needed:
        return "placement", f"names {len(given)} CPUs for {needed} DUT lcores"
    return None


def _trace(params: Parameters, _spec: Spec) -> _Contradiction | None:
    """Check that keys that need a trace have one, and that the point can replay a trace."""
    if params.trace is None:
        for key, needs in (("arrivals", params.arrivals == "trace"), ("load_of_trace", params.load_of_trace)):
            if needs:
                return key, "needs a trace (`trace: FILE.pcap`)"
        return None
    if params.shape != "FB":
        return "shape", f"the flows of a trace are spread over all queues (FB), not as {params.shape}"
    if params.feed != "wire" or params.workload in RECEIVE_NOTHING:
        return "trace", "is replayed by the generator, and this point has none"
    return None


def _sends_itself(params: Parameters, _spec: Spec) -> _Contradiction | None:
    workload = params.workload
    if workload not in RECEIVE_NOTHING:
        return None
    if not params.saturate:
        return "workload", f"{workload} sends as fast as it can, so it needs `saturate: true` in parameters"
    if params.organisation != "scale-out" or lcores.dispatchers(params):
        return "organisation", f"the workload {workload} receives nothing, so its cores share no queue"
    return None


_CHECKS: tuple[Callable[[Parameters, Spec], _Contradiction | None], ...] = (
    _dispatchers,
    _rings,
    _corec,
    _rebalanced,
    _buffers,
    _notification,
    _accounting,
    _generator_sleep,
    _nic_timestamps,
    _workload_keys,
    _payload,
    _hiccup,
    _service,
    _placement,
    _trace,
    _sends_itself,
)
