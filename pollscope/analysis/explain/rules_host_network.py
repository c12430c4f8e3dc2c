# SPDX-License-Identifier: BSD-3-Clause
"""Judge stages between a NIC and memory: the PCIe link, its tags and credits, work requests, IOTLB, IIO, MTT, DRAM,
DDIO.

Little's law is an identity: when rate and latency rise, so do the reads under way. A higher latency is therefore not a
cause by itself; it shows that some stage queues, and the rules say which stages may, and what would distinguish them.
Predictions of the models of the link, the IOTLB and DDIO are listed beside the measurements (dma_models.py).
"""

from pollscope.analysis.explain.dma_models import ddio_words, iotlb_words, link_share
from pollscope.analysis.explain.finding import CLEAR, LIMITS, OPEN, RuleJudgement, RuleOutcome, judged
from pollscope.analysis.explain.observations import PointObservations
from pollscope.analysis.littles_law import in_flight, walk_share
from pollscope.base.units import human, human_ns, human_number, human_share
from pollscope.metrics.counted import OUTSTANDING
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import NotMeasured
from pollscope.stats.littles_law import BITS_PER_BYTE

# Outstanding reads of a PCIe function with 8-bit extended tags (PCI Express Base Specification 4.0, section 2.2.6.2).
_TAGS = 256
_STALLS = ("nic_pcie_write_stalled_share", "nic_pcie_read_stalled_share")
# Shares of a fixed resource: nearly all in use; and so few in use that it does not limit.
FULL_SHARE, FREE_SHARE = 0.9, 0.5
# Two points are the same within a twentieth, as in the claims on the intra-host paper.
SAME = 0.05
# From this ratio on, a latency counts as higher.
_GROWN = 0.1
_FEW_MISSES = 0.01
# If DRAM writes exceed this share of the packets' bytes, the LLC did not keep the NIC's writes.
_SPILLED_SHARE = 0.1
# If packets take this share of a link, other traffic on it may take the rest.
_BUSY_LINK_SHARE = 0.75
# Share of time in which a NIC waited for PCIe credits.
STALLED_SHARE, FEW_STALLS_SHARE = 0.1, 0.01
# Length of a page walk that is assumed if it was not measured.
WALK_NS = 100.0


def _in_use(point: PointObservations, what: str, limit: float) -> tuple[float, str]:
    known = [name for name in OUTSTANDING if point.known(name) is not None] or OUTSTANDING[:1]
    metric = max(known, key=point.mean)
    reads = point.mean(metric)
    return reads / limit, f"{point.text(metric)}, {human_share(reads / limit)} of {human_number(limit)} {what}"


def _by_share(share: float) -> RuleOutcome:
    if share >= FULL_SHARE:
        return LIMITS
    return CLEAR if share < FREE_SHARE else OPEN


def _link(point: PointObservations) -> RuleJudgement:
    share, said = link_share(point)
    names = ("pcie_dma_read_bytes_per_s", "pcie_dma_write_bytes_per_s")
    measured = (point.text_if_known(name) for name in names)
    return judged(OPEN if share >= _BUSY_LINK_SHARE else CLEAR, said, *measured)


def _credits(point: PointObservations) -> RuleJudgement:
    names = [name for name in _STALLS if point.known(name) is not None] or _STALLS[:1]
    stalled = max(point.mean(name) for name in names)
    kind = OPEN if stalled >= FEW_STALLS_SHARE else CLEAR
    writes = ("outstanding_writes_cha", "outstanding_writes_iio", "outstanding_requests_irp", "cha_write_latency_ns")
    return judged(
        LIMITS if stalled >= STALLED_SHARE else kind, *(point.text_if_known(name) for name in (*names, *writes))
    )


def _tags(point: PointObservations) -> RuleJudgement:
    clocks = point.known("nic_pcie_no_completion_clocks")
    stalls = point.text_if_known("nic_pcie_no_completion_clocks")
    try:
        share, used = _in_use(point, "tags", point.known("nic_tags") or point.limits.get("tags", _TAGS))
    except NotMeasured:
        if not clocks:
            raise
        return judged(LIMITS, stalls)
    return judged(LIMITS if clocks else _by_share(share), used, stalls)


def _work_requests(point: PointObservations) -> RuleJudgement:
    most = point.known("nic_work_requests") or point.limits.get("wqes")
    if most is None:
        raise NotMeasured("the limit of the NIC's outstanding work requests is not recorded (collector mlxconfig)")
    share, used = _in_use(point, "work requests of the NIC", most)
    return judged(_by_share(share), used)


def _change(point: PointObservations, metric: str) -> float | None:
    """Return the metric divided by that of the point with the fewest cores."""
    first = point.before.known(metric) if point.before else None
    now = point.known(metric)
    return now / first if now is not None and first else None


def _from_to(point: PointObservations, metric: str) -> str:
    change = _change(point, metric)
    if change is None or point.before is None:
        return point.text_if_known(metric)
    entry = metric_dictionary()[metric]
    first, now = entry.text(point.before.mean(metric)), entry.text(point.mean(metric))
    return f"{entry.title} {first} -> {now}, x{human_number(change)} since {point.before.label}"


def _iotlb(point: PointObservations) -> RuleJudgement:
    if point.known("iotlb_lookups_per_s") == 0:
        return judged(CLEAR, "nothing is looked up")
    share = point.mean("iotlb_miss_share")
    if point.without_iommu is not None:
        return _against_none(point, point.without_iommu)
    if share < _FEW_MISSES:
        return judged(CLEAR, point.text("iotlb_miss_share"))
    change = _change(point, "iotlb_miss_share")
    same = "no read meets more walks than before" if change and abs(change - 1) <= SAME else ""
    total = _from_to(point, "iotlb_misses_per_s")
    return judged(OPEN, _from_to(point, "iotlb_miss_share"), same, total, *_walks(point), iotlb_words(point))


def _against_none(point: PointObservations, off: PointObservations) -> RuleJudgement:
    metric = "tx_pps" if point.known("tx_pps") else "rx_pps"
    gain = off.mean(metric) / point.mean(metric) - 1
    said = f"with the IOMMU off the rate is {human_share(gain)} higher"
    latency, there = point.known("nic_pcie_latency_ns"), off.known("nic_pcie_latency_ns")
    times = f"PCIe latency {human_ns(latency)} -> {human_ns(there)}" if latency and there else ""
    return judged(LIMITS if gain > SAME else CLEAR, said, times, point.text("iotlb_miss_share"))


def _walks(point: PointObservations) -> list[str]:
    """Return how many walks are under way, and how long they would have to be to explain the latency."""
    misses = point.known("iotlb_misses_per_s")
    if misses is None:
        return []
    walks = point.known("page_walks_under_way")
    length_ns = 1e9 * walks / misses if walks and misses else WALK_NS
    counted = ", as counted" if walks else ""
    flying = human_number(in_flight(misses, length_ns))
    found = [f"a walk of {human_ns(length_ns)} has {flying} of them under way at once{counted}"]
    if point.before is None:
        return found
    names = ("iotlb_misses_per_s", "iotlb_lookups_per_s", "nic_pcie_latency_ns")
    both = [(point.before.known(name), point.known(name)) for name in names]
    numbers = [(first, now) for first, now in both if first and now]
    if len(numbers) == len(names) and numbers[2][1] > numbers[2][0]:
        needed = walk_share(numbers[0], numbers[1], numbers[2], length_ns).walk_ns_needed
        growth = human_ns(numbers[2][1] - numbers[2][0])
        found.append(
            f"walks alone explain {growth} more latency if one of {human_ns(length_ns)} has come to take "
            f"{human_ns(needed)}"
        )
    return found


def _iio(point: PointObservations) -> RuleJudgement:
    latency = point.mean("nic_pcie_latency_ns")
    growth = _change(point, "nic_pcie_latency_ns")
    if growth is None or point.before is None:
        raise NotMeasured(f"no point with fewer cores is there to compare a PCIe latency of {human_ns(latency)} with")
    said = _from_to(point, "nic_pcie_latency_ns")
    if growth < 1 + _GROWN:
        return judged(CLEAR, said)
    rate = _change(point, "tx_pps") or _change(point, "rx_pps")
    identity = ""
    if rate:
        reads = human_number(growth * rate)
        identity = f"rate x{human_number(rate)} and latency x{human_number(growth)} imply x{reads} reads under way"
    return judged(OPEN, said, identity, "some stage behind the NIC queues; it does not lack reads")


def _mtt(point: PointObservations) -> RuleJudgement:
    point.mean("nic_mtt_l0_miss_share")
    growth = _change(point, "nic_mtt_l0_miss_share")
    said = _from_to(point, "nic_mtt_l0_miss_share")
    grown = growth is not None and growth > 1 + _GROWN
    return judged(OPEN if grown else CLEAR, said)


def _dram(point: PointObservations) -> RuleJudgement:
    point.mean("dram_bytes_per_s")
    peak = point.limits.get("dram_bytes_per_s")
    if peak is None:
        raise NotMeasured(f"{point.text('dram_bytes_per_s')}, but the capacity of the DRAM is not recorded")
    share = point.mean("dram_bytes_per_s") / peak
    said = f"{point.text('dram_bytes_per_s')}, {human_share(share)} of {human(peak, 'B/s')}"
    return judged(_by_share(share), said)


def _ddio(point: PointObservations) -> RuleJudgement:
    expected = ddio_words(point)
    try:
        written = point.mean("dram_write_bytes_per_packet")
        share = written / (point.mean("rx_bps") / BITS_PER_BYTE / point.mean("rx_pps"))
    except NotMeasured as absent:
        raise NotMeasured(f"{absent}; {expected}" if expected else str(absent)) from None
    return judged(
        CLEAR if share <= _SPILLED_SHARE else OPEN,
        f"{point.text('dram_write_bytes_per_packet')}, {human_share(share)} of a packet's bytes",
        expected,
        point.text_if_known("dma_write_llc_hit_share"),
    )


JUDGES = {
    "PCIe link": _link,
    "PCIe credits": _credits,
    "PCIe tags": _tags,
    "work requests": _work_requests,
    "IOTLB walks": _iotlb,
    "IIO queueing": _iio,
    "NIC's MTT cache": _mtt,
    "DRAM": _dram,
    "DDIO capacity": _ddio,
}
