# SPDX-License-Identifier: BSD-3-Clause
"""Read the points of a paper's own table of counters (data/papers)."""

from dataclasses import replace

from pollscope.analysis.explain.observations import PointObservations
from pollscope.analysis.papers import citation, stated
from pollscope.base.errors import UsageError
from pollscope.base.units import counted
from pollscope.stats.littles_law import BITS_PER_BYTE, outstanding_requests

# Metrics of docs/reference-metrics.md -> columns of table 1 of the intra-host paper.
COLUMNS = {
    "tx_pps": "tx_rate_pps",
    "pcie_dma_read_bytes_per_s": "ib_read_bytes_per_s",
    "iotlb_hits_per_s": "iotlb_hits_per_s",
    "iotlb_misses_per_s": "iotlb_misses_per_s",
    "iotlb_miss_share": "iotlb_miss_share",
    "nic_pcie_latency_ns": "pcie_latency_mean_ns",
    "nic_pcie_no_completion_clocks": "pcie_stalls_no_completion",
    "nic_mtt_l0_miss_share": "mtt_l0_miss_share",
}
_NOT_STATED = "the paper's table does not have it"


def paper_metadata(paper: str) -> list[PointObservations]:
    """Return one point for each number of sending cores of the table.

    Raises:
        UsageError: the paper states no table of counters.
    """
    table, law = stated(paper, "I-T1"), stated(paper, "I-LL")
    if not table or not law:
        raise UsageError(
            "the paper has no table of counters to explain", citation(paper), "name a run, or --paper intrahost"
        )
    limits = {"tags": float(law["tag_limit"]), "wqes": float(table["log_max_outstanding_wqe"])}
    found: list[PointObservations] = []
    for index, cores in enumerate(table["tx_cores"]):
        values = {metric: float(table[column][index]) for metric, column in COLUMNS.items()}
        lookups = values["iotlb_hits_per_s"] + values["iotlb_misses_per_s"]
        latency_ns, size = values["nic_pcie_latency_ns"], law["request_bytes"]
        inbound = float(table["pcie_inbound_bits_per_s"][index])
        values |= {
            "iotlb_lookups_per_s": lookups,
            "outstanding_reads_nic": outstanding_requests(inbound, latency_ns, size),
            "outstanding_reads_iotlb": outstanding_requests(lookups * BITS_PER_BYTE, latency_ns, 1),
        }
        point = PointObservations(
            counted(cores, "sending core"),
            {"workload": "tx", "cores": cores},
            {metric: (value,) for metric, value in values.items()},
            not_there=_NOT_STATED,
            limits=limits,
        )
        found.append(replace(point, before=found[0] if found else None))
    return found
