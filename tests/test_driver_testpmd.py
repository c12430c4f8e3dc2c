# SPDX-License-Identifier: BSD-3-Clause
"""Test the plug-in under an unmodified dpdk-testpmd."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from testpmd import Testpmd, number, port_stats, remove_leftovers, require_testpmd, running_testpmd, totals

SHORT_S = 0.2


@pytest.fixture(autouse=True)
def can_run() -> None:
    require_testpmd()


@pytest.fixture(params=["copy", "swap"])
def four_queues(request: pytest.FixtureRequest, build_dir: Path) -> Iterator[Testpmd]:
    options = ["--rxq=4", "--txq=4", "--rxd=256", "--total-num-mbufs=16384"]
    with running_testpmd(build_dir, f"net_crossover0,dma={request.param}", options) as testpmd:
        yield testpmd


def assert_accounts(testpmd: Testpmd, sender: int, receiver: int) -> None:
    """Check that every frame that one port sent is accounted for once at the other."""
    sent, received = port_stats(testpmd, sender), port_stats(testpmd, receiver)
    filtered = number(testpmd.tell(f"show port xstats {receiver}"), "rx_filtered_packets")
    assert sent["TX-packets"] == received["RX-packets"] + received["RX-missed"] + received["RX-errors"] + filtered


def fill_rings(testpmd: Testpmd) -> None:
    """Leave frames of many flows in the RX rings, so that forwarding keeps many queues busy."""
    testpmd.tell("set fwd flowgen")
    testpmd.forward(0.1)
    testpmd.tell("set fwd io")


@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.thorough)])
def test_512_queues_account_for_every_packet(build_dir: Path, seconds: int) -> None:
    options = ["--rxq=512", "--txq=512", "--rxd=64", "--txd=64", "--total-num-mbufs=150000"]
    options += ["--flowgen-flows=4096", "--no-flush-rx"]
    with running_testpmd(build_dir, "net_crossover0", options) as testpmd:
        fill_rings(testpmd)
        forwarded = totals(testpmd.forward(seconds))
        assert forwarded["RX-packets"] > 100_000 * seconds
        assert forwarded["TX-dropped"] == 0
        assert forwarded["TX-packets"] == forwarded["RX-packets"] + forwarded["RX-dropped"]
        assert_accounts(testpmd, 0, 1)
        assert_accounts(testpmd, 1, 0)
        shown = testpmd.tell("show port xstats 1")
        busy = [int(count) for count in re.findall(r"rx_q\d+_packets: (\d+)", shown) if int(count) > 64]
        assert len(busy) > 200, f"only {len(busy)} of 512 queues took part"  # flowgen's flows differ in one byte


def test_forwarding_modes_work(four_queues: Testpmd) -> None:
    for mode in ("io", "mac", "macswap", "csum", "5tswap", "icmpecho", "flowgen"):
        four_queues.tell(f"set fwd {mode}")
        said = four_queues.forward(SHORT_S, "start" if mode == "flowgen" else "start tx_first")
        assert f"{mode} packet forwarding" in said or totals(said)["RX-packets"] > 0
        assert totals(said)["RX-packets"] > (0 if mode == "icmpecho" else 1000), mode
        assert_accounts(four_queues, 0, 1)
        assert_accounts(four_queues, 1, 0)


def test_txonly_and_rxonly_work(build_dir: Path) -> None:
    """txonly fills both rings and the rest is missed; rxonly then takes what lies there."""
    options = ["--rxd=256", "--total-num-mbufs=8192", "--no-flush-rx"]
    with running_testpmd(build_dir, "net_crossover0", options) as testpmd:
        testpmd.tell("set fwd txonly")
        sent = totals(testpmd.forward(SHORT_S))["TX-packets"]
        ports = [port_stats(testpmd, port) for port in (0, 1)]
        assert sent > 10_000
        assert [port["RX-packets"] for port in ports] == [256, 256]
        assert sent == 512 + ports[0]["RX-missed"] + ports[1]["RX-missed"]
        assert number(testpmd.tell("show port 1 rxq 0 desc used count"), "Used desc count") == 256
        testpmd.tell("set fwd rxonly")
        assert totals(testpmd.forward(SHORT_S))["TX-packets"] == 0
        assert number(testpmd.tell("show port 1 rxq 0 desc used count"), "Used desc count") == 0


@pytest.mark.thorough
def test_large_and_segmented_frames_pass(build_dir: Path) -> None:
    options = [
        "--max-pkt-len=9018",
        "--mbuf-size=2176",
        "--rx-offloads=0x2000",
        "--tx-offloads=0x8000",
        "--total-num-mbufs=16384",
    ]
    with running_testpmd(build_dir, "net_crossover0", options) as testpmd:
        testpmd.tell("set txpkts 2000,2000,2000,2000")
        testpmd.tell("set fwd txonly")
        testpmd.forward(0.1)
        sent, received = port_stats(testpmd, 0), port_stats(testpmd, 1)
        assert sent["TX-bytes"] == 8000 * sent["TX-packets"]
        assert received["RX-packets"] > 0
        assert received["RX-bytes"] == 8000 * received["RX-packets"]
        assert_accounts(testpmd, 0, 1)


@pytest.mark.thorough
def test_rss_and_reta_commands_work(four_queues: Testpmd) -> None:
    assert number(four_queues.tell("show port info 1"), "Redirection table size") == 512
    four_queues.tell("port config all rss ip")
    assert "ipv4" in four_queues.tell("show port 1 rss-hash")
    entries = ",".join(f"({entry},{3 if entry < 64 else 1})" for entry in range(0, 128, 16))
    assert "fail" not in four_queues.tell(f"port config 1 rss reta {entries}").lower()
    masks = ",".join(["0xffffffffffffffff"] * 2 + ["0x0"] * 6)  # all 512 would be too long a word for testpmd
    shown = four_queues.tell(f"show port 1 rss reta 512 ({masks})")
    table = {int(entry): int(queue) for entry, queue in re.findall(r"hash index=(\d+), queue=(\d+)", shown)}
    assert [table[entry] for entry in (0, 16, 32, 48, 64, 112)] == [3, 3, 3, 3, 1, 1]
    assert table[1] == 1 and table[2] == 2
    key = "0123456789" * 8
    four_queues.tell(f"port config 1 rss-hash-key ipv4 {key}")
    assert key.upper() in four_queues.tell("show port 1 rss-hash key").upper()
    refused = four_queues.tell("port config 1 rss reta (0,9)")
    assert "exceeds" in refused or "fail" in refused.lower() or "invalid" in refused.lower()


def test_queue_start_and_stop_commands_work(four_queues: Testpmd) -> None:
    four_queues.tell("port config 1 rss reta (0,0)")
    four_queues.tell("set fwd flowgen")
    four_queues.tell("port 1 rxq 0 stop")
    four_queues.forward(SHORT_S)
    stopped = four_queues.tell("show port xstats 1")
    assert number(stopped, "rx_q0_missed") > 0 and number(stopped, "rx_q0_packets") == 0
    four_queues.tell("port 1 rxq 0 start")
    four_queues.tell("port 0 txq 2 stop")
    four_queues.tell("clear port xstats all")
    four_queues.forward(SHORT_S)
    assert number(four_queues.tell("show port xstats 1"), "rx_q0_packets") > 0
    sender = four_queues.tell("show port xstats 0")
    assert number(sender, "tx_q2_packets") == 0 and number(sender, "tx_q1_packets") > 0
    assert_accounts(four_queues, 0, 1)


def test_ports_are_attached_and_detached(build_dir: Path) -> None:
    with running_testpmd(build_dir, "net_crossover0", ["--total-num-mbufs=8192"]) as testpmd:
        for port in (0, 1):
            testpmd.tell(f"port stop {port}")
        said = testpmd.tell("device detach net_crossover0")
        assert "detached" in said or "Done" in said, said
        said = testpmd.tell("port attach net_crossover5,dma=swap")
        assert "Done" in said, said
        assert "net_crossover5_a" in testpmd.tell("show port summary all")


def test_infinite_feed_needs_no_generator(build_dir: Path) -> None:
    with running_testpmd(build_dir, "net_crossover0,feed=infinite,size=128", ["--total-num-mbufs=8192"]) as testpmd:
        said = testpmd.forward(SHORT_S)
        assert totals(said)["RX-packets"] > 10_000
        assert totals(said)["TX-packets"] == totals(said)["RX-packets"]
        stats = port_stats(testpmd, 0)
        assert stats["RX-bytes"] == 124 * stats["RX-packets"]


def test_bad_devargs_fail_by_name(build_dir: Path) -> None:
    """Show the reason in the program's log; apps/tests/driver_devargs.c has all refusals."""
    with running_testpmd(build_dir, "net_crossover0,dma=none") as testpmd:
        assert "'dma': bad value 'none'; allowed: copy, swap" in testpmd.greeting
        assert "No probed ethernet devices" in testpmd.greeting


@pytest.fixture
def file_prefix() -> Iterator[str]:
    """Return an EAL file prefix of this test's own, and remove its files afterwards."""
    prefix = f"tests-mp-{os.getpid()}"
    yield prefix
    remove_leftovers(prefix)


def test_secondary_process_sends_and_receives(build_dir: Path, file_prefix: str) -> None:
    """Queues 0 belong to the primary process, queues 1 to the secondary; both work on the same pair."""
    prefix = f"--file-prefix={file_prefix}"
    common = ["--num-procs=2", "--rxq=2", "--txq=2", "--total-num-mbufs=16384"]
    with (
        running_testpmd(
            build_dir, "net_crossover0", [*common, "--proc-id=0"], ["--proc-type=primary", prefix]
        ) as first,
        running_testpmd(build_dir, None, [*common, "--proc-id=1"], ["--proc-type=secondary", prefix]) as second,
    ):
        assert "net_crossover0_b" in second.tell("show port summary all")
        first.tell("set fwd rxonly")
        first.tell("start")
        second.tell("set fwd txonly")
        sent = totals(second.forward(SHORT_S))["TX-packets"]
        first.tell("stop")
        assert sent > 10_000
        assert sent == port_stats(first, 0)["TX-packets"] + port_stats(first, 1)["TX-packets"]
        assert_accounts(first, 0, 1)
        assert_accounts(first, 1, 0)
        second.tell("set fwd rxonly")
        second.forward(0.1)
        second.tell("set fwd io")
        assert totals(second.forward(SHORT_S, "start tx_first"))["RX-packets"] > 0
        assert_accounts(second, 0, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dma", ["copy", "swap"])
def test_corec_queues_work_under_a_program_that_knows_nothing_of_them(build_dir: Path, dma: str) -> None:
    options = ["--rxq=4", "--txq=4", "--rxd=256", "--total-num-mbufs=16384"]
    with running_testpmd(build_dir, f"net_crossover0,rx=corec,dma={dma}", options) as testpmd:
        assert "rx=corec" in testpmd.tell("show rxq info 0 0")
        testpmd.tell("set fwd macswap")
        assert totals(testpmd.forward(SHORT_S, "start tx_first"))["RX-packets"] > 1000
        assert_accounts(testpmd, 0, 1)
        assert_accounts(testpmd, 1, 0)
        assert number(testpmd.tell("show port xstats 1"), "rx_race_lost") == 0


def test_testpmd_has_no_two_cores_at_one_queue(build_dir: Path) -> None:
    """See docs/queue-sharing-and-notification.md; two ports have work for two cores."""
    options = ["--rxq=1", "--txq=1", "--rxq-share", "--nb-cores=2"]
    with running_testpmd(build_dir, "net_crossover0,rx=corec", options, forwarders=2) as testpmd:
        testpmd.tell("set portlist 1")
        assert "cores=1 - streams=1 " in testpmd.tell("show config fwd")
        testpmd.tell("set portlist 0,1")
        assert "cores=2 - streams=2 " in testpmd.tell("show config fwd")
        assert totals(testpmd.forward(SHORT_S, "start tx_first"))["RX-packets"] > 1000
        assert_accounts(testpmd, 0, 1)
