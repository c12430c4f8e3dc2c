# SPDX-License-Identifier: BSD-3-Clause
"""Define the keys of a spec. The reference is docs/reference-spec.md.

The models are frozen and refuse unknown keys. Fields are named after the keys of the spec file unless they have an
alias. Fields whose name ends in a unit hold base units.
"""

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from pollscope.base.fields import (
    Cycles,
    Delays,
    FlowSize,
    Footprint,
    Frame,
    IntervalNs,
    Nanoseconds,
    OneOf,
    PacketRate,
    Placement,
    Probability,
    RingSize,
    Share,
    StrictModel,
    TaskData,
    Weights,
    WindowNs,
    expand_levels,
)
from pollscope.base.knob_values import KNOB_PREFIX, parse_setting
from pollscope.base.names import TESTBEDS, WORKLOADS, papers
from pollscope.base.units import Dimension
from pollscope.spec.arguments import filled
from pollscope.spec.predicates import NAME_PATTERN, OwnClaim

LOADS = ("load_of_max", "load_of_line", "load_of_trace", "load_pps", "flow_size", "saturate")

ROW_PATTERN = r"^[A-Z][A-Za-z0-9]*([-.][A-Za-z0-9.]+)*$"
_RowId = Annotated[str, Field(pattern=ROW_PATTERN, examples=["S-F5"])]


class Parameters(StrictModel):
    """The parameters of a point; each of them may also be a factor."""

    # The spec's `dut`; copies have it, too.
    _programs: Mapping[str, tuple[str, ...]] = PrivateAttr(default_factory=dict)
    program: str | None = Field(
        default=None, min_length=1, description="program of `dut` to measure; default: the only one"
    )
    node: str | None = Field(
        default=None, min_length=1, description="loopback: path of another build of pollscope-node"
    )
    queues: int = Field(default=1, ge=1, le=1024, description="number of RX queues of the DUT's port")
    cores: int = Field(default=1, ge=1, le=128, description="number of DUT lcores that process packets")
    placement: Placement = Field(
        default="separate", description="CPUs of the DUT's lcores: a policy, or a list of CPU numbers, workers first"
    )
    organisation: Literal["scale-out", "scale-up", "locked", "trylock", "corec", "rebalanced"] = Field(
        default="scale-out", description="how cores share the RX queues"
    )
    rebalance_period: Nanoseconds = Field(
        default=100_000_000,
        ge=10**6,
        le=10**10,
        description="rebalanced: time between two comparisons of the queues' loads",
    )
    rebalance_threshold: Probability = Field(
        default=0.02,
        description="rebalanced: queues move only if the fullest one exceeds the mean by more than this share",
    )
    dispatchers: int | None = Field(
        default=None,
        ge=0,
        le=128,
        description="lcores that poll RX queues and pass packets to the cores; default: `cores` for scale-up, else 0",
    )
    ring_sync: Literal["default", "rts", "hts"] = Field(
        default="default", description="synchronisation mode of the rings (rte_ring) between dispatchers and cores"
    )
    ring_size: RingSize = Field(default=1024, description="entries of a ring between dispatchers and cores")
    notification: Literal[
        "spin", "qwait", "interrupt", "adaptive", "monitor", "monitor-multi", "sleep-ramp", "pause"
    ] = Field(
        default="spin",
        description="how the DUT learns of packets: it polls all queues (spin); doorbells name ready queues (qwait); "
        "it polls, and waits after an empty sweep (interrupt, monitor, monitor-multi, sleep-ramp, pause) or after "
        "wait_after without a packet (adaptive)",
    )
    wait_after: Nanoseconds = Field(
        default=50_000,
        ge=0,
        le=10**9,
        description="adaptive, and qwait with idle sleep: a core sleeps after this time without a packet",
    )
    service_order: Literal["round-robin", "weighted", "strict"] = Field(
        default="round-robin", description="qwait: order in which ready queues are served"
    )
    queue_weights: Weights | None = Field(
        default=None,
        description="weighted: consecutive services of queue 0, 1, ...; the list repeats over the queues",
    )
    ready_set: Literal["hierarchical", "linear"] = Field(
        default="hierarchical",
        description="qwait: bitmap with a summary word, or a list that is searched from its start",
    )
    ready_set_sharing: Literal["own", "shared", "numa", "stealing"] = Field(
        default="own",
        description="qwait: each core has its own ready set; all cores, or those of a NUMA node, share one; "
        "or each core has one, and an idle core takes queues from the others' (stealing)",
    )
    idle: Literal["pause", "sleep", "umwait"] = Field(
        default="pause", description="qwait: how a core waits while no queue is ready"
    )
    workload: Annotated[str, OneOf(lambda: WORKLOADS)] = Field(
        default="l3fwd-lpm", description="work of the DUT on each packet"
    )
    encapsulation: Literal["gre-ipv6", "ipip"] = Field(
        default="gre-ipv6", description="encap: GRE in IPv6, or IPv4 in IPv4"
    )
    transform: Literal["aes-cbc-sha1", "aes-gcm"] = Field(
        default="aes-cbc-sha1", description="ipsec: AES-128-CBC with HMAC-SHA1-96, or AES-128-GCM"
    )
    routes: int = Field(default=16384, ge=1, le=65536, description="number of entries of the LPM table")
    lookups: int = Field(
        default=1, ge=1, le=1024, description="l3fwd-lpm: look-ups per packet, each dependent on the previous one"
    )
    checksum: Literal["none", "udp"] = Field(
        default="none", description="l3fwd-lpm: udp computes the UDP checksum over the whole payload of each packet"
    )
    sessions: int = Field(default=65536, ge=8, le=2**24, description="steer: entries of each core's session table")
    task_buffers: int = Field(
        default=4, ge=2, le=32, description="rs, raid: number of data buffers into which a packet's payload is cut"
    )
    parity_buffers: int = Field(default=2, ge=1, le=16, description="rs: parity buffers per task")
    task_data: TaskData = Field(
        default=0,
        description="encap, crypto, steer, rs, raid, dispatch: memory per RX queue that its tasks read; 0: none",
    )
    tx_pool: Literal["per-core", "shared"] = Field(
        default="per-core", description="tx: one mempool per core, or one for all cores"
    )
    extra_cycles: Cycles = Field(
        default=0,
        description="extra TSC cycles per packet; exponential: their mean; bimodal: cycles of a short packet",
    )
    service_distribution: Literal["fixed", "exponential", "bimodal"] = Field(
        default="fixed", description="distribution of extra_cycles over packets"
    )
    service_long_cycles: Cycles | None = Field(default=None, description="bimodal: extra TSC cycles of a long packet")
    service_long_probability: Probability | None = Field(default=None, description="bimodal: share of long packets")
    service_seed: int = Field(
        default=1, ge=0, le=2**31 - 1, description="seed of the extra cycles; repeat k uses seed + k"
    )
    hiccup_probability: Probability = Field(default=0.0, description="probability that a hiccup delays a packet")
    hiccup_distribution: Literal["fixed", "exponential", "list"] = Field(
        default="fixed",
        description="duration of a hiccup: hiccup_delay, exponential with that mean, or one of hiccup_delays",
    )
    hiccup_delay: Nanoseconds | None = Field(
        default=None, description="fixed: duration of a hiccup; exponential: mean duration"
    )
    hiccup_delays: Delays | None = Field(default=None, description="list: durations, drawn with equal probability")
    hiccup_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the hiccups; repeat k uses seed + k")
    burst: int = Field(default=32, ge=1, le=512, description="maximum number of packets per poll")
    rx_buffers: Literal["posted", "shared", "split"] = Field(
        default="posted",
        description="virtual NIC: empty buffers are in each queue's descriptors (posted), in one pool for all queues "
        "(shared), or in one pool per queue, from which the other queues borrow (split)",
    )
    rx_buffer_pool: int = Field(default=256, ge=64, le=4096, description="shared, split: number of buffers per pool")
    rx_desc: int = Field(default=512, ge=64, le=4096, description="descriptors per RX queue")
    tx_desc: int = Field(default=512, ge=64, le=4096, description="descriptors per TX queue")
    mtu: int = Field(default=1500, ge=68, le=9000, description="MTU of the ports in bytes")
    page_size: Literal["4 KiB", "2 MiB", "1 GiB"] | None = Field(
        default=None, description="page size of the DUT's memory; default: the page size of the testbed"
    )
    tx_inline: Literal["default", "off", "on"] = Field(
        default="default",
        description="mlx5: copy packets into descriptors never (off), always (on), or as the driver decides (default)",
    )
    accounting: Literal["none", "count", "sampled", "full"] = Field(
        default="sampled", description="which polls are timed to account for TSC cycles"
    )
    sample_every: int = Field(
        default=4,
        ge=1,
        le=1_000_000,
        description="sampled: number of sweeps per timed sweep; at most about one sweep per 100 us is timed",
    )
    longest: int = Field(default=16, ge=0, le=64, description="number of longest loop iterations that are recorded")
    frame: Frame = Field(default=64, description="frame size with FCS (RFC 2544), `imix`, or a list of {size, weight}")
    flows: int = Field(
        default=1024, ge=1, le=1_000_000, description="number of UDP flows; with flow_size: of TCP connections"
    )
    trace: str | None = Field(
        default=None,
        min_length=1,
        description="packet trace (pcap, pcapng); its flows and frame sizes replace `flows` and `frame`",
    )
    shape: Literal["FB", "PC", "NC", "SQ"] = Field(
        default="FB", description="distribution of traffic over the RX queues (HyperPlane)"
    )
    shape_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the shape's random choices")
    concentrated_share: Probability = Field(
        default=0.2, description="PC: share of the queues that are always backlogged"
    )
    concentrated_queues: int = Field(
        default=100, ge=1, le=1024, description="NC: number of queues that are always backlogged"
    )
    background_probability: Probability = Field(
        default=0.05, description="PC, NC: probability that a poll of any other queue returns packets"
    )
    arrivals: Literal["constant", "poisson", "trace", "bursts", "on-off"] = Field(
        default="constant", description="arrival process; trace: gaps of the trace, scaled to the load"
    )
    burst_packets: int = Field(
        default=32, ge=1, le=1024, description="bursts: number of packets that are due at the same time"
    )
    on_time: Nanoseconds = Field(
        default=1_000_000, ge=1, le=10**10, description="on-off: length of a phase with packets at a constant rate"
    )
    off_time: Nanoseconds = Field(
        default=1_000_000, ge=0, le=10**10, description="on-off: length of a phase without packets"
    )
    arrivals_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of Poisson arrivals and frame mixes")
    generator_burst: int = Field(
        default=32, ge=1, le=256, description="packets per burst of the generator when saturating"
    )
    generator_receives: bool = Field(
        default=True, description="the generator receives returned packets (latency, loss, order)"
    )
    generator: Literal["core", "agent"] = Field(
        default="core",
        description="virtual NIC: frames reach the DUT's rings through the generator's driver (core), or from an agent "
        "that writes the rings itself, as a NIC does by DMA (agent)",
    )
    nic_timestamps: Nanoseconds = Field(
        default=0,
        ge=0,
        le=10**10,
        description="time between two frames that the generator's NICs timestamp on sending and receiving; 0: none",
    )
    generator_sleep: Nanoseconds = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="sleep of the generator after each burst; on loopback it then shares the CPU of the DUT's first "
        "core instead of needing its own; 0: it spins",
    )
    dma: Literal["copy", "swap"] = Field(
        default="copy", description="virtual NIC: copy frames, or exchange the buffers of sender and receiver"
    )
    feed: Literal["wire", "infinite", "none"] = Field(
        default="wire",
        description="source of packets: a generator (wire); none, with RX rings always full (infinite) or empty (none)",
    )
    dut_core: Literal["dut", "idle", "stress-ng"] = Field(
        default="dut", description="program on the DUT's first core: the DUT, none, or stress-ng in its place"
    )
    corunner: Literal["none", "matmul", "pointer-chase", "memory-stream", "stress-ng"] = Field(
        default="none", description="program that runs beside the DUT"
    )
    corunner_place: Literal["smt-sibling", "other-core", "same-llc", "dut-cpu"] = Field(
        default="other-core",
        description="CPU of the co-runner relative to the DUT's first core; dut-cpu: on that CPU, while the DUT sleeps",
    )
    corunner_footprint: Footprint | None = Field(
        default=None,
        description="memory of the co-runner; default: matmul 96 KiB, pointer-chase 32 MiB, memory-stream 64 MiB",
    )
    corunner_stream: Literal["read", "write", "copy"] = Field(
        default="copy", description="memory-stream: kind of access"
    )
    spinning_cores: int = Field(
        default=0, ge=0, le=512, description="number of additional cores that spin on an empty queue"
    )
    load_of_max: Probability | None = Field(default=None, description="offered load as a share of the measured maximum")
    load_of_line: Probability | None = Field(default=None, description="offered load as a share of line rate")
    load_of_trace: Share | None = Field(
        default=None, description="offered load as a share of the trace's own rate; may exceed 100 %"
    )
    load_pps: PacketRate | None = Field(default=None, description="offered load in packets per second; 0: no traffic")
    flow_size: FlowSize | None = Field(
        default=None, description="kernel TCP: bytes sent on each of `flows` connections, as fast as TCP allows"
    )
    saturate: Literal[True] | None = Field(default=None, description="send as fast as the generator can")

    @property
    def waits_after(self) -> bool:
        """Return whether a core polls for `wait_after` before it sleeps."""
        return self.notification == "adaptive" or (self.notification == "qwait" and self.idle == "sleep")

    @property
    def command(self) -> tuple[str, ...]:
        """Return the program that is the DUT, and its arguments without EAL's; empty for pollscope's own node."""
        if not self._programs:
            return ()
        arguments = self._programs[self.program or next(iter(self._programs))]
        values = self.model_dump(mode="json")
        return tuple(filled(argument, values) for argument in arguments)

    def only(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the parameters with these names."""
        return {name: getattr(self, name) for name in names}


def _without_none(annotation: Any) -> Any:
    kinds = get_args(annotation)
    return next(kind for kind in kinds if kind is not NoneType) if NoneType in kinds else annotation


def dimension_of(name: str) -> Dimension | None:
    """Return the dimension of a parameter; None for words, knobs and numbers without a unit."""
    info = Parameters.model_fields.get(name)
    if info is None:
        return None
    metadata = [*info.metadata, *getattr(_without_none(info.annotation), "__metadata__", ())]
    return next((each for each in metadata if isinstance(each, Dimension)), None)


def _factor_fields() -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, info in Parameters.model_fields.items():
        level = Annotated[_without_none(info.annotation), Field(), *info.metadata]  # type: ignore[valid-type]
        levels = Annotated[tuple[level, ...], BeforeValidator(expand_levels), Field(strict=False, min_length=1)]  # type: ignore[valid-type]
        fields[name] = (levels | None, Field(default=None, description=info.description))
    return fields


_KnobLevels = Annotated[
    tuple[bool | int | float | str, ...], BeforeValidator(expand_levels), Field(strict=False, min_length=1)
]


def _knob_schema(schema: dict[str, Any]) -> None:
    # The field collects all keys of one pattern; a spec file has the keys themselves.
    levels = schema["properties"].pop("knob.NAME")["additionalProperties"]
    schema["patternProperties"] = {rf"^{re.escape(KNOB_PREFIX)}": levels}


class KnobFactors(StrictModel):
    """The factors that are knobs, collected from the keys `knob.NAME` and `knob.NAME@TARGET`."""

    model_config = ConfigDict(populate_by_name=False, json_schema_extra=_knob_schema)

    knobs: dict[str, _KnobLevels] = Field(
        default={}, alias="knob.NAME", description="values of a knob; `pollscope knob list` lists the knobs"
    )

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        knobs = {key: levels for key, levels in given.items() if str(key).startswith(KNOB_PREFIX)}
        others = {key: levels for key, levels in given.items() if key not in knobs}
        return {**others, "knob.NAME": knobs}


# One optional field per parameter, a tuple of the parameter's type, so that levels are checked like parameters.
Factors = create_model("Factors", __base__=KnobFactors, **_factor_fields())


def knob_levels(name: str, levels: Iterable[object]) -> tuple[int | str, ...]:
    """Return the levels of a knob factor in the knob's own notation; as numbers if all of them are whole numbers.

    Raises:
        UsageError: no such knob, or no such value.
    """
    values = [parse_setting(name.removeprefix(KNOB_PREFIX), level) for level in levels]
    return tuple(int(value) for value in values) if all(value.isdecimal() for value in values) else tuple(values)


class CollectorUse(StrictModel):
    """A collector that runs during every trial."""

    name: str = Field(
        description="a collector (`pollscope collect` lists them), or a quantity, whose collector the host decides"
    )
    required: bool = Field(default=False, description="a trial without data of this collector fails")
    interval_ns: IntervalNs = Field(
        default=1_000_000_000, alias="interval", description="approximate time between two samples"
    )
    rotate: bool = Field(default=False, description="collectors with rotate take turns: one of them runs per repeat")
    replay: str | None = Field(default=None, description="recording that is read instead of the host's counters")
    ends: Annotated[tuple[Literal["dut", "generator"], ...], Field(strict=False, min_length=1)] = Field(
        default=("dut", "generator"), description="pair: the hosts on which it runs"
    )


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _in_turn(value: object) -> object:
    """Return `{always: [...], rotate: [...]}` as one list; `always` is optional."""
    if not isinstance(value, dict):
        return value
    if unknown := sorted(set(value) - {"always", "rotate"}):
        raise ValueError(f"'{unknown[0]}' is not a key of collectors; allowed: always, rotate")
    turns = [_named(each) for each in value.get("rotate", [])]
    return [*value.get("always", []), *({**each, "rotate": True} if isinstance(each, dict) else each for each in turns)]


class Constraint(StrictModel):
    """Drops the points for which `drop` is true."""

    drop: str = Field(description="expression over parameters, for example `queues * rx_desc > 65536`")
    reason: str = Field(min_length=1, description="the reason, shown with each point that is left out")


class TrialTimes(StrictModel):
    """The phases of a trial."""

    warmup_ns: Nanoseconds = Field(
        default=50_000_000, alias="warmup", description="time with traffic before the window, not counted"
    )
    window_ns: WindowNs = Field(default=1_000_000_000, alias="window", description="length of the measurement window")
    drain_ns: Nanoseconds = Field(
        default=100_000_000, alias="drain", description="longest wait for the last packets after the window"
    )


class Until(StrictModel):
    """Repeat a point until the 95 % interval of the mean of a metric is narrow enough."""

    metric: str = Field(description="name in the metric dictionary")
    within: Share = Field(gt=0, description="largest half width of the interval, as a share of the mean")
    at_least: int = Field(default=3, ge=2, le=1000, description="fewest repeats")
    at_most: int = Field(default=20, ge=2, le=1000, description="most repeats")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.at_least > self.at_most:
            raise ValueError(f"at_least ({self.at_least}) is above at_most ({self.at_most})")
        return self


# Repeats before the first look at the claims, and the most of any point (pollscope.run.looks).
FIRST_LOOK, MOST_REPEATS = 12, 1000


class Repeats(StrictModel):
    """How often a point is measured: a fixed count, until an interval is narrow enough, or until claims are decided."""

    count: int | None = Field(
        default=None,
        ge=1,
        le=MOST_REPEATS,
        description=f"number of repeats per point; with `until: verdicts` before the first look (default {FIRST_LOOK})",
    )
    until: (
        Annotated[
            Annotated[Literal["verdicts"], Tag("word")] | Annotated[Until, Tag("table")],
            Discriminator(lambda given: "word" if isinstance(given, str) else "table"),
        ]
        | None
    ) = Field(default=None, description="`verdicts`, or the interval of a metric")
    at_most_ns: Nanoseconds | None = Field(
        default=None, alias="at_most", description="`until: verdicts`: longest total time of the trials"
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if self.decided:
            if not self.at_most_ns:
                raise ValueError("until: verdicts needs the longest time, for instance at_most: 10 min")
        elif (self.count is None) == (self.until is None) or self.at_most_ns is not None:
            raise ValueError(
                "repeats is {count: 5}, {until: {metric, within, at_least, at_most}}, or {until: verdicts, at_most: "
                "10 min}"
            )
        return self

    @property
    def narrow(self) -> Until | None:
        """Return the interval that ends the repeats, if one does."""
        return self.until if isinstance(self.until, Until) else None

    @property
    def decided(self) -> bool:
        """Return whether the verdicts of claims end the repeats."""
        return self.until == "verdicts"

    @property
    def at_least(self) -> int:
        """Return the smallest number of repeats."""
        if self.narrow is not None:
            return self.narrow.at_least
        return self.count or (FIRST_LOOK if self.decided else 1)


class Order(StrictModel):
    """The order of trials: rounds of all points, in blocks of about a second, shuffled if `randomise` is true."""

    randomise: bool = True
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the order; the run records it")
    compare: str | list[str] | None = Field(
        default=None,
        description="factors whose levels share a block, the most important one first; default: the x axis of the"
        " first figure, or the longest factor",
    )

    @property
    def compared(self) -> list[str]:
        """Return the factors of `compare`."""
        return [self.compare] if isinstance(self.compare, str) else self.compare or []


class Baseline(StrictModel):
    """A point that is measured repeatedly during the run to detect drift of the host."""

    point: dict[str, Any] = Field(description="a level for each factor")
    metric: str = Field(description="the metric that is compared over the run")
    every: int = Field(
        default=20, ge=1, description="number of trials between two baseline trials; one more runs at the end"
    )
    drift: Share = Field(
        default=0.05, gt=0, description="warn if the metric differs from its first value by more than this share"
    )


_LossRatio = Annotated[Probability, Field(lt=1)]


class Maximum(StrictModel):
    """How the maximum for `load_of_max` is found: by saturating trials, or by a search."""

    method: Literal["saturate", "mlrsearch"] = Field(
        default="saturate",
        description="saturate: highest rate of saturating trials; mlrsearch: highest rate within a loss ratio",
    )
    repeats: int = Field(
        default=3, ge=1, le=100, description="number of saturating trials or searches per configuration"
    )
    window_ns: WindowNs | None = Field(
        default=None, alias="window", description="window of these trials; default: the trial's window"
    )
    common_to: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="factors over which the load is the same: a share of the smallest maximum over their levels",
    )
    loss_ratios: tuple[_LossRatio, ...] = Field(
        default=(0.0, 0.005),
        strict=False,
        min_length=1,
        description="mlrsearch: tolerated losses; `load_of_max: 100 %` is the rate of the first",
    )
    exceed_ratio: _LossRatio = Field(
        default=0.5, description="mlrsearch: largest share of the trial time at a load that may exceed the loss ratio"
    )
    width: Annotated[Share, Field(gt=0, lt=1)] = Field(
        default=0.005, description="mlrsearch: precision of the rate, as a share of it"
    )
    duration_sum_ns: Nanoseconds | None = Field(
        default=None,
        alias="duration_sum",
        description="mlrsearch: trial time per load that decides about it; default: 21 windows",
    )
    at_most_ns: Nanoseconds = Field(
        default=1_200_000_000_000,
        alias="at_most",
        description="mlrsearch: longest trial time of a search before it is abandoned",
    )
    most_unsent: Share = Field(
        default=0.01, ge=0, description="mlrsearch: largest unsent share of the generator; a trial above it is repeated"
    )
    highest_pps: Annotated[PacketRate, Field(gt=0)] | None = Field(
        default=None,
        alias="highest",
        description="mlrsearch: highest rate to try; default: the rate of a saturating trial",
    )


class Noise(StrictModel):
    """Limits of host noise; a trial that exceeds one of them is flagged."""

    max_waiting: Share = Field(
        default=0.02, ge=0, description="largest share of the trial that a measuring lcore waits for its CPU"
    )
    max_gaps_over_100us_per_s: float | None = Field(
        default=None,
        ge=0,
        strict=False,
        description="most gaps longer than 100 us per second on a measuring core; default: no limit",
    )
    max_steal: Share | None = Field(
        default=None,
        ge=0,
        description="largest share of a measuring CPU's time, on average, that the hypervisor takes; default: no limit",
    )
    max_switches_per_s: float | None = Field(
        default=None,
        ge=0,
        strict=False,
        description="most involuntary context switches per second and DUT lcore; default: no limit",
    )
    repeat_flagged: int = Field(default=0, ge=0, le=10, description="number of times that a flagged trial is repeated")
    extra_blocks: int = Field(
        default=2, ge=0, le=10, description="most extra blocks for points that lack repeats in a single host state"
    )


class Failures(StrictModel):
    """The treatment of failed trials (node lost, or its record contradicts the protocol)."""

    tries: int = Field(default=2, ge=1, le=10, description="tries of a trial before it counts as failed")
    at_most: int = Field(
        default=20,
        ge=0,
        description="most failed tries of the whole run; one more ends the run (continue with --resume)",
    )
    in_a_row: int = Field(
        default=3,
        ge=2,
        description="so many trials in a row that fail for one reason end the run (continue with --resume)",
    )


class Quick(StrictModel):
    """The changes of `--quick`: single keys of parameters, trial, maximum and noise; whole factors and sections."""

    parameters: dict[str, Any] = Field(default={})
    factors: dict[str, Any] = Field(default={})
    trial: dict[str, Any] = Field(default={})
    maximum: dict[str, Any] = Field(default={})
    noise: dict[str, Any] = Field(default={})
    repeats: dict[str, Any] | None = None
    baseline: dict[str, Any] | None = None


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(strict=False)]


class Show(StrictModel):
    """A figure of a run: metrics over a factor, with one line per level of other factors."""

    x: str = Field(description="the factor along the x axis")
    y: Annotated[Names, Field(min_length=1)] = Field(description="metrics, one panel each")
    by: Names = Field(default=(), description="factors with one line per level; default: all others")
    at: dict[str, Any] = Field(default={}, description="factors that are fixed at one level")
    ratio_to: int | float | str | None = Field(
        default=None, description="level of `by` or `x`, or FACTOR=LEVEL, by whose values all others are divided"
    )
    log: Annotated[tuple[Literal["x", "y"], ...], BeforeValidator(_as_list), Field(strict=False)] = Field(
        default=(), description="logarithmic axes"
    )
    title: str | None = Field(default=None, description="caption of the figure")

    @field_validator("y", "by")
    @classmethod
    def _each_once(cls, names: Any) -> Any:
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"'{twice[0]}' is listed twice")
        return names

    @field_validator("by", "at")
    @classmethod
    def _in_one_place(cls, names: Any, info: ValidationInfo) -> Any:
        """Check that each factor has only one place in the figure."""
        places = {info.data.get("x"): "lies along x", **dict.fromkeys(info.data.get("by", ()), "has lines")}
        for name in names:
            if name in places:
                raise ValueError(f"'{name}' {places[name]} already")
        return names


_ProgramName = Annotated[str, Field(pattern=NAME_PATTERN)]
_Arguments = Annotated[
    tuple[Annotated[str, BeforeValidator(lambda given: str(given) if type(given) is int else given)], ...],
    Field(strict=False, min_length=2),
]


class Spec(StrictModel):
    """One experiment: its factors, its trials, and the row of a paper that it measures, if any."""

    format: Literal[1] = Field(description="version of the spec format")
    name: str = Field(pattern=NAME_PATTERN, description="name of the spec and of the folder of its runs")
    row: _RowId | None = Field(default=None, description="the figure or table of a paper that it measures, if any")
    rows: tuple[_RowId, ...] | None = Field(
        default=None, strict=False, min_length=1, description="the rows, if it measures several"
    )
    paper: Annotated[str, OneOf(papers)] | None = Field(
        default=None, description="the paper (data/papers/NAME.yaml), if any"
    )
    title: str = Field(min_length=1, description="title of reports and figures")
    source: str | None = Field(default=None, description="section and figure of the paper, and its testbed")
    notes: str | None = None
    testbeds: tuple[Annotated[str, OneOf(lambda: TESTBEDS)], ...] = Field(
        default=("loopback",),
        strict=False,
        min_length=1,
        description="testbeds on which it can run",
    )
    dut: dict[_ProgramName, _Arguments] = Field(
        default={}, description="programs to measure in place of pollscope's node: name and arguments (below)"
    )
    parameters: Parameters = Parameters()
    factors: Factors = Factors()
    zip: tuple[Annotated[tuple[str, ...], Field(strict=False, min_length=2)], ...] = Field(
        default=(), strict=False, description="groups of factors whose levels are paired instead of combined"
    )
    constraints: tuple[Constraint, ...] = Field(default=(), strict=False)
    knobs: dict[str, Any] = Field(
        default={}, description="host settings during the run; `pollscope knob list` lists them"
    )
    collectors: Annotated[
        tuple[Annotated[CollectorUse, BeforeValidator(_named)], ...], BeforeValidator(_in_turn), Field(strict=False)
    ] = Field(default=(), description="counters that are read during each trial: names, or {name, required}")
    trial: TrialTimes = TrialTimes()
    repeats: Repeats = Repeats(count=5)
    order: Order = Order()
    baseline: Baseline | None = None
    maximum: Maximum = Maximum()
    noise: Noise = Noise()
    failures: Failures = Failures()
    quick: Quick | None = None
    show: Annotated[tuple[Show, ...], BeforeValidator(_as_list), Field(strict=False)] = Field(
        default=(), description="figures of its runs: one figure, or a list"
    )
    claims: tuple[OwnClaim, ...] = Field(
        default=(), strict=False, description="expectations of the author, judged like claims of a paper"
    )
    must: Literal["claims"] | None = Field(
        default=None, description="claims: `run` fails if a claim of its rows or its own claims disagrees"
    )

    @model_validator(mode="after")
    def _row_or_rows(self) -> Self:
        if self.row is not None and self.rows is not None:
            raise ValueError("row and rows are both given; give one of them, or none for a question of your own")
        return self

    @model_validator(mode="after")
    def _with_programs(self) -> Self:
        if self.dut:
            parameters = self.parameters.model_copy()  # the default may be that of all specs
            parameters._programs = dict(self.dut)
            object.__setattr__(self, "parameters", parameters)  # before anybody else has this frozen model
        return self

    @property
    def all_rows(self) -> tuple[str, ...]:
        """Return the paper rows, main row first; empty for a spec without rows."""
        return self.rows or ((self.row,) if self.row is not None else ())

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Return factor -> levels in base units; knobs first, then in the order of `Parameters`."""
        knobs = {name: knob_levels(name, levels) for name, levels in self.factors.knobs.items()}
        every = {name: getattr(self.factors, name) for name in Parameters.model_fields}
        return {**knobs, **{name: levels for name, levels in every.items() if levels is not None}}

    def resolved(self) -> dict[str, Any]:
        """Return the spec with all defaults, in base units, as JSON types, as run.json stores it."""
        whole = self.model_dump(mode="json", exclude={"factors", "quick"})
        return {**whole, "factors": {name: list(levels) for name, levels in self.levels.items()}}
