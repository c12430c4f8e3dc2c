# SPDX-License-Identifier: BSD-3-Clause
"""Check the generator's traffic: rate, schedule, sizes, loss, and its report of what it could not send."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from gen_node import RECEIVES, WARMUP_S, WINDOW_S, Generator, running_generator
from hdrh.histogram import HdrHistogram

from pollscope.node.client import NodeRefused

pytestmark = pytest.mark.measure

LINK_BPS = 100e9  # of net_crossover
IMIX = [{"bytes": 64, "weight": 7}, {"bytes": 570, "weight": 4}, {"bytes": 1518, "weight": 1}]


def value_counts(histogram: dict[str, Any]) -> dict[int, int]:
    return dict(histogram["values"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pps", [1e5, 1e6, 3e6])
def test_constant_rate_is_intended_exactly_and_accounted_for(generator: Generator, pps: float) -> None:
    generator.configure()
    gen, ports = generator.trial({"pps": pps})
    assert gen["intended"] == pytest.approx(pps * WINDOW_S, abs=1)
    assert gen["sent"] + gen["unsent"] == gen["intended"]
    away_s = gen["host_gaps"]["in_over_100us_ns"] / 1e9
    if away_s < 0.05 * WINDOW_S:  # beyond it other work of the machine also slows the loop between its gaps
        assert gen["unsent"] <= 0.002 * gen["intended"] + pps * away_s
    assert gen["tx_bytes"] == 60 * gen["sent"]
    assert gen["lateness_ns"]["total"] == gen["sent"]
    assert gen["lateness_ns"]["max"] <= 100_000
    assert gen["sent"] < gen["total"]["sent"] <= pps * (WARMUP_S + WINDOW_S) + 1
    assert ports[RECEIVES]["stats"]["ipackets"] == gen["total"]["sent"]


def test_nothing_is_lost_duplicated_or_reordered(generator: Generator) -> None:
    generator.configure(flows=64)
    gen, ports = generator.trial({"pps": 100_000})
    assert gen["total"]["rx_packets"] == gen["total"]["sent"] > 0
    order = gen["sequence"]
    assert [order[name] for name in ("lost", "duplicated", "reordered", "reordered_in_total", "too_old")] == [0] * 5
    assert order["extent"]["total"] == order["distance"]["total"] == order["degree"]["total"] == 0
    assert order["flows"] == {"sent": 64, "lossy": 0, "duplicated": 0, "reordered": 0}
    assert gen["rx_foreign"] == 0
    assert ports[RECEIVES]["stats"]["imissed"] == 0


def test_loss_is_reported_by_flow(generator: Generator) -> None:
    """Only flows of one queue lose packets: no core empties it while the generator's lcore writes a burst too long."""
    generator.configure(queues=4, flows=8, burst=256, shape="PC", concentrated_share=0.25, background_probability=0.01)
    gen, _ = generator.trial({"saturate": True}, window_s=0.1)
    order = gen["sequence"]
    assert order["lost"] == gen["total"]["sent"] - gen["total"]["rx_packets"]
    assert (order["flows"]["lossy"] > 0) == (order["lost"] > 0)
    if order["lost"]:
        worst = order["flows"]["worst_loss"]
        assert 0 < worst["lost"] <= min(worst["sent"], order["lost"])


def test_every_packet_of_the_window_has_a_latency(generator: Generator) -> None:
    generator.configure()
    gen, _ = generator.trial({"pps": 200_000})
    from_intended, from_sent = gen["latency_ns"]["from_intended"], gen["latency_ns"]["from_sent"]
    assert from_intended["total"] == from_sent["total"] == gen["sent"]
    # latency from the intended departure is lateness plus latency from the real departure; each was rounded down
    assert from_intended["sum"] == pytest.approx(from_sent["sum"] + gen["lateness_ns"]["sum"], abs=2 * gen["sent"])
    assert 10 < from_sent["min"] < 5_000


def test_poisson_interdepartures_are_exponential(generator: Generator) -> None:
    """Kolmogorov-Smirnov at 0.1 Mpps over 10000 scheduled departures; the real ones are those and their lateness.

    Those that left on time are no sample to test: a long wait is likelier than a short one to meet a gap of the host.
    """
    generator.configure(arrivals="poisson", seed=5, departures=30_000)
    gen, _ = generator.trial({"pps": 1e5}, window_s=0.15)
    sent, lateness = np.array(gen["departures"], dtype=float).T / generator.client.hello["tsc_hz"]
    if gen["unsent"]:
        pytest.skip(f"the host kept {gen['unsent']} packets from leaving: they are missing in the list")
    assert scipy.stats.kstest(np.diff(sent - lateness)[:10_000], "expon", args=(0, 1e-5)).pvalue > 0.001
    assert np.median(lateness) < 1e-6


def intended(gen: dict[str, Any], tsc_hz: float) -> np.ndarray:
    """Return when packets were due, in seconds."""
    sent, lateness = np.array(gen["departures"], dtype=float).T / tsc_hz
    return np.asarray(sent - lateness)


def test_packets_of_a_burst_are_due_together(generator: Generator) -> None:
    generator.configure(arrivals="bursts", burst_packets=16, departures=30_000)
    gen, _ = generator.trial({"pps": 1e5})
    gaps = np.diff(intended(gen, generator.client.hello["tsc_hz"]))
    between = gaps[gaps > 1e-9]
    # Slots are at whole cycles.
    assert np.median(between) == pytest.approx(16e-5, abs=1 / generator.client.hello["tsc_hz"])
    assert len(gaps) / len(between) == pytest.approx(16, rel=0.01)
    assert gen["intended"] == pytest.approx(1e5 * WINDOW_S, abs=16)


def test_arrivals_switch_on_and_off(generator: Generator) -> None:
    generator.configure(arrivals="on-off", on_ns=1_000_000, off_ns=3_000_000, departures=30_000)
    gen, _ = generator.trial({"pps": 1e5})
    times = intended(gen, generator.client.hello["tsc_hz"])
    # 400 packets in 4 ms come in the first of them, 2.5 us apart. A CPU that is taken away leaves some out.
    assert np.median(np.diff(times)) == pytest.approx(2.5e-6, abs=2e-9)
    assert np.count_nonzero(np.diff(times) > 1e-3) > 10
    phases = np.sort((times - times[0]) % 4e-3)
    assert np.diff(phases, append=phases[0] + 4e-3).max() == pytest.approx(3e-3 + 2.5e-6, abs=1e-7)
    assert gen["intended"] == pytest.approx(1e5 * WINDOW_S, abs=400)
    with pytest.raises(NodeRefused, match=r"in a period of 0\.004 s"):
        generator.trial({"pps": 10})
    assert generator.trial({"pps": 1e5})[0]["sent"] > 0


def test_constant_departures_keep_their_distance(generator: Generator) -> None:
    generator.configure(departures=10_000)
    gen, _ = generator.trial({"pps": 1e5})
    tsc_hz = generator.client.hello["tsc_hz"]
    sent, lateness = np.array(gen["departures"], dtype=float).T / tsc_hz
    assert len(sent) == min(10_000, gen["sent"])
    slots = (sent - lateness) / 1e-5  # every intended departure is a whole number of intervals after the first
    assert np.abs(slots - slots[0] - np.round(slots - slots[0])).max() < 2 / tsc_hz / 1e-5


def test_interdeparture_histogram_matches_departures(generator: Generator) -> None:
    generator.configure(departures=1_000_000)
    gen, _ = generator.trial({"pps": 1e5})
    tsc_hz = generator.client.hello["tsc_hz"]
    gaps_ns = np.diff(np.array(gen["departures"], dtype=float)[:, 0]) / tsc_hz * 1e9
    layout = gen["interdeparture_ns"]
    histogram = HdrHistogram(layout["lowest"], layout["highest"], layout["significant_digits"])
    for index, count in layout["counts"]:
        histogram.record_value(histogram.get_value_from_index(index), count)
    assert layout["total"] == gen["sent"] - 1 == len(gaps_ns)
    assert histogram.get_value_at_percentile(50) == pytest.approx(np.median(gaps_ns), rel=0.002)
    assert layout["max"] == pytest.approx(gaps_ns.max(), abs=2)


def test_line_share_counts_the_frame_on_the_wire(generator: Generator) -> None:
    generator.configure(frame=IMIX)
    mean_bytes = (7 * 64 + 4 * 570 + 1518) / 12
    share = 200_000 * 8 * (mean_bytes + 20) / LINK_BPS
    gen, _ = generator.trial({"line_share": share})
    assert gen["intended"] == pytest.approx(200_000 * WINDOW_S, abs=1)


def test_sizes_are_mixed_by_weight(generator: Generator) -> None:
    generator.configure(frame=IMIX)
    gen, ports = generator.trial({"pps": 300_000})
    mean = (7 * 60 + 4 * 566 + 1514) / 12
    assert gen["tx_bytes"] / gen["sent"] == pytest.approx(mean, rel=0.03)
    assert gen["total"]["rx_packets"] == gen["total"]["sent"]
    assert ports[RECEIVES]["stats"]["ibytes"] == pytest.approx(mean * gen["total"]["sent"], rel=0.03)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", [64, 65, 96, 1518, 9000])
def test_every_size_arrives_whole(generator: Generator, size: int) -> None:
    generator.configure(mtu=max(1500, size - 18), frame=[{"bytes": size}])
    gen, ports = generator.trial({"pps": 20_000})
    assert gen["total"]["rx_packets"] == gen["total"]["sent"] > 0
    assert gen["rx_bytes"] == gen["rx_packets"] * (size - 4)
    assert ports[RECEIVES]["stats"]["ibytes"] == gen["total"]["sent"] * (size - 4)


def test_an_impossible_rate_is_reported(generator: Generator) -> None:
    generator.configure()
    gen, _ = generator.trial({"pps": 1.5e8})
    assert gen["intended"] == pytest.approx(1.5e8 * WINDOW_S, abs=1)
    assert gen["unsent"] > 0.2 * gen["intended"]
    assert gen["sent"] + gen["unsent"] == gen["intended"]
    assert gen["sequence"]["duplicated"] == 0


def test_lateness_limit_is_kept(generator: Generator) -> None:
    """Packets leave within 2 us of the intended time or not at all, and bursts stay that small."""
    generator.configure(late_max_ns=2_000)
    gen, _ = generator.trial({"pps": 2e6})
    assert gen["lateness_ns"]["max"] <= 2_000
    assert max(value_counts(gen["histogram"]["burst"])) <= 5
    assert gen["sent"] + gen["unsent"] == gen["intended"]


def test_saturated_generator_has_no_schedule(generator: Generator) -> None:
    generator.configure(rx_port=None)
    gen, ports = generator.trial({"saturate": True})
    assert gen["intended"] == gen["sent"] > 1e6 * WINDOW_S
    assert gen["unsent"] == 0
    assert "absent" in gen["lateness_ns"] and "absent" in gen["interdeparture_ns"]
    assert "latency_ns" not in gen and "sequence" not in gen
    bursts = value_counts(gen["histogram"]["burst"])
    assert sum(size * count for size, count in bursts.items()) == gen["sent"]
    stats_ = ports[RECEIVES]["stats"]
    assert stats_["ipackets"] + stats_["imissed"] == gen["total"]["sent"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [64, 9000])
def test_buffers_that_change_hands_come_back(build_dir: Path, tmp_path: Path, size: int) -> None:
    """With dma=swap the generator's buffers wait in the receiver's rings; its pool must not run dry."""
    with running_generator(build_dir, tmp_path / "node.log", "net_crossover0,dma=swap") as generator:
        for _ in range(3):
            generator.configure(queues=4, mtu=max(1500, size - 18), frame=[{"bytes": size}])
            gen, _ = generator.trial({"saturate": True}, window_s=0.1)
            assert gen["no_mbuf"] == 0
            assert gen["total"]["rx_packets"] > 0


def test_trial_too_long_for_the_stamp_is_refused(generator: Generator) -> None:
    generator.configure()
    times = {"warmup_ns": 0, "window_ns": 24 * 3600 * 10**9, "drain_max_ns": 0}
    with pytest.raises(NodeRefused, match="too long") as refused:
        generator.client.request("start", 10, trial="t", rate={"saturate": True}, **times)
    assert refused.value.where == "window_ns"


def test_silence(generator: Generator) -> None:
    generator.configure()
    gen, ports = generator.trial({"pps": 0})
    assert gen["intended"] == gen["sent"] == gen["unsent"] == gen["rx_packets"] == 0
    assert gen["latency_ns"]["from_intended"]["counts"] == []
    assert ports[RECEIVES]["stats"]["ipackets"] == 0


def test_burst_limit(generator: Generator) -> None:
    generator.configure(burst=4, rx_port=None)
    gen, _ = generator.trial({"saturate": True})
    assert set(value_counts(gen["histogram"]["burst"])) <= {0, 1, 2, 3, 4}


def test_same_seed_same_traffic(generator: Generator) -> None:
    def queues(seed: int) -> tuple[list[int], int]:
        generator.configure(queues=8, shape="PC", shape_seed=seed)
        gen, ports = generator.trial({"pps": 100_000})
        counts = ports[RECEIVES]["rx_queue_packets"]
        # Hot queues have about as many packets as each other, so the fullest may be any of them.
        hot = np.flatnonzero(counts > np.mean(counts))
        return hot.tolist(), gen["intended"]

    first = queues(1)
    assert queues(1) == first
    assert any(queues(seed)[0] != first[0] for seed in range(2, 8))


def test_stopped_early_is_still_accounted_for(generator: Generator) -> None:
    generator.configure()
    times = {"warmup_ns": 1_000_000, "window_ns": 20_000_000_000, "drain_max_ns": 100_000_000}
    generator.client.request("start", 10, trial="long", rate={"pps": 100_000}, **times)
    live = generator.client.request("read", 10)
    assert live["state"] == "running"
    generator.client.request("stop", 10)
    generator.client.wait_trial("long", 10)
    result = generator.client.request("read", 10)
    (gen,) = result["gen"]["lcores"]
    assert result["state"] == "stopped"
    assert gen["sent"] + gen["unsent"] == gen["intended"] < 2_000_000
    assert gen["total"]["rx_packets"] == gen["total"]["sent"]
