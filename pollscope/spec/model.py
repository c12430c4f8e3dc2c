# SPDX-License-Identifier: BSD-3-Clause
"""What a spec may say. The reference with every key explained is docs/reference-spec.md.

The models are frozen and refuse unknown keys. Field names are those of the spec file unless they have an alias; names
that end in a unit hold base units.
"""

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
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
from pollscope.spec.predicates import NAME_PATTERN, OwnClaim

LOADS = ("load_of_max", "load_of_line", "load_of_trace", "load_pps", "flow_size", "saturate")

ROW_PATTERN = r"^[A-Z][A-Za-z0-9]*([-.][A-Za-z0-9.]+)*$"
_RowId = Annotated[str, Field(pattern=ROW_PATTERN, examples=["S-F5"])]


class Parameters(StrictModel):
    """Everything that a point fixes; each of these may also be a factor."""

    queues: int = Field(default=1, ge=1, le=1024, description="RX queues of the DUT's port")
    cores: int = Field(default=1, ge=1, le=128, description="DUT lcores")
    placement: Placement = Field(
        default="separate", description="CPUs of the DUT's lcores: a policy, or a list of CPUs, workers first"
    )
    organisation: Literal["scale-out", "scale-up", "locked", "trylock", "corec", "rebalanced"] = Field(
        default="scale-out", description="how cores and queues are joined"
    )
    rebalance_period: Nanoseconds = Field(
        default=100_000_000,
        ge=10**6,
        le=10**10,
        description="rebalanced: so often the loads of the queues are looked at",
    )
    rebalance_threshold: Probability = Field(
        default=0.02, description="rebalanced: excess of the fullest queue over the mean that is left alone"
    )
    dispatchers: int | None = Field(
        default=None,
        ge=0,
        le=128,
        description="lcores that poll the RX queues and hand packets on to the cores; default: none, scale-up: `cores`",
    )
    ring_sync: Literal["default", "rts", "hts"] = Field(default="default", description="synchronisation of the rings")
    ring_size: RingSize = Field(default=1024, description="entries of a ring between dispatchers and cores")
    notification: Literal["spin", "qwait", "interrupt", "adaptive", "monitor", "monitor-multi", "sleep-ramp"] = Field(
        default="spin",
        description="how the DUT learns of packets: it polls all queues (spin); doorbells tell it which (qwait); "
        "it polls and waits after an empty sweep (interrupt, monitor, monitor-multi, sleep-ramp) or after wait_after "
        "(adaptive)",
    )
    wait_after: Nanoseconds = Field(
        default=50_000,
        ge=0,
        le=10**9,
        description="adaptive, and qwait with idle sleep: time without a packet after which a core sleeps",
    )
    service_order: Literal["round-robin", "weighted", "strict"] = Field(
        default="round-robin", description="qwait: which ready queue is next"
    )
    queue_weights: Weights | None = Field(
        default=None, description="weighted: turns in a row of queue 0, 1, ...; the list is repeated over the queues"
    )
    ready_set: Literal["hierarchical", "linear"] = Field(
        default="hierarchical", description="qwait: words of bits with a summary, or a list that is searched"
    )
    ready_set_sharing: Literal["own", "shared", "numa", "stealing"] = Field(
        default="own",
        description="qwait: each core has a ready set; one is shared by all cores, or by those of a NUMA node; "
        "or each has one and takes from the others' when it has nothing to do (stealing)",
    )
    idle: Literal["pause", "sleep", "umwait"] = Field(
        default="pause", description="qwait: what a core does while no queue is ready"
    )
    workload: Annotated[str, OneOf(lambda: WORKLOADS)] = Field(
        default="l3fwd-lpm", description="what is done with a packet"
    )
    encapsulation: Literal["gre-ipv6", "ipip"] = Field(
        default="gre-ipv6", description="encap: GRE in IPv6, or IPv4 in IPv4"
    )
    transform: Literal["aes-cbc-sha1", "aes-gcm"] = Field(
        default="aes-cbc-sha1", description="ipsec: AES-128-CBC with HMAC-SHA1-96, or AES-128-GCM"
    )
    routes: int = Field(default=16384, ge=1, le=65536, description="entries of the LPM table")
    lookups: int = Field(
        default=1, ge=1, le=1024, description="l3fwd-lpm: look-ups of a packet, each after the one before"
    )
    checksum: Literal["none", "udp"] = Field(
        default="none", description="l3fwd-lpm: the UDP checksum of a packet is computed from all its payload"
    )
    sessions: int = Field(default=65536, ge=8, le=2**24, description="steer: entries of the session table of a core")
    task_buffers: int = Field(
        default=4, ge=2, le=32, description="rs, raid: data buffers that a packet's payload is cut into"
    )
    parity_buffers: int = Field(default=2, ge=1, le=16, description="rs: parity buffers of a task")
    task_data: TaskData = Field(
        default=0, description="encap, crypto, steer, rs, raid, dispatch: memory of each RX queue that its tasks read"
    )
    tx_pool: Literal["per-core", "shared"] = Field(
        default="per-core", description="tx: a mempool for each core, or one that all take packets from"
    )
    extra_cycles: Cycles = Field(
        default=0,
        description="extra TSC cycles per packet; their mean (exponential); the fewer ones (bimodal)",
    )
    service_distribution: Literal["fixed", "exponential", "bimodal"] = Field(
        default="fixed", description="how extra_cycles vary from packet to packet"
    )
    service_long_cycles: Cycles | None = Field(default=None, description="bimodal: extra TSC cycles of a long packet")
    service_long_probability: Probability | None = Field(default=None, description="bimodal: share of long packets")
    service_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the extra cycles; repeat k: seed + k")
    hiccup_probability: Probability = Field(default=0.0, description="probability that a packet is held up")
    hiccup_distribution: Literal["fixed", "exponential", "list"] = Field(
        default="fixed", description="how long a hiccup lasts: hiccup_delay, that on average, one of hiccup_delays"
    )
    hiccup_delay: Nanoseconds | None = Field(default=None, description="fixed, exponential: a hiccup, or their mean")
    hiccup_delays: Delays | None = Field(default=None, description="list: drawn from these with equal probability")
    hiccup_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the hiccups; repeat k: seed + k")
    burst: int = Field(default=32, ge=1, le=512, description="packets asked for in one poll")
    rx_buffers: Literal["posted", "shared", "split"] = Field(
        default="posted",
        description="virtual NIC: empty buffers lie in each queue's descriptors, in one pool for all queues, "
        "or in one of each queue from which the others borrow",
    )
    rx_buffer_pool: int = Field(default=256, ge=64, le=4096, description="shared, split: buffers of a pool")
    rx_desc: int = Field(default=512, ge=64, le=4096, description="descriptors of an RX queue")
    tx_desc: int = Field(default=512, ge=64, le=4096, description="descriptors of a TX queue")
    mtu: int = Field(default=1500, ge=68, le=9000, description="MTU of the ports in bytes")
    page_size: Literal["4 KiB", "2 MiB", "1 GiB"] | None = Field(
        default=None, description="memory pages of the DUT's node; left out: what the testbed has"
    )
    tx_inline: Literal["default", "off", "on"] = Field(
        default="default",
        description="mlx5: packets are copied into descriptors never, always, or as the driver has it",
    )
    accounting: Literal["none", "count", "sampled", "full"] = Field(
        default="sampled", description="how TSC cycles are accounted for"
    )
    sample_every: int = Field(
        default=4, ge=1, le=1_000_000, description="one sweep in so many is sampled, at most one every 100 us or so"
    )
    longest: int = Field(default=16, ge=0, le=64, description="how many of the longest iterations are kept")
    frame: Frame = Field(default=64, description="frame size with FCS as RFC 2544 counts it, `imix`, or a mix")
    flows: int = Field(default=1024, ge=1, le=1_000_000, description="UDP flows; with flow_size TCP connections")
    trace: str | None = Field(
        default=None,
        min_length=1,
        description="packet trace (pcap, pcapng) whose flows and sizes are sent in place of frame and flows",
    )
    shape: Literal["FB", "PC", "NC", "SQ"] = Field(default="FB", description="how traffic is spread over the RX queues")
    shape_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the shape's random choices")
    concentrated_share: Probability = Field(
        default=0.2, description="PC: share of the queues that are always backlogged"
    )
    concentrated_queues: int = Field(
        default=100, ge=1, le=1024, description="NC: number of queues that are always backlogged"
    )
    background_probability: Probability = Field(
        default=0.05, description="PC, NC: probability that a poll of another queue finds something"
    )
    arrivals: Literal["constant", "poisson", "trace", "bursts", "on-off"] = Field(
        default="constant", description="arrival process; trace: distances as in the trace, stretched to the load"
    )
    burst_packets: int = Field(default=32, ge=1, le=1024, description="bursts: packets that are due together")
    on_time: Nanoseconds = Field(
        default=1_000_000, ge=1, le=10**10, description="on-off: so long packets come, at a constant rate"
    )
    off_time: Nanoseconds = Field(default=1_000_000, ge=0, le=10**10, description="on-off: and so long none")
    arrivals_seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of Poisson arrivals and frame mixes")
    generator_burst: int = Field(
        default=32, ge=1, le=512, description="packets the generator sends at once when saturating"
    )
    generator_receives: bool = Field(
        default=True, description="the generator takes packets back (latency, loss, order)"
    )
    nic_timestamps: Nanoseconds = Field(
        default=0,
        ge=0,
        le=10**10,
        description="every so often a frame that the generator's NICs stamp as it leaves and as it comes back; 0: none",
    )
    generator_sleep: Nanoseconds = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="the generator sleeps so long after each burst; on loopback it then shares the CPU of the DUT's "
        "first core, and needs none of its own",
    )
    dma: Literal["copy", "swap"] = Field(
        default="copy", description="virtual NIC: frames are copied or buffers change hands"
    )
    feed: Literal["wire", "infinite", "none"] = Field(
        default="wire",
        description="virtual NIC without a generator: infinite keeps the RX rings full, none leaves them empty",
    )
    dut_core: Literal["dut", "idle", "stress-ng"] = Field(
        default="dut", description="what has the DUT's first core: the DUT, nothing, or a general benchmark"
    )
    corunner: Literal["none", "matmul", "pointer-chase", "memory-stream", "stress-ng"] = Field(
        default="none", description="what runs beside the DUT"
    )
    corunner_place: Literal["smt-sibling", "other-core", "same-llc", "dut-cpu"] = Field(
        default="other-core",
        description="where it runs, seen from the DUT's first core; dut-cpu: on its CPU, while the DUT sleeps",
    )
    corunner_footprint: Footprint | None = Field(
        default=None,
        description="memory that it works on; default: matmul 96 KiB, pointer-chase 32 MiB, memory-stream 64 MiB",
    )
    corunner_stream: Literal["read", "write", "copy"] = Field(
        default="copy", description="what memory-stream does with its memory"
    )
    spinning_cores: int = Field(default=0, ge=0, le=512, description="further cores that spin on an empty queue")
    load_of_max: Probability | None = Field(default=None, description="offered load as a share of the measured maximum")
    load_of_line: Probability | None = Field(default=None, description="offered load as a share of line rate")
    load_of_trace: Share | None = Field(
        default=None, description="offered load as a share of the trace's own rate; may be more than all of it"
    )
    load_pps: PacketRate | None = Field(default=None, description="offered load in packets per second; 0 is no traffic")
    flow_size: FlowSize | None = Field(
        default=None, description="kernel TCP: so much is sent on each of `flows` connections, as fast as TCP lets it"
    )
    saturate: Literal[True] | None = Field(default=None, description="as fast as the generator can")

    @property
    def waits_after(self) -> bool:
        """A core looks for packets for `wait_after` before it sleeps."""
        return self.notification == "adaptive" or (self.notification == "qwait" and self.idle == "sleep")

    def only(self, names: Iterable[str]) -> dict[str, Any]:
        """Some of them, by name."""
        return {name: getattr(self, name) for name in names}


def _without_none(annotation: Any) -> Any:
    kinds = get_args(annotation)
    return next(kind for kind in kinds if kind is not NoneType) if NoneType in kinds else annotation


def dimension_of(name: str) -> Dimension | None:
    """What a parameter measures; None of numbers without a unit, of words, and of knobs."""
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
    # The field collects all keys of one pattern; a file has the keys themselves.
    levels = schema["properties"].pop("knob.NAME")["additionalProperties"]
    schema["patternProperties"] = {rf"^{re.escape(KNOB_PREFIX)}": levels}


class KnobFactors(StrictModel):
    """The factors that are knobs, gathered from the keys `knob.NAME` and `knob.NAME@TARGET`."""

    model_config = ConfigDict(populate_by_name=False, json_schema_extra=_knob_schema)

    knobs: dict[str, _KnobLevels] = Field(
        default={}, alias="knob.NAME", description="values of a knob; `pollscope knob list` names knobs"
    )

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        knobs = {key: levels for key, levels in given.items() if str(key).startswith(KNOB_PREFIX)}
        others = {key: levels for key, levels in given.items() if key not in knobs}
        return {**others, "knob.NAME": knobs}


# One optional field per parameter, each a tuple of that parameter's type: levels are checked exactly as parameters are.
Factors = create_model("Factors", __base__=KnobFactors, **_factor_fields())


def knob_levels(name: str, levels: Iterable[object]) -> tuple[int | str, ...]:
    """Levels of a knob factor in the knob's own notation; numbers when all of them are whole numbers.

    Raises:
        UsageError: no such knob, or no such value.
    """
    values = [parse_setting(name.removeprefix(KNOB_PREFIX), level) for level in levels]
    return tuple(int(value) for value in values) if all(value.isdecimal() for value in values) else tuple(values)


class CollectorUse(StrictModel):
    """A collector that runs during every trial."""

    name: str = Field(description="as `pollscope collect` lists it")
    required: bool = Field(default=False, description="a trial in which it does not deliver has failed")
    interval_ns: IntervalNs = Field(default=1_000_000_000, alias="interval", description="about so often a sample")
    rotate: bool = Field(default=False, description="runs in turn with the others that rotate, one in each repeat")
    replay: str | None = Field(default=None, description="file of a recording that is played instead of the host")
    ends: Annotated[tuple[Literal["dut", "generator"], ...], Field(strict=False, min_length=1)] = Field(
        default=("dut", "generator"), description="on a pair: the hosts on which it runs"
    )


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _in_turn(value: object) -> object:
    """`{always: [...], rotate: [...]}` as a list; `always` may be left out."""
    if not isinstance(value, dict):
        return value
    if unknown := sorted(set(value) - {"always", "rotate"}):
        raise ValueError(f"'{unknown[0]}' is neither 'always' nor 'rotate', which a mapping of collectors has")
    turns = [_named(each) for each in value.get("rotate", [])]
    return [*value.get("always", []), *({**each, "rotate": True} if isinstance(each, dict) else each for each in turns)]


class Constraint(StrictModel):
    """Drops the points for which `drop` is true."""

    drop: str = Field(description="expression over parameters, for instance `queues * rx_desc > 65536`")
    reason: str = Field(min_length=1, description="why; shown beside each point that is left out")


class TrialTimes(StrictModel):
    """How long a trial lasts."""

    warmup_ns: Nanoseconds = Field(default=50_000_000, alias="warmup", description="traffic runs, nothing is counted")
    window_ns: WindowNs = Field(default=1_000_000_000, alias="window", description="the measurement window")
    drain_ns: Nanoseconds = Field(
        default=100_000_000, alias="drain", description="at most so long until the last packet is in"
    )


class Until(StrictModel):
    """Repeat a point until the 95 % interval of the mean of a metric is narrow enough."""

    metric: str = Field(description="name in the metric dictionary")
    within: Share = Field(gt=0, description="half width of the interval as a share of the mean")
    at_least: int = Field(default=3, ge=2, le=1000)
    at_most: int = Field(default=20, ge=2, le=1000)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.at_least > self.at_most:
            raise ValueError(f"at_least ({self.at_least}) is above at_most ({self.at_most})")
        return self


class Repeats(StrictModel):
    """How often a point is measured: a fixed count, or until an interval is narrow enough."""

    count: int | None = Field(default=None, ge=1, le=1000)
    until: Until | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.count is None) == (self.until is None):
            raise ValueError("repeats is either {count: 5} or {until: {metric, within, at_least, at_most}}")
        return self

    @property
    def at_least(self) -> int:
        """Repeats that are made in any case."""
        return self.until.at_least if self.until is not None else self.count or 1


class Order(StrictModel):
    """The order of trials: blocks, each with every point once, shuffled when `randomise` is true."""

    randomise: bool = True
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="recorded; the same seed gives the same order")


class Baseline(StrictModel):
    """A point that is measured again and again through the run, to see whether the host drifts."""

    point: dict[str, Any] = Field(description="a level for each factor")
    metric: str = Field(description="the metric that is watched")
    every: int = Field(
        default=20, ge=1, description="one baseline trial before each so many trials, and one at the end"
    )
    drift: Share = Field(default=0.05, gt=0, description="a move beyond this share of the first value is a warning")


_LossRatio = Annotated[Probability, Field(lt=1)]


class Maximum(StrictModel):
    """How the maximum is found that `load_of_max` refers to: by saturating trials, or by searching for it."""

    method: Literal["saturate", "mlrsearch"] = Field(
        default="saturate", description="mlrsearch: the highest rate at which no more than a loss ratio is lost"
    )
    repeats: int = Field(default=3, ge=1, le=100, description="saturating trials, or searches")
    window_ns: WindowNs | None = Field(default=None, alias="window", description="default: the trial's window")
    loss_ratios: tuple[_LossRatio, ...] = Field(
        default=(0.0, 0.005), strict=False, min_length=1, description="mlrsearch: 100 % load is the first one's rate"
    )
    exceed_ratio: _LossRatio = Field(
        default=0.5, description="mlrsearch: share of the time at a load in which more may be lost"
    )
    width: Annotated[Share, Field(gt=0, lt=1)] = Field(default=0.005, description="mlrsearch: precision of the rate")
    duration_sum_ns: Nanoseconds | None = Field(
        default=None, alias="duration_sum", description="mlrsearch: so much trial time decides; default: 21 windows"
    )
    at_most_ns: Nanoseconds = Field(
        default=1_200_000_000_000, alias="at_most", description="mlrsearch: a search with more trial time is given up"
    )
    most_unsent: Share = Field(
        default=0.01, ge=0, description="mlrsearch: a trial in which the generator left more unsent is made again"
    )
    highest_pps: Annotated[PacketRate, Field(gt=0)] | None = Field(
        default=None, alias="highest", description="mlrsearch: no higher rate is tried; default: from saturating"
    )


class Noise(StrictModel):
    """Limits of host noise; a trial above one of them is flagged."""

    max_waiting: Share = Field(
        default=0.02, ge=0, description="share of the trial that a measuring lcore may wait for its CPU"
    )
    max_gaps_over_100us_per_s: float | None = Field(
        default=None, ge=0, strict=False, description="gaps of a measuring core longer than 100 us, a second"
    )
    max_steal_ticks: int | None = Field(
        default=None, ge=0, description="steal ticks of the measuring cores over the trial"
    )
    max_involuntary_switches: int | None = Field(
        default=None, ge=0, description="of the measuring lcores over the window"
    )
    repeat_flagged: int = Field(default=0, ge=0, le=10, description="how often a flagged trial is measured again")
    extra_blocks: int = Field(
        default=2, ge=0, le=10, description="blocks made at most for points not seen in one host state often enough"
    )


class Failures(StrictModel):
    """What becomes of trials that fail: a node was lost, or its record contradicts the protocol."""

    tries: int = Field(default=2, ge=1, le=10, description="how often a trial is made before it counts as failed")
    at_most: int = Field(
        default=20,
        ge=0,
        description="tries that may fail, of all trials of the run; after one more it ends, and can go on",
    )


class Quick(StrictModel):
    """What `--quick` replaces: parameters, trial, maximum, noise and order key by key; factors name by name."""

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
    """A figure of a run: metrics over a factor, a line for each level of others."""

    x: str = Field(description="the factor along the x axis")
    y: Annotated[Names, Field(min_length=1)] = Field(description="metrics, a panel each")
    by: Names = Field(default=(), description="factors whose levels are lines; default: all others")
    at: dict[str, Any] = Field(default={}, description="factors that are held at one level")
    ratio_to: int | float | str | None = Field(
        default=None, description="level of `by` or `x`, or FACTOR=LEVEL, that all others are divided by"
    )
    log: Annotated[tuple[Literal["x", "y"], ...], BeforeValidator(_as_list), Field(strict=False)] = Field(
        default=(), description="axes that are logarithmic"
    )
    title: str | None = Field(default=None, description="below the figure")

    @field_validator("y", "by")
    @classmethod
    def _each_once(cls, names: Any) -> Any:
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"'{twice[0]}' is there twice")
        return names

    @field_validator("by", "at")
    @classmethod
    def _in_one_place(cls, names: Any, info: ValidationInfo) -> Any:
        """A factor lies along x, has lines, or is held."""
        places = {info.data.get("x"): "lies along x", **dict.fromkeys(info.data.get("by", ()), "has lines")}
        for name in names:
            if name in places:
                raise ValueError(f"'{name}' {places[name]} already")
        return names


class Spec(StrictModel):
    """One experiment: what is swept, how a trial is made, and which row of which paper it measures, if any."""

    format: Literal[1] = Field(description="version of the spec format")
    name: str = Field(pattern=NAME_PATTERN, description="folder name of its runs")
    row: _RowId | None = Field(default=None, description="the paper row that it measures, if any")
    rows: tuple[_RowId, ...] | None = Field(
        default=None, strict=False, min_length=1, description="when it measures several"
    )
    paper: Annotated[str, OneOf(papers)] | None = Field(default=None, description="data/papers/NAME.yaml")
    title: str = Field(min_length=1)
    source: str | None = Field(default=None, description="section and figure of the paper, its testbed")
    notes: str | None = None
    testbeds: tuple[Annotated[str, OneOf(lambda: TESTBEDS)], ...] = Field(
        default=("loopback",), strict=False, min_length=1, description="where it can run"
    )
    parameters: Parameters = Parameters()
    factors: Factors = Factors()
    zip: tuple[Annotated[tuple[str, ...], Field(strict=False, min_length=2)], ...] = Field(
        default=(), strict=False, description="groups of factors that move together instead of crossing"
    )
    constraints: tuple[Constraint, ...] = Field(default=(), strict=False)
    knobs: dict[str, Any] = Field(default={}, description="host state for the time of the run; `knob list` names them")
    collectors: Annotated[
        tuple[Annotated[CollectorUse, BeforeValidator(_named)], ...], BeforeValidator(_in_turn), Field(strict=False)
    ] = Field(default=(), description="counters that are read during every trial: names, or {name, required}")
    trial: TrialTimes = TrialTimes()
    repeats: Repeats = Repeats(count=5)
    order: Order = Order()
    baseline: Baseline | None = None
    maximum: Maximum = Maximum()
    noise: Noise = Noise()
    failures: Failures = Failures()
    quick: Quick | None = None
    show: Annotated[tuple[Show, ...], BeforeValidator(_as_list), Field(strict=False)] = Field(
        default=(), description="figures of its runs: one, or a list"
    )
    claims: tuple[OwnClaim, ...] = Field(default=(), strict=False, description="what its author expects of the data")
    must: Literal["claims"] | None = Field(
        default=None, description="claims: `run` fails when a claim of its rows, or its own, disagrees"
    )

    @model_validator(mode="after")
    def _row_or_rows(self) -> Self:
        if self.row is not None and self.rows is not None:
            raise ValueError("row and rows are both given; give one of them, or none for a question of your own")
        return self

    @property
    def all_rows(self) -> tuple[str, ...]:
        """The paper rows, main row first; empty for a question of one's own."""
        return self.rows or ((self.row,) if self.row is not None else ())

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Factor -> its levels in base units; knobs first, then in the order of `Parameters`."""
        knobs = {name: knob_levels(name, levels) for name, levels in self.factors.knobs.items()}
        every = {name: getattr(self.factors, name) for name in Parameters.model_fields}
        return {**knobs, **{name: levels for name, levels in every.items() if levels is not None}}

    def resolved(self) -> dict[str, Any]:
        """The spec with all defaults, in base units, as JSON types (what run.json keeps)."""
        whole = self.model_dump(mode="json", exclude={"factors", "quick"})
        return {**whole, "factors": {name: list(levels) for name, levels in self.levels.items()}}
