# SPDX-License-Identifier: BSD-3-Clause
"""A recorded interval of the trace of QEMU's virtual Intel IOMMU. Its label is its length in ns, so counts become
rates.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

# hw/i386/trace-events of QEMU: an update is the fill of an entry after a miss; a device-wide reset empties the IOTLB.
EVENTS = {
    "vtd_iotlb_page_hit": "iotlb_hits",
    "vtd_iotlb_page_update": "iotlb_misses",
    "vtd_iotlb_reset": "iotlb_resets",
}
_PAGE = re.compile(
    r"(vtd_iotlb_page_(?:hit|update)) IOTLB page \w+ sid 0x([0-9a-f]+) iova 0x[0-9a-f]+ "
    r"slpte 0x[0-9a-f]+ domain 0x[0-9a-f]+"
)
_METRICS = {metric: SourceMetric(metric, "1/s", Kind.RATE) for metric in EVENTS.values()}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Return the events of each interval as rates: hits and misses per device, resets of the IOMMU.

    Raises:
        ParseError: the label does not give the length of the interval.
    """
    if not re.fullmatch(r"[1-9]\d*", origin.label):
        raise origin.refuse(1, f"the interval has no length in ns: {origin.label!r}", "record again")
    counts: Counter[tuple[str, str]] = Counter()
    for number, text in numbered(lines, origin):
        found = _PAGE.fullmatch(text.strip())
        if found:
            source_id = int(found[2], 16)  # bus, device and function of PCI Express
            counts[EVENTS[found[1]], f"{source_id >> 8:02x}:{source_id >> 3 & 31:02x}.{source_id & 7}"] += 1
        elif text.startswith("vtd_iotlb_reset"):
            counts["iotlb_resets", ""] += 1
        else:
            origin.leave_out(number, f"no event of the IOTLB: {text.strip()[:60]!r}")
    seconds = int(origin.label) / 1e9
    whole = {metric: sum(count for (name, _), count in counts.items() if name == metric) for metric in EVENTS.values()}
    yield reading(origin.now(), "emulated", ((_METRICS[name], count / seconds, "") for name, count in whole.items()))
    for device in sorted({device for _, device in counts if device}):
        cells = ((_METRICS[name], counts[name, device] / seconds, "") for name in ("iotlb_hits", "iotlb_misses"))
        yield reading(origin.now(), f"emulated/{device}", cells)
