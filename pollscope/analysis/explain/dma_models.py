# SPDX-License-Identifier: BSD-3-Clause
"""Put into words what the models of PCIe, IOTLB and DDIO (docs/models.md) expect of a point.

A model decides nothing by itself: each sentence begins with `by the model`, and names what the model assumes.
"""

from pollscope.analysis.explain.observations import PointObservations
from pollscope.base.errors import UsageError
from pollscope.base.knob_values import parse_setting
from pollscope.base.units import human_number, human_share, human_size
from pollscope.metrics.record import NotMeasured
from pollscope.models.dma_caches import Iotlb, ddio_hits, ring_footprint_bytes
from pollscope.models.pcie import GENERATIONS, LinkBytes, PcieLink, received, sent

_BY_THE_MODEL = "by the model"
# Share of the LLC in which DDIO allocates if neither the LLC's ways nor DDIO's are known: two ways of twenty (Intel
# DDIO primer, 2012; intra-host paper, section 2.2.1).
DDIO_SHARE, DDIO_WAYS = 0.1, 2
# An IOTLB as Neugebauer et al. (SIGCOMM 2018, section 6.5) found it; and DPDK's page size if none was requested.
IOTLB_ENTRIES, WALK_NS = 64, 330.0
PAGE_BYTES = {"4 KiB": 4096, None: 2 << 20, "2 MiB": 2 << 20, "1 GiB": 1 << 30}
# Data room and headroom of an mbuf, as DPDK makes it (RTE_MBUF_DEFAULT_BUF_SIZE).
MBUF_BYTES = 2176


def link_of(setting: dict[str, float]) -> PcieLink | None:
    """Return the link of a NIC by its configuration space; None if the model does not know it."""
    generation = next((n for n, (speed, _) in GENERATIONS.items() if speed == setting.get("link_speed")), None)
    try:
        lanes, payload, request = (setting[name] for name in ("link_width", "max_payload", "max_read_request"))
        return PcieLink(generation or 0, int(lanes), int(payload), int(request))
    except (KeyError, UsageError):
        return None


def _frame(point: PointObservations) -> int:
    frame = point.param("frame")
    if not isinstance(frame, int):
        raise NotMeasured("the models know frames of one size only")
    return frame


def link_share(point: PointObservations) -> tuple[float, str]:
    """Return the share of the link that the measured packets take, and a sentence that states it."""
    if point.nic_link is None:
        raise NotMeasured("the link of the NIC is not recorded (collector pcie, as root)")
    frame = _frame(point)
    both = LinkBytes(0.0, 0.0)
    both = both.plus(received(point.nic_link, frame), point.known("rx_pps") or 0.0)
    both = both.plus(sent(point.nic_link, frame), point.known("tx_pps") or 0.0)
    if not max(both):
        raise NotMeasured(point.why_absent("rx_pps") if point.why_absent else point.not_there)
    share = 8 * max(both) / point.nic_link.tlp_bits_per_s
    name = f"Gen{point.nic_link.generation} x{point.nic_link.lanes}"
    fuller = "to the host" if both.upstream >= both.downstream else "to the NIC"
    return share, (
        f"{_BY_THE_MODEL} packets with their descriptors take {human_share(share)} of {name} (direction {fuller}; "
        f"payload {point.nic_link.max_payload} B, read requests {point.nic_link.max_read_request} B)"
    )


def iotlb_words(point: PointObservations) -> str:
    """Compare the reach of an IOTLB with the memory of the rings; empty if the rings are unknown."""
    # A tx workload has no RX ring in use.
    ring = point.param("tx_desc" if point.param("workload") == "tx" else "rx_desc")
    queues = point.param("cores" if point.param("workload") == "tx" else "queues") or 1
    used = int(ring or 0) * int(queues) * MBUF_BYTES
    if not used:
        return ""
    cache = Iotlb(IOTLB_ENTRIES, PAGE_BYTES[point.param("page_size")], WALK_NS)
    page, reach = human_size(cache.page_bytes), human_size(cache.reach_bytes)
    return (
        f"{_BY_THE_MODEL} {IOTLB_ENTRIES} entries of {page} reach {reach}"
        f"; buffers of the rings take {human_size(used)}, so {human_share(cache.miss_share(used))} of look-ups miss"
    )


def ddio_words(point: PointObservations) -> str:
    """Describe the modelled hit rate of device writes, from rings and ways; empty if the LLC or rings are unknown."""
    ring, frame = point.param("rx_desc"), point.param("frame")
    if not ring or not isinstance(frame, int) or not point.llc_bytes:
        return ""
    footprint = ring_footprint_bytes(int(point.param("queues") or 1), int(ring), frame)
    ways, way_bytes, which = _ways(point, point.llc_bytes)
    hits = ddio_hits(footprint, ways, way_bytes)
    return (
        f"{_BY_THE_MODEL} {human_share(hits.low)} to {human_share(hits.high)} of writes hit: rings take "
        f"{human_size(footprint)}, DDIO allocates in {human_size(ways * way_bytes)} ({which})"
    )


def _ways(point: PointObservations, llc_bytes: float) -> tuple[int, float, str]:
    """Return the ways that device writes allocate in, the bytes of one, and the source of these numbers."""
    if point.llc_ways is None:
        return DDIO_WAYS, DDIO_SHARE / DDIO_WAYS * llc_bytes, "a tenth of the LLC, as its ways are not recorded"
    asked = _asked_ways(point.param("knob.ddio_ways"))
    ways = min(asked or DDIO_WAYS, point.llc_ways)
    origin = "as set by the knob ddio_ways" if asked else "assumed"
    return ways, llc_bytes / point.llc_ways, f"{human_number(ways)} of {point.llc_ways} ways, {origin}"


def _asked_ways(level: object) -> int | None:
    """Return the number of ways of the knob's level: `4 ways`, or a mask."""
    if level is None:
        return None
    value = parse_setting("ddio_ways", level)
    return int(value.split()[0]) if value.endswith("ways") else int(value, 16).bit_count()
