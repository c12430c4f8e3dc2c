# SPDX-License-Identifier: BSD-3-Clause
"""Check that several generator lcores offer the schedule of one, split by flows, and that their counts add up."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gen_node import RECEIVES, SENDS, WINDOW_S, Generator, running_generator
from test_gen_trace import ethernet, ipv4, write

from pollscope.node.client import NodeRefused

LCORES = [2, 1]
FLOWS, QUEUES, PPS = 64, 8, 100_000
# Late packets are sent as well: other work on the CPUs removes none unless it delays an lcore for longer.
LATE_MAX_NS = 3_000_000


@pytest.fixture(scope="module")
def generator(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    log = tmp_path_factory.mktemp("gen") / "node.log"
    with running_generator(build_dir, log, lcores="0@0,1@0,2@1,3@0,(4-9)@1") as one:
        yield one


def configure(generator: Generator, lcores: Sequence[int] = LCORES, queues: int = QUEUES, **gen: Any) -> None:
    whole = {"flows": FLOWS, "late_max_ns": LATE_MAX_NS, "departures": 100_000, **gen}
    generator.configure(queues=queues, tx_queues=len(lcores), lcores=list(lcores), **whole)


def summed(lcores: Sequence[Mapping[str, Any]], *keys: str) -> int:
    total = 0
    for each in lcores:
        part: Any = each
        for key in keys:
            part = part[key]
        total += part
    return total


def due(lcores: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the intended departures of packets sent in the window by all lcores, in TSC cycles after its start."""
    return sorted(sent - lateness for lcore in lcores for sent, lateness in lcore["departures"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursts", "on-off"])
def test_the_schedule_is_that_of_one_lcore(generator: Generator, arrivals: str) -> None:
    configure(generator, [2], arrivals=arrivals)
    alone, _ = generator.trial_of_all({"pps": PPS})
    configure(generator, arrivals=arrivals)
    both, _ = generator.trial_of_all({"pps": PPS})
    assert [lcore["lcore"] for lcore in both] == LCORES
    assert all(lcore["intended"] > 0 for lcore in both)
    assert summed(both, "intended") == summed(alone, "intended") > 0
    assert all(lcore["sent"] + lcore["unsent"] == lcore["intended"] for lcore in both)
    for first, second in ((due(alone), due(both)), (due(both), due(alone))):
        assert len(set(first) - set(second)) <= summed(both, "unsent") + summed(alone, "unsent")
    assert len(due(both)) == summed(both, "sent")


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_the_rate_is_exact_however_many_send(generator: Generator, arrivals: str) -> None:
    intended = []
    for senders in (1, 2, 3, 4):
        configure(generator, range(1, senders + 1), arrivals=arrivals)
        lcores, _ = generator.trial_of_all({"pps": PPS})
        assert all(lcore["intended"] > 0 for lcore in lcores)
        intended.append(summed(lcores, "intended"))
    assert len(set(intended)) == 1
    if arrivals == "constant":
        assert intended[0] == pytest.approx(PPS * WINDOW_S, abs=1)


@pytest.mark.parametrize(
    ("queues", "senders", "parts"),
    [
        pytest.param(1, 3, [22, 21, 21], id="all-share-one-ring"),
        pytest.param(2, 3, [22, 21, 21], id="more-senders-than-rings"),
        pytest.param(3, 2, [2, 1], id="uneven"),
        pytest.param(4, 2, [2, 2], id="two-rings-each"),
        pytest.param(8, 4, [2, 2, 2, 2], id="two-rings-each-of-four"),
    ],
)
@pytest.mark.parametrize("rate", [{"pps": PPS}, {"saturate": True}], ids=["paced", "saturated"])
def test_each_ring_has_one_sender_if_there_are_enough(
    generator: Generator, queues: int, senders: int, parts: Sequence[int], rate: Mapping[str, Any]
) -> None:
    """Then packets are dealt by queues, which have the same rate, and otherwise by flows."""
    configure(generator, range(1, senders + 1), queues)
    lcores, ports = generator.trial_of_all(rate)
    order = [lcore["sequence"] for lcore in lcores]
    for name in ("duplicated", "reordered", "too_old"):
        assert summed(order, name) == 0, name
    missed = ports[RECEIVES]["stats"]["imissed"]
    assert summed(order, "lost") == missed
    assert summed(lcores, "total", "rx_packets") == summed(lcores, "total", "sent") - missed
    if "pps" in rate:
        shares = [lcore["intended"] / summed(lcores, "intended") for lcore in lcores]
        assert shares == pytest.approx([part / sum(parts) for part in parts], abs=0.02)
    # On a busy host an lcore may not run before the trial ends.
    if all(lcore["total"]["sent"] > 1000 for lcore in lcores):
        assert all(packets > 0 for packets in ports[RECEIVES]["rx_queue_packets"]), "a ring refuses its sender"
    for number, lcore in enumerate(lcores):
        sent = lcore["total"]["sent"]
        found = [ports[SENDS]["xstats"].get(f"tx_q{number}_{name}", 0) for name in ("packets", "bytes")]
        assert found == [sent, 60 * sent]


def test_every_packet_arrives_once_and_is_counted_once(generator: Generator) -> None:
    """Each lcore reads four of eight RX queues, so one can receive what the other sent."""
    configure(generator)
    lcores, ports = generator.trial_of_all({"pps": PPS})
    order = [lcore["sequence"] for lcore in lcores]
    assert summed(order, "lost") == ports[RECEIVES]["stats"]["imissed"]
    for name in ("duplicated", "reordered", "too_old"):
        assert summed(order, name) == 0, name
    assert [each["flows"]["sent"] for each in order] == [FLOWS // 2] * 2
    assert summed(lcores, "total", "rx_packets") == summed(lcores, "total", "sent") - summed(order, "lost")
    assert summed(lcores, "rx_foreign") == 0
    # Every packet that left in the window and came back has a latency, on the lcore that received it.
    latencies = summed(lcores, "latency_ns", "from_sent", "total")
    assert summed(lcores, "sent") - summed(order, "lost") <= latencies <= summed(lcores, "sent")


def test_losses_are_reported_by_sender_and_flow(generator: Generator) -> None:
    """The rate exceeds what two lcores can receive from one queue: losses are the port's, and add up."""
    configure(generator, shape="SQ")
    lcores, ports = generator.trial_of_all({"saturate": True})
    order = [lcore["sequence"] for lcore in lcores]
    assert summed(order, "lost") == ports[RECEIVES]["stats"]["imissed"]
    assert summed(lcores, "total", "rx_packets") == summed(lcores, "total", "sent") - summed(order, "lost")
    for lcore, each in zip(lcores, order, strict=True):
        assert (each["flows"]["lossy"] > 0) == (each["lost"] > 0)
        if each["lost"]:
            worst = each["flows"]["worst_loss"]
            assert 0 < worst["lost"] <= worst["sent"]
            assert worst["flow"] % 2 == lcores.index(lcore)


def test_hot_queues_are_shared_out(generator: Generator) -> None:
    """Of eight queues two are hot: one for each lcore."""
    configure(generator, shape="PC", concentrated_share=0.25, background_probability=0.1)
    lcores, ports = generator.trial_of_all({"saturate": True})
    assert lcores[0]["shape"]["hot"] == lcores[1]["shape"]["hot"]
    packets = ports[RECEIVES]["rx_queue_packets"]
    assert all(packets[queue] > 0 for queue in lcores[0]["shape"]["hot"])
    assert summed(lcores, "shape", "hot_sent") == summed(lcores, "sent")
    assert all(lcore["shape"]["hot_sent"] > 0 for lcore in lcores)


def test_a_trace_is_split_by_its_flows(generator: Generator, tmp_path: Path) -> None:
    flows = (1, 1, 2, 3, 1, 2, 1)
    frames = [(at * 1000, 100 + port, ethernet(ipv4("10.1.0.1", port), 0x0800)) for at, port in enumerate(flows)]
    trace = write(tmp_path / "t.pcap", frames)
    generator.configure(tx_queues=2, lcores=LCORES, trace=str(trace), late_max_ns=LATE_MAX_NS)
    lcores, _ = generator.trial_of_all({"pps": 70_000.0})
    assert [lcore["sequence"]["flows"]["sent"] for lcore in lcores] == [2, 1]
    # Flows 0 and 2 of the trace have five of its seven packets.
    shares = [lcore["intended"] / summed(lcores, "intended") for lcore in lcores]
    assert shares == pytest.approx([5 / 7, 2 / 7], abs=0.001)
    assert summed(lcores, "intended") == pytest.approx(70_000 * WINDOW_S, abs=2)


def test_other_seeds_and_silence(generator: Generator) -> None:
    configure(generator, arrivals="poisson", seed=1)
    first, _ = generator.trial_of_all({"pps": PPS})
    configure(generator, arrivals="poisson", seed=2)
    second, _ = generator.trial_of_all({"pps": PPS})
    assert due(first) != due(second)
    silent, _ = generator.trial_of_all({"pps": 0})
    assert summed(silent, "total", "sent") == 0


@pytest.mark.parametrize(
    ("change", "where", "text"),
    [
        ({"flows": 1}, "gen.flows", "1 flows cannot be shared by 2 lcores"),
        ({"lcores": [1, 2, 3]}, "gen.lcores", "3 lcores need as many TX queues; net_crossover0_a has 2"),
        ({"lcores": list(range(1, 10))}, "gen.lcores", "9 lcores; a generator has at most 8"),
    ],
)
def test_traffic_that_lcores_cannot_share_is_refused(
    generator: Generator, change: dict[str, Any], where: str, text: str
) -> None:
    with pytest.raises(NodeRefused) as refused:
        generator.configure(**{"tx_queues": 2, "lcores": LCORES, **change})
    assert (refused.value.where, text in refused.value.what) == (where, True)
