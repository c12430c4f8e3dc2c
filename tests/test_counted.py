# SPDX-License-Identifier: BSD-3-Clause
"""Test metrics from collectors' counts: which collector is preferred, units, and why a metric is absent."""

import json
from typing import Any

import pytest
from synthetic_run import trial

from pollscope.metrics.counted import COUNTED
from pollscope.metrics.derive import derive_trial
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.testbeds.collecting import key_of, node_counts


def mean(value: float, unit: str = "1/s", units: int = 1) -> dict[str, Any]:
    return {"value": value, "unit": unit, "units": units}


def delivered(**means: Any) -> dict[str, Any]:
    return {"status": "ok", "reason": "", "cpu_share": 0.01, "means": means}


def metrics_of(**collectors: Any) -> tuple[dict[str, float], dict[str, str]]:
    record = {**trial(), "collectors": {name.replace("_", "-"): each for name, each in collectors.items()}}
    return derive_trial(record)


def test_every_counted_metric_stands_in_its_group_of_the_dictionary() -> None:
    named = {name for name, metric in metric_dictionary().metrics.items() if metric.group == "counted"}
    assert named == set(COUNTED)


def test_pcm_iio_comes_before_others_and_is_not_added_to_them() -> None:
    iio = delivered(dma_write=mean(2e9, "B/s"), **{"iotlb.lookups": mean(1000), "iotlb.misses": mean(30)})
    uncore = delivered(dma_write=mean(9e9, "B/s"), dma_read=mean(5e9, "B/s"))
    metrics, absences = metrics_of(pcm_iio=iio, perf_uncore=uncore)
    assert metrics["pcie_dma_write_bytes_per_s"] == 2e9
    assert metrics["pcie_dma_read_bytes_per_s"] == 5e9  # the second may have values that the first did not count
    assert metrics["iotlb_miss_share"] == pytest.approx(0.03)
    assert metrics["iotlb_lookups_per_s"] == 1000
    assert absences["iommu_memory_accesses_per_s"].startswith("pcm-iio gave no iommu_memory_accesses in the window")


def test_a_nics_own_traffic_stands_beside_the_sum_and_on_amd_both_sockets_are_summed() -> None:
    iio = delivered(dma_read=mean(9e9, "B/s"), dma_write=mean(8e9, "B/s"), nic_dma_write=mean(5e9, "B/s"))
    metrics, absences = metrics_of(pcm_iio=iio)
    assert (metrics["pcie_dma_write_bytes_per_s"], metrics["nic_dma_write_bytes_per_s"]) == (8e9, 5e9)
    assert "pcm-iio gave no nic_dma_read in the window" in absences["nic_dma_read_bytes_per_s"]
    genoa = delivered(dma_write_local=mean(3e9, "B/s"), dma_write_remote=mean(1e9, "B/s"))
    metrics, _ = metrics_of(perf_uncore=genoa, amd_uprof_pcm=delivered(dram_read=mean(7e9, "B/s")))
    assert metrics["pcie_dma_write_bytes_per_s"] == 4e9
    assert metrics["dram_read_bytes_per_s"] == 7e9


def test_misses_per_packet_relate_the_window_to_the_packets_of_the_dut() -> None:
    metrics, _ = metrics_of(vtd_pmu=delivered(**{"iotlb.lookups": mean(4000), "iotlb.misses": mean(2000)}))
    assert metrics["iotlb_misses_per_packet"] == pytest.approx(2000 / metrics["rx_pps"])


def test_occupancies_are_latencies_by_littles_law() -> None:
    counts = {
        "completion_buffer_occupancy": mean(6e9, "cycles/s", units=6),
        "completion_buffer_inserts": mean(2e7, units=6),
        "irp_queue_occupancy": mean(1e8, "cycles/s"),
        "irp_queue_inserts": mean(0),
        "pcirdcur_occupancy": mean(9e9, "cycles/s"),
        "pcirdcur_hit": mean(2e7, "cachelines/s"),
        "pcirdcur_miss": mean(1e7, "cachelines/s"),
        "read_queue_occupancy": mean(8e8, "cycles/s"),
        "read_queue_inserts": mean(2e7),
    }
    metrics, absences = metrics_of(perf_uncore=delivered(**counts))
    assert metrics["completion_buffer_latency_cycles"] == pytest.approx(300)
    assert metrics["cha_read_latency_cycles"] == pytest.approx(300)
    assert metrics["dram_read_queue_latency_cycles"] == pytest.approx(40)
    assert "counted no request of a device" in absences["irp_queue_latency_cycles"]
    _, absences = metrics_of(perf_uncore=delivered(completion_buffer_occupancy=mean(6e9, "cycles/s")))
    assert "gave no completion_buffer_inserts" in absences["completion_buffer_latency_cycles"]


def test_costs_per_sent_packet_use_the_packets_that_the_dut_sent() -> None:
    counts = {"iotlb.lookups": mean(4000), "iotlb.misses": mean(1000), "dma_read": mean(2e9, "B/s")}
    record = {**trial(), "collectors": {"pcm-iio": delivered(**counts)}}
    record["result"]["dut"]["lcores"][0]["tx_packets"] //= 4
    metrics, _ = derive_trial(record)
    assert metrics["rx_pps"] > 3 * metrics["tx_pps"]
    assert metrics["iotlb_misses_per_sent_packet"] == pytest.approx(1000 / metrics["tx_pps"])
    assert metrics["pcie_dma_read_bytes_per_sent_packet"] == pytest.approx(2e9 / metrics["tx_pps"])
    assert metrics["iotlb_hits_per_s"] == 3000


def test_memory_traffic_of_both_hosts_is_given_per_packet() -> None:
    dut = delivered(dram_read=mean(3e9, "B/s"), dram_write=mean(1e9, "B/s"))
    sender = delivered(dram_read=mean(5e8, "B/s"), dram_write=mean(2e8, "B/s"))
    record = {**trial(), "collectors": {"dut/pcm-memory": dut, key_of("generator", "pcm-memory"): sender}}
    metrics, _ = derive_trial(record)
    assert metrics["dram_bytes_per_s"] == 4e9
    assert metrics["dram_read_bytes_per_packet"] == pytest.approx(3e9 / metrics["rx_pps"])
    assert metrics["dram_write_bytes_per_packet"] == pytest.approx(1e9 / metrics["rx_pps"])
    assert metrics["generator_dram_read_bytes_per_packet"] == pytest.approx(5e8 / metrics["offered_pps"])
    assert metrics["generator_dram_write_bytes_per_packet"] == pytest.approx(2e8 / metrics["offered_pps"])
    _, absences = metrics_of(pcm_memory=dut)
    assert "generator/pcm-memory" in absences["generator_dram_read_bytes_per_packet"]


def test_reads_without_a_completion_buffer_are_neohosts() -> None:
    """Another thing than mlx5's outbound_pci_stalled_rd."""
    metrics, absences = metrics_of(neohost=delivered(pcie_stalled_no_completion=mean(7, "1")))
    assert metrics["nic_pcie_no_completion_clocks"] == 7
    assert "nic_pcie_read_stalled_share" in absences
    stalled = delivered(**{"nic.pcie_read_stalled_percent": mean(3, "%")})
    assert "nic_pcie_no_completion_clocks" in metrics_of(ethtool=stalled)[1]


@pytest.mark.parametrize(("workload", "moved"), [("io", "tx_pps"), ("rx", "rx_pps"), ("ipsec", "rx_pps")])
def test_moved_packets_are_sent_ones_or_received_if_none_are_sent(workload: str, moved: str) -> None:
    record = trial()
    record["config"]["dut"]["workload"] = workload
    record["result"]["dut"]["lcores"][0]["tx_packets"] //= 4
    metrics, _ = derive_trial(record)
    assert metrics["rx_pps"] != metrics["tx_pps"]
    assert metrics["moved_pps"] == metrics[moved]


def test_without_the_tax_a_core_would_move_more_and_one_that_only_sends_pays_none() -> None:
    record = trial()
    record["config"]["dut"]["workload"] = "rx"
    metrics, _ = derive_trial(record)
    assert 0 < metrics["tax_share_running"] < 1
    untaxed = metrics["moved_pps"] / (1 - metrics["tax_share_running"])
    assert metrics["moved_pps_without_tax"] == pytest.approx(untaxed)
    record["config"]["dut"]["workload"] = "tx"
    metrics, _ = derive_trial(record)
    assert metrics["moved_pps_without_tax"] == metrics["tx_pps"]


def test_ddio_hits_of_ice_lake_include_near_writes_and_those_of_skylake_have_none() -> None:
    ice_lake = {"itom_hit": 60, "itom_miss": 20, "itomcachenear_hit": 15, "itomcachenear_miss": 5}
    metrics, _ = metrics_of(pcm_pcie=delivered(**{name: mean(value) for name, value in ice_lake.items()}))
    assert metrics["dma_write_llc_hit_share"] == pytest.approx(0.75)
    skylake = delivered(itom_hit=mean(60), itom_miss=mean(20), pcirdcur_hit=mean(0), pcirdcur_miss=mean(0))
    metrics, absences = metrics_of(pcm_pcie=skylake)
    assert metrics["dma_write_llc_hit_share"] == pytest.approx(0.75)
    assert absences["dma_read_llc_hit_share"] == "pcm-pcie counted no read of a device"


def test_granite_rapids_counts_dram_in_two_halves() -> None:
    halves = delivered(dram_read_schedule0=mean(3e9, "B/s"), dram_read_schedule1=mean(4e9, "B/s"))
    metrics, absences = metrics_of(perf_uncore=halves)
    assert metrics["dram_read_bytes_per_s"] == 7e9
    assert "dram_write_bytes_per_s" in absences


def test_percent_nanoseconds_and_power_come_in_base_units() -> None:
    metrics, _ = metrics_of(
        ethtool=delivered(**{"nic.pcie_read_stalled_percent": mean(12.5, "%")}),
        neohost=delivered(pcie_latency_mean=mean(8.12e-7, "s")),
        turbostat=delivered(package_power=mean(80.0, "W", units=2)),
    )
    assert metrics["nic_pcie_read_stalled_share"] == 0.125
    assert metrics["nic_pcie_latency_ns"] == pytest.approx(812)
    assert metrics["package_power_w"] == 160.0
    assert metrics["energy_per_packet_nj"] == pytest.approx(160.0 * 1e9 / metrics["rx_pps"])


def test_an_absence_names_the_outcome_of_each_collector() -> None:
    dead: dict[str, Any] = {
        "status": "failed",
        "reason": "pcm-memory ended with status 1",
        "cpu_share": None,
        "means": {},
    }
    _, absences = metrics_of(pcm_memory=dead, perf_uncore=delivered(dma_write=mean(1.0)))
    assert absences["dram_read_bytes_per_s"] == (
        "pcm-memory is failed: pcm-memory ended with status 1; perf-uncore gave no dram_read in the window"
    )
    assert absences["nic_pcie_latency_ns"] == "no collector of this trial counts it (the spec may name neohost)"
    assert "dram_read_bytes_per_s" in derive_trial(trial())[1]  # a run without any collector


def test_the_nodes_counts_are_matched_by_cpu_and_window() -> None:
    result = trial()["result"]
    assert list(node_counts(result)) == []  # its PMU is absent
    lcore = result["dut"]["lcores"][0]
    lcore["pmu"] = {"window": {"instructions": 3e9, "cycles": 2e9}}
    (counts,) = node_counts(result)
    assert (counts.cpu, counts.instructions, counts.cycles) == (lcore["cpu"], 3e9, 2e9)
    window = result["window"]
    assert counts.window_s == (window["end_tsc"] - window["start_tsc"]) / window["tsc_hz"]
    lcore["pmu"] = {"window": {"instructions": "many", "cycles": 2e9}}
    assert list(node_counts(result)) == []


# Columns of table 1 of the intra-host paper: bits/s at the NIC, look-ups (hits, misses), bytes/s at the IIO, latency.
TABLE = {1: (15.99e9, 20.30e6 + 11.25e6, 1.48e9, 1627e-9), 2: (19.99e9, 25.32e6 + 14.13e6, 1.85e9, 2468e-9)}


@pytest.mark.parametrize(("cores", "reads"), [(1, (50.8, 51.3, 37.6)), (2, (96.3, 97.4, 71.3))])
def test_outstanding_reads_are_computed_in_three_ways_with_their_disagreement(
    cores: int, reads: tuple[float, float, float]
) -> None:
    bits, lookups, read_bytes, latency_s = TABLE[cores]
    nic = delivered(pcie_inbound=mean(bits / 8, "B/s"), pcie_latency_mean=mean(latency_s, "s"))
    iio = delivered(dma_read=mean(read_bytes, "B/s"), **{"iotlb.lookups": mean(lookups)})
    metrics, _ = metrics_of(neohost=nic, pcm_iio=iio)
    found = [metrics[f"outstanding_reads_{way}"] for way in ("nic", "iotlb", "iio")]
    assert found == pytest.approx(reads, abs=0.1)
    assert metrics["outstanding_reads_disagreement"] == pytest.approx(max(reads) / min(reads) - 1, rel=0.01)


def test_a_single_way_to_outstanding_reads_has_no_disagreement() -> None:
    nic = delivered(pcie_inbound=mean(2e9, "B/s"), pcie_latency_mean=mean(1e-6, "s"))
    metrics, absences = metrics_of(neohost=nic)
    assert metrics["outstanding_reads_nic"] == pytest.approx(31.25)
    assert absences["outstanding_reads_disagreement"].startswith("fewer than two of outstanding_reads_nic")


# A stack at 500 MHz, two agents at 2 GHz: 64 M writes (200 ns each) and 32 M reads (100 ns each) per second.
OCCUPANCIES = {
    "llc_io_occupancy": mean((64e6 * 200e-9 + 32e6 * 100e-9) * 2e9, "cycles/s", units=2),
    "llc_io_hits": mean(60e6),
    "llc_io_misses": mean(36e6),
    "itom_occupancy": mean(64e6 * 200e-9 * 2e9, "cycles/s", units=2),
    "itom_hit": mean(48e6),
    "itom_miss": mean(16e6),
    "cha_clock": mean(4e9, "cycles/s", units=2),
    "irp_occupancy": mean(20 * 0.5e9, "cycles/s"),
    "irp_clock": mean(0.5e9, "cycles/s"),
    "completion_buffer_occupancy": mean(7 * 0.5e9, "cycles/s"),
    "iio_clock": mean(0.5e9, "cycles/s"),
    "dma_write": mean(64e6 * 64, "B/s"),
}


def test_occupancy_over_clock_agrees_with_rate_times_latency() -> None:
    metrics, _ = metrics_of(perf_uncore=delivered(**OCCUPANCIES))
    assert metrics["outstanding_writes_cha"] == pytest.approx(12.8)
    assert metrics["cha_write_latency_ns"] == pytest.approx(200)
    assert metrics["outstanding_writes_iio"] == pytest.approx(12.8)
    assert metrics["outstanding_requests_cha"] == pytest.approx(16)
    assert metrics["cha_request_latency_ns"] == pytest.approx(1e9 * 16 / 96e6)
    assert (metrics["outstanding_requests_irp"], metrics["outstanding_reads_buffers"]) == (20, 7)


def test_occupied_walkers_over_their_clock_are_walks_in_progress() -> None:
    counts = {"page_walk_occupancy": mean(3e9, "1/s", units=2), "iommu_clocks": mean(2e9, units=2)}
    assert metrics_of(vtd_pmu=delivered(**counts))[0]["page_walks_under_way"] == pytest.approx(3)
    other = {"page_walk_occupancy": counts["page_walk_occupancy"], "iio_clock": mean(1e9, "cycles/s", units=2)}
    assert metrics_of(perf_uncore=delivered(**other))[0]["page_walks_under_way"] == pytest.approx(6)


@pytest.mark.parametrize(
    ("without", "metric", "reason"),
    [
        ("itom_occupancy", "outstanding_writes_iio", "perf-uncore gave no itom_occupancy in the window"),
        ("cha_clock", "outstanding_requests_cha", "perf-uncore gave no cha_clock in the window"),
        ("irp_occupancy", "outstanding_requests_irp", "perf-uncore gave no irp_occupancy in the window"),
    ],
)
def test_an_occupancy_without_its_clock_is_no_number_of_requests(without: str, metric: str, reason: str) -> None:
    counts = {name: each for name, each in OCCUPANCIES.items() if name != without}
    _, absences = metrics_of(perf_uncore=delivered(**counts))
    assert absences[metric] == reason


def settings(**devices: dict[str, float]) -> dict[str, Any]:
    return {**delivered(), "states": {f"device:{address}": each for address, each in devices.items()}}


def test_shares_of_tags_and_work_requests_are_those_of_the_dut_s_nic() -> None:
    bits, lookups, _, latency_s = TABLE[2]
    nic = delivered(pcie_inbound=mean(bits / 8, "B/s"), pcie_latency_mean=mean(latency_s, "s"))
    iio = delivered(**{"iotlb.lookups": mean(lookups)})
    own, other = {"tags": 256.0}, {"tags": 32.0}
    record = {
        **trial(),
        "collectors": {
            "neohost": nic,
            "pcm-iio": iio,
            "mlxconfig": settings(**{"4b:00.0": {"LOG_MAX_OUTSTANDING_WQE": 7.0}}),
            "pcie": settings(**{"0000:4b:00.0": own, "0000:01:00.0": other}),
        },
    }
    text = json.dumps(record).replace("net_crossover0_b", "0000:4b:00.0")
    metrics, _ = derive_trial(json.loads(text))
    assert (metrics["nic_tags"], metrics["nic_work_requests"]) == (256, 128)
    assert metrics["tags_used_share"] == pytest.approx(97.4 / 256, rel=1e-3)
    assert metrics["work_requests_used_share"] == pytest.approx(97.4 / 128, rel=1e-3)
    _, absences = derive_trial(record)
    assert absences["tags_used_share"] == "pcie gave tags of 2 devices"
    assert "the spec may name pcie" in metrics_of(neohost=nic)[1]["tags_used_share"]
    assert "no register and no counter" in absences["credits_used_share"]
