# SPDX-License-Identifier: BSD-3-Clause
"""Check replay of packet traces: order, sizes, flows and timing of the packets, in constant memory; bad files."""

import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gen_node import RECEIVES, WARMUP_S, Generator, running_generator
from pcap_files import packed

from pollscope.node.client import NodeRefused
from pollscope.node.made_trace import GAP_SIGMA, SIZES, write_trace

NANOSECOND, MICROSECOND = 0xA1B23C4D, 0xA1B2C3D4
ETHERNET, RAW = 1, 101
LIMITED = """\
import signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pollscope.cli import main
main(sys.argv[1:])
"""


def ipv4(source: str, port: int, protocol: int = 17, fragment: int = 0) -> bytes:
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 1, fragment, 64, protocol, 0, packed(source), packed("10.0.0.1"))
    return header + struct.pack("!HH", port, 53)


def ipv6(source: int, port: int) -> bytes:
    return struct.pack("!IHBB15xB15xB", 6 << 28, 26, 6, 64, source, 1) + struct.pack("!HH", port, 53)


def ethernet(payload: bytes, ether_type: int, tag: bytes = b"") -> bytes:
    return bytes(12) + tag + struct.pack("!H", ether_type) + payload


def write(path: Path, packets: Sequence[tuple[int, int, bytes]], magic: int = NANOSECOND, link: int = ETHERNET) -> Path:
    """Return a pcap of (time in the magic's unit, length on the wire without FCS, captured bytes)."""
    unit = 10**9 if magic == NANOSECOND else 10**6
    records = [struct.pack("<IIII", at // unit, at % unit, len(kept), length) + kept for at, length, kept in packets]
    path.write_bytes(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, link) + b"".join(records))
    return path


def configure(generator: Generator, trace: Path | str, **gen: Any) -> None:
    generator.configure(trace=str(trace), late_max_ns=3_000_000, **gen)


def replayed(generator: Generator, trace: Path, rate: dict[str, Any], **gen: Any) -> dict[str, Any]:
    configure(generator, trace, **gen)
    lcore, _ = generator.trial(rate)
    return lcore


def offsets_s(lcore: dict[str, Any], tsc_hz: float) -> list[float]:
    """Return the due times of the packets of the window, after the trial's begin."""
    return [WARMUP_S + (sent - lateness) / tsc_hz for sent, lateness in lcore["departures"]]


def farthest_s(due: Sequence[float], places: Sequence[float], turn_s: float) -> float:
    """Return the largest distance of a packet from the nearest place of a repetition."""
    ends = [*places, turn_s + places[0]]
    return max(min(abs(at % turn_s - place) for place in ends) for at in due)


@pytest.mark.parametrize(
    ("rate", "speed"), [({"trace_share": 1.0}, 1.0), ({"trace_share": 2.0}, 2.0), ({"pps": 1000.0}, 7 / 3)]
)
def test_the_distances_of_the_trace_are_kept_or_stretched_alike(
    generator: Generator, tmp_path: Path, rate: dict[str, Any], speed: float
) -> None:
    """Packets are 1, 2 and 4 ms apart; the mean, 7/3 ms, lies between the last and the first of the next repetition."""
    frame = ethernet(ipv4("10.1.0.1", 1), 0x0800)
    trace = write(tmp_path / "t.pcap", [(at * 1_000_000, 100, frame) for at in (0, 1, 3, 7)])
    lcore = replayed(generator, trace, rate, arrivals="trace", departures=1000)
    assert lcore["trace"]["duration_ns"] == 9_333_333
    due = offsets_s(lcore, generator.client.hello["tsc_hz"])
    places = [at * 1e-3 / speed for at in (0, 1, 3, 7)]
    assert due and farthest_s(due, places, 9.333333e-3 / speed) < 5e-6


def test_sizes_are_kept_and_bounded(generator: Generator, tmp_path: Path) -> None:
    """With FCS 64, 604 and, cut to the MTU, 1518; the shortest was padded."""
    kept = ethernet(ipv4("10.1.0.1", 1), 0x0800)
    lengths = (20, 600, 9000, 60)
    trace = write(tmp_path / "t.pcap", [(at * 1000, length, kept) for at, length in enumerate(lengths)])
    lcore = replayed(generator, trace, {"pps": 10_000.0})
    assert lcore["trace"] | {"turns": 0} == {
        "packets": 4, "flows": 1, "duration_ns": 4000, "mean_bytes": (64 + 604 + 1518 + 64) / 4, "crowded": 0,
        "padded": 1, "cut": 1, "shortened": 0, "backward": 0, "turns": 0,
    }  # fmt: skip
    # The window begins and ends anywhere in a repetition; the sizes inside follow each other.
    whole, rest = divmod(lcore["sent"], 4)
    turns = np.tile([60, 600, 1514, 60], 3)
    possible = {whole * 2234 + int(turns[first : first + rest].sum()) for first in range(4)}
    assert lcore["tx_bytes"] in possible


def test_flows_are_distinguished(generator: Generator, tmp_path: Path) -> None:
    packets = [
        ethernet(ipv4("10.1.0.1", 1), 0x0800),
        ethernet(ipv4("10.1.0.1", 2), 0x0800),
        ethernet(ipv4("10.1.0.1", 1, protocol=6), 0x0800),
        ethernet(ipv4("10.1.0.2", 1), 0x0800),
        ethernet(ipv6(1, 1), 0x86DD),
        ethernet(ipv6(1, 2), 0x86DD),
        ethernet(ipv4("10.1.0.1", 7, fragment=100), 0x0800),  # no ports in it
        ethernet(bytes(28), 0x0806),
        ethernet(b"", 0x88CC)[:13],  # cut before its type ends
    ]
    same = [
        ethernet(ipv4("10.1.0.1", 1), 0x0800, tag=b"\x81\x00\x00\x05"),
        ethernet(ipv4("10.1.0.1", 9, fragment=100), 0x0800),
        ethernet(bytes(20), 0x0806),
    ]
    trace = write(tmp_path / "t.pcap", [(at, 100, each) for at, each in enumerate([*packets, *same])])
    lcore = replayed(generator, trace, {"pps": 20_000.0})
    assert lcore["trace"]["flows"] == len(packets)
    assert lcore["sequence"]["flows"]["sent"] == len(packets)
    assert lcore["sequence"]["reordered"] == lcore["sequence"]["duplicated"] == lcore["rx_foreign"] == 0


def test_more_flows_than_can_be_distinguished_are_counted(generator: Generator, tmp_path: Path) -> None:
    frames = [ethernet(ipv4(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", 1), 0x0800) for n in range(65536 + 100)]
    trace = write(tmp_path / "t.pcap", [(at, 60, frame) for at, frame in enumerate([*frames, frames[0], frames[-1]])])
    found = replayed(generator, trace, {"pps": 1000.0})["trace"]
    assert (found["flows"], found["crowded"], found["packets"]) == (65536, 101, 65638)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("magic", "scale"), [(NANOSECOND, 1), (MICROSECOND, 1000)])
def test_both_units_of_time_and_packets_without_a_link_header(
    generator: Generator, tmp_path: Path, magic: int, scale: int
) -> None:
    packets = [(at, 46, ipv4("10.1.0.1", 1)) for at in (0, 10, 5, 20)]
    found = replayed(generator, write(tmp_path / "t.pcap", packets, magic, RAW), {"pps": 1000.0})["trace"]
    assert found["backward"] == 1 and found["mean_bytes"] == 64
    assert found["duration_ns"] == 20 * scale + 20 * scale // 3


def test_a_gap_that_does_not_fit_is_counted(generator: Generator, tmp_path: Path) -> None:
    frame = ethernet(ipv4("10.1.0.1", 1), 0x0800)
    trace = write(tmp_path / "t.pcap", [(at * 10**6, 100, frame) for at in (0, 1, 10_000, 10_001)])
    found = replayed(generator, trace, {"pps": 1000.0})["trace"]
    assert (found["shortened"], found["backward"]) == (1, 0)
    assert found["duration_ns"] == (2_000_000 + 2**32 - 1) * 4 // 3


@pytest.mark.thorough
def test_several_queues_and_saturation(generator: Generator, tmp_path: Path) -> None:
    frames = [ethernet(ipv4("10.1.0.1", port), 0x0800) for port in range(8)]
    trace = write(tmp_path / "t.pcap", [(at, 60, frame) for at, frame in enumerate(frames)])
    configure(generator, trace, queues=4)
    lcore, ports = generator.trial({"saturate": True})
    assert lcore["sent"] > 1000 and lcore["trace"]["turns"] > 100
    stats = ports[RECEIVES]["xstats"]
    arrived = [stats[f"rx_q{queue}_packets"] + stats.get(f"rx_q{queue}_missed", 0) for queue in range(4)]
    assert max(arrived) - min(arrived) <= 512


def test_memory_does_not_grow_with_the_trace(build_dir: Path, tmp_path: Path) -> None:
    """Compare pages that a process cannot give back; a play list in memory would be 4 MiB."""
    grown = {}
    for packets in (1000, 500_000):
        write_trace(tmp_path / "t.pcap", packets, 100, 1e6, 1)
        with running_generator(build_dir, tmp_path / "node.log") as generator:
            configure(generator, tmp_path / "t.pcap")
            text = Path(f"/proc/{generator.client.pid}/status").read_text(encoding="ascii")
            grown[packets] = int(text.partition("RssAnon:")[2].split()[0])
    assert abs(grown[500_000] - grown[1000]) < 1024


BAD = {
    "no file": (None, "No such file"),
    "a folder": ("folder", "is no file"),
    "text": (b"# not a trace at all, but a text of some length\n", "unknown file format"),
    "empty": (b"", "truncated"),
    "cut": (
        struct.pack("<IHHiIII", MICROSECOND, 2, 4, 0, 0, 65535, 1) + struct.pack("<IIII", 0, 0, 60, 60),
        "packet 1",
    ),
    "no packet": (struct.pack("<IHHiIII", MICROSECOND, 2, 4, 0, 0, 65535, 1), "fewer than two"),
    "times that go back": (
        struct.pack("<IHHiIII", MICROSECOND, 2, 4, 0, 0, 65535, 1)
        + b"".join(struct.pack("<IIII", at, 0, 0, 60) for at in (3, 2, 1)),
        "no packet with a later time",
    ),
    "another link": (struct.pack("<IHHiIII", MICROSECOND, 2, 4, 0, 0, 65535, 105), "IEEE802_11"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_is_refused_and_the_node_continues(generator: Generator, tmp_path: Path, name: str) -> None:
    content, said = BAD[name]
    path = tmp_path / "bad.pcap"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(NodeRefused) as refused:
        configure(generator, path)
    assert refused.value.where == "gen.trace"
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    generator.configure()


@pytest.mark.parametrize("rate", [{"trace_share": -1.0}, {"trace_share": 1.0, "pps": 1.0}, {"trace_share": 1e-9}])
def test_bad_rates_of_a_trace(generator: Generator, tmp_path: Path, rate: dict[str, float]) -> None:
    write_trace(tmp_path / "t.pcap", 100, 5, 1e6, 1)
    configure(generator, tmp_path / "t.pcap", arrivals="trace")
    with pytest.raises(NodeRefused):
        generator.trial(rate)


def test_a_share_of_a_trace_needs_one(generator: Generator) -> None:
    generator.configure()
    with pytest.raises(NodeRefused, match="no trace"):
        generator.trial({"trace_share": 1.0})


def test_made_traces_have_the_stated_statistics(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.pcap", 200_000, 1000, 1e6, 3)
    write_trace(tmp_path / "again.pcap", 200_000, 1000, 1e6, 3)
    assert (tmp_path / "t.pcap").read_bytes() == (tmp_path / "again.pcap").read_bytes()
    data = np.fromfile(tmp_path / "t.pcap", dtype="u1", offset=24).reshape(-1, 70)
    heads = data[:, :16].copy().view("<u4")
    sizes = heads[:, 3] + 4
    for share, low, high in SIZES:
        assert np.mean((sizes >= low) & (sizes <= high)) == pytest.approx(share, abs=0.01)
    gaps = np.diff(heads[:, 0].astype(np.int64) * 10**9 + heads[:, 1])
    assert gaps.mean() == pytest.approx(1000, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(np.sqrt(np.exp(GAP_SIGMA**2) - 1), rel=0.05)
    _, counts = np.unique(data[:, 16 + 26 : 16 + 36], axis=0, return_counts=True)
    assert 900 < len(counts) <= 1000
    assert counts.max() / len(data) == pytest.approx(1 / np.sum(np.arange(1, 1001.0) ** -1.1), rel=0.05)
    words = data[:, 16 + 14 : 16 + 34].astype(np.uint32)
    sums = (words[:, ::2] * 256 + words[:, 1::2]).sum(axis=1)
    assert np.all((sums & 0xFFFF) + (sums >> 16) == 0xFFFF), "checksum of the IPv4 header"


def test_a_trace_that_finds_no_room_leaves_no_part_of_it(tmp_path: Path) -> None:
    """The disk takes the first part of two."""
    words = ["trace", str(tmp_path / "t.pcap"), "--packets", "100000"]
    limited = ["prlimit", f"--fsize={5 << 20}", sys.executable, "-c", LIMITED, *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert "cannot be written: File too large" in done.stderr
    assert not list(tmp_path.iterdir())
