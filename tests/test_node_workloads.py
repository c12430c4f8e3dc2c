# SPDX-License-Identifier: BSD-3-Clause
"""Check workloads of a real node (encap, heavier routing, tx, rx): the bytes that leave it, and its counters."""

import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accounted import MODES, check_cycles
from dut_node import DUT_LCORE, DUT_TX, GEN_RX, LIMIT_S, PAIRS, SECOND_DUT_LCORE, Node, running_node
from pcap_files import folded, forwarded, frame, read_pcap, sent_frames

LCORES = "0@0,1@0,2@1,3@1,4@1"
PAIRS_SWAP = tuple(f"{pair},dma=swap" for pair in PAIRS)


@pytest.fixture(scope="module", params=["copy", "swap"])
def node(request: pytest.FixtureRequest, build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    vdevs = PAIRS if request.param == "copy" else PAIRS_SWAP
    with running_node(build_dir, tmp_path_factory.mktemp("node") / "log", vdevs, lcores=LCORES) as running:
        yield running


# Packets into the tunnel: destination, TTL, EtherType, padding; and whether they come out.
OFFERED = [
    ("10.0.0.7", 64, 0x0800, 0, True),
    ("10.0.0.8", 2, 0x0800, 6, True),
    ("10.0.0.9", 1, 0x0800, 0, False),
    ("10.0.0.10", 64, 0x0806, 0, False),
    ("192.0.2.77", 255, 0x0800, 26, True),
]


def ipip(inner: bytes) -> bytes:
    """Check RFC 2003: the outer header with its checksum, before the inner packet."""
    addresses = bytes([192, 0, 2, 1, 192, 0, 2, 2])
    header = struct.pack("!BBHHHBBH8s", 0x45, inner[1], 20 + len(inner), 0, 0x4000, 64, 4, 0, addresses)
    return header[:10] + struct.pack("!H", 0xFFFF - folded(header)) + header[12:] + inner


def gre_ipv6(inner: bytes, flow_label: int) -> bytes:
    """Check RFC 2784 in RFC 8200."""
    ends = bytes.fromhex("20010db800000000000000000000000120010db8000000000000000000000002")
    return (
        struct.pack("!IHBB", 6 << 28 | inner[1] << 20 | flow_label, 4 + len(inner), 47, 64)
        + ends
        + b"\x00\x00\x08\x00"
        + inner
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("encapsulation", ["gre-ipv6", "ipip"])
def test_tunnel_packets_are_right_to_the_last_byte(build_dir: Path, tmp_path: Path, encapsulation: str) -> None:
    frames = [frame(*offered[:4]) for offered in OFFERED]
    dut: dict[str, Any] = {"workload": "encap", "encapsulation": encapsulation, "accounting": "full"}
    all_sent, result = sent_frames(build_dir, tmp_path, frames, **dut)
    (lcore,) = result["lcores"]
    inner = {forwarded(one[14:]) for one, (*_, enters) in zip(frames, OFFERED, strict=True) if enters}
    share = 1 - len(inner) / len(frames)
    assert lcore["workload_dropped"] == pytest.approx(share * lcore["rx_packets"], rel=0.01, abs=len(frames))
    sent = set(all_sent)
    assert len(sent) == len(inner)
    for one in sent:
        assert one[:6] == bytes([2, 0, 0, 0, 0, 1])
        if encapsulation == "ipip":
            assert one[12:14] == b"\x08\x00"
            assert one[14:] in {ipip(packet) for packet in inner}
        else:
            assert one[12:14] == b"\x86\xdd"
            label = struct.unpack_from("!I", one, 14)[0] & 0xFFFFF
            assert one[14:] in {gre_ipv6(packet, label) for packet in inner}


# Packets into the router: destination, TTL, EtherType; and whether they come out.
ROUTED = [
    ("10.0.0.7", 64, 0x0800, True),  # route 0 is 10.0.0.0/24
    ("10.158.55.1", 2, 0x0800, True),  # route 1: 40503 = 0x9e37
    ("10.158.55.1", 1, 0x0800, False),
    ("10.158.55.1", 0, 0x0800, False),
    ("192.0.2.1", 64, 0x0800, False),
    ("10.158.55.1", 64, 0x0806, False),
    ("10.158.55.255", 255, 0x0800, True),
]


def test_router_rewrites_what_it_forwards(build_dir: Path, tmp_path: Path) -> None:
    """net_pcap shows the frames: MAC addresses, TTL and checksum changed, nothing else."""
    frames = [frame(destination, ttl, ether_type) for destination, ttl, ether_type, _ in ROUTED]
    sent, result = sent_frames(build_dir, tmp_path, frames, workload="l3fwd-lpm", accounting="full")
    (lcore,) = result["lcores"]
    expected = [one for one, (*_, comes_out) in zip(frames, ROUTED, strict=True) if comes_out]
    share_dropped = 1 - len(expected) / len(frames)
    assert lcore["workload_dropped"] == pytest.approx(share_dropped * lcore["rx_packets"], rel=0.01, abs=len(frames))
    left = sorted(set(sent), key=lambda one: one[30:34])
    assert len(left) == len(expected)
    for out, into in zip(left, sorted(expected, key=lambda one: one[30:34]), strict=True):
        assert out[:6] == bytes([2, 0, 0, 0, 0, 1])
        assert out[6:12] not in (into[6:12], bytes(6))
        assert out[22] == into[22] - 1
        assert folded(out[14:34]) == 0xFFFF
        assert (out[12:22], out[23:24], out[26:]) == (into[12:22], into[23:24], into[26:])


def transmitter(lcores: list[int], mtu: int = 1500, **dut: Any) -> dict[str, Any]:
    ports = [{"name": DUT_TX, "tx_queues": len(lcores), "mtu": mtu}, {"name": GEN_RX, "mtu": mtu}]
    return {"ports": ports, "dut": {"lcores": lcores, "tx_port": DUT_TX, "workload": "tx", **dut}}


@pytest.mark.measure
@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lcores", [[DUT_LCORE], [DUT_LCORE, SECOND_DUT_LCORE]], ids=["one", "two"])
def test_transmitter_only_sends(node: Node, mode: str, lcores: list[int]) -> None:
    node.get("configure", **transmitter(lcores, accounting=mode))
    result = node.trial(window_s=0.1)
    for lcore in result["dut"]["lcores"]:
        assert (lcore["role"], lcore["source"]) == ("worker", "made")
        assert lcore["tx_packets"] > 0
        assert lcore["tx_bytes"] == 60 * lcore["tx_packets"]
        assert lcore["rx_packets"] == lcore["rx_bytes"] == lcore["tx_dropped"] == lcore["workload_dropped"] == 0
        assert sum(lcore["series"]["tx_packets"]) == lcore["tx_packets"]
        assert sum(lcore["series"]["rx_packets"]) == 0
        assert lcore["no_mbuf"] == 0
        check_cycles(lcore, mode)
    sent, stats = result["ports"][DUT_TX]["stats"], result["ports"][GEN_RX]["stats"]
    assert sent["opackets"] >= sum(lcore["tx_packets"] for lcore in result["dut"]["lcores"])
    assert stats["ipackets"] + stats["imissed"] == sent["opackets"]


@pytest.mark.measure
def test_sizes_have_their_shares(node: Node) -> None:
    mix = [{"bytes": 64, "weight": 7}, {"bytes": 570, "weight": 4}, {"bytes": 1518, "weight": 1}]
    node.get("configure", **transmitter([DUT_LCORE], frame=mix))
    (lcore,) = node.trial(window_s=0.1)["dut"]["lcores"]
    mean = (7 * 60 + 4 * 566 + 1514) / 12
    assert lcore["tx_bytes"] / lcore["tx_packets"] == pytest.approx(mean, rel=0.02)
    node.get("configure", **transmitter([DUT_LCORE], mtu=9000, frame=[{"bytes": 9000}]))
    (lcore,) = node.trial(window_s=0.05)["dut"]["lcores"]
    assert lcore["tx_bytes"] == 8996 * lcore["tx_packets"] > 0


@pytest.mark.measure
@pytest.mark.thorough
def test_a_transmitter_with_service_times_is_slower(node: Node) -> None:
    node.get("configure", **transmitter([DUT_LCORE], service={"kind": "fixed", "cycles": 100_000}))
    (lcore,) = node.trial(window_s=0.2)["dut"]["lcores"]
    assert 0 < lcore["tx_packets"] < 1.1 * 0.2 * node.hello["tsc_hz"] / 100_000 + 32


@pytest.mark.measure
def test_transmitters_share_a_pool(node: Node) -> None:
    """In any order of configuration, and also if one of them kept packets."""
    for pool, lcores in (
        ("shared", [DUT_LCORE, SECOND_DUT_LCORE]),
        ("per-core", [SECOND_DUT_LCORE]),
        ("shared", [DUT_LCORE, SECOND_DUT_LCORE]),
        ("shared", [SECOND_DUT_LCORE]),
    ):
        node.get("configure", **transmitter(lcores, tx_pool=pool, frame=[{"bytes": 64}, {"bytes": 200}]))
        sent = [lcore["tx_packets"] for lcore in node.trial(window_s=0.1)["dut"]["lcores"]]
        assert len(sent) == len(lcores)
        assert all(sent)


def rfc1071(octets: bytes) -> int:
    """Return the checksum of section 1: complement of the sum modulo 0xFFFF, where a sum of 0 has two forms."""
    total = sum(int.from_bytes(octets[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(octets), 2))
    return 0xFFFF - (total % 0xFFFF or (0xFFFF if total else 0))


def datagram(payload: bytes, checksum: int, *, protocol: int = 17, flags: int = 0, declared: int = 0) -> bytes:
    """Return a routed frame; the UDP header declares `declared` bytes more than there are."""
    addresses = bytes([198, 18, 0, 1, 10, 0, 0, 7])
    udp = struct.pack("!HHHH", 49152, 9, 8 + len(payload) + declared, checksum) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, flags, 64, protocol, 0) + addresses
    header = header[:10] + struct.pack("!H", rfc1071(header)) + header[12:]
    return b"\xff" * 6 + b"\x02" * 6 + b"\x08\x00" + header + udp


def with_checksum(packet: bytes) -> bytes:
    """Return the IPv4 packet after a router that computes its UDP checksum again (RFC 768)."""
    pseudo = packet[12:20] + b"\0" + packet[9:10] + packet[24:26]
    checksum = rfc1071(pseudo + packet[20:26] + b"\0\0" + packet[28:]) or 0xFFFF
    return packet[:26] + struct.pack("!H", checksum) + packet[28:]


def test_a_checksum_is_made_of_all_the_payload(build_dir: Path, tmp_path: Path) -> None:
    """For any length and any old checksum; a packet that is no whole UDP datagram keeps its checksum."""
    noise = random.Random(768)
    zero = datagram(b"\0\0", 0)
    # With this payload the sum is 0, which is sent as all ones.
    filler = struct.unpack("!H", with_checksum(zero[14:])[26:28])[0]
    made = [datagram(noise.randbytes(length), 0xBEEF) for length in (0, 1, 18, 19, 255, 1000, 1471, 1472)]
    made += [datagram(b"\0\0", 0), datagram(struct.pack("!H", filler), 0x1234), datagram(b"\xff" * 1472, 0)]
    kept = [
        datagram(b"of TCP is the checksum elsewhere", 0xBEEF, protocol=6),
        datagram(b"first fragment of two", 0xBEEF, flags=0x2000),
        datagram(b"second fragment", 0xBEEF, flags=0x0002),
        datagram(b"says more than there is", 0xBEEF, declared=4),
    ]
    sent, result = sent_frames(build_dir, tmp_path, [*made, *kept], workload="l3fwd-lpm", checksum="udp")
    wanted = {with_checksum(forwarded(one[14:])) for one in made} | {forwarded(one[14:]) for one in kept}
    assert {one[14:] for one in sent} == wanted
    assert b"\xff\xff" in {packet[26:28] for packet in wanted}
    (lcore,) = result["lcores"]
    assert lcore["workload_dropped"] == 0 < lcore["tx_packets"]


@pytest.mark.measure
def test_transmitted_frames_are_whole(build_dir: Path, tmp_path: Path) -> None:
    sent = tmp_path / "sent.pcap"
    with running_node(build_dir, tmp_path / "log", [f"net_pcap0,tx_pcap={sent}"], mib=512) as node:
        if node.hello["ports"] == []:
            pytest.skip("this DPDK has no net_pcap driver")
        dut = {"lcores": [DUT_LCORE], "tx_port": "net_pcap0", "workload": "tx", "flows": 50}
        dut |= {"frame": [{"bytes": 64}, {"bytes": 200}], "routes": 16}
        node.get("configure", ports=[{"name": "net_pcap0"}], dut=dut)
        node.trial(warmup_s=0, window_s=0.05, drain_max_ns=0)
        node.get("quit")
        node.process.wait(LIMIT_S)
    frames = read_pcap(sent)
    assert len(frames) > 100
    sizes = Counter(len(one) for one in frames)
    assert set(sizes) == {60, 196}
    assert sizes[60] == pytest.approx(sizes[196], rel=0.2)
    assert {one[26:30] for one in frames} == {bytes([172, 16, 0, flow]) for flow in range(50)}
    assert len({one[30:33] for one in frames}) <= 16
    for one in set(frames):
        assert folded(one[14:34]) == 0xFFFF
        assert struct.unpack_from("!H", one, 16)[0] == len(one) - 14
        pseudo = one[26:34] + struct.pack("!HH", 17, len(one) - 34)
        assert folded(pseudo + one[34:]) == 0xFFFF


def test_a_transmitter_has_no_costs_of_polling(node: Node) -> None:
    node.get("configure", **transmitter([DUT_LCORE]))
    assert node.ask("calibrate")["ok"] is False
