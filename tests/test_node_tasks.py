# SPDX-License-Identifier: BSD-3-Clause
"""Check HyperPlane's tasks on a real node: each output against an independent implementation, and the counters."""

import itertools
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from dut_node import DUT_LCORE, SECOND_DUT_LCORE, Node, configuration
from galois import cauchy_row, combined, recovered
from pcap_files import folded, frame, packed, sent_frames

from pollscope.spec.model import Parameters
from pollscope.spec.point_checks import grown_frame_bytes

HEADERS, STAMPED = 42, 60
SOURCE = "198.18.0.1"
NEXT_HOP = bytes([2, 0, 0, 0, 0, 1])
LENGTHS = (1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 500, 1000)


def udp_frame(
    payload: bytes,
    destination: str = "10.0.0.7",
    source_port: int = 4321,
    stamp: bytes = bytes(range(18)),
    ttl: int = 64,
) -> bytes:
    """Return Ethernet, IPv4, UDP with a checksum, 18 bytes of stamp, payload."""
    data = stamp + payload
    udp = struct.pack("!HHHH", source_port, 9, 8 + len(data), 0) + data
    pseudo = packed(SOURCE) + packed(destination) + struct.pack("!HH", 17, len(udp))
    even = pseudo + udp + bytes(len(udp) % 2)
    udp = udp[:6] + struct.pack("!H", 0xFFFF - folded(even) or 0xFFFF) + udp[8:]
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, ttl, 17, 0, packed(SOURCE), packed(destination))
    header = header[:10] + struct.pack("!H", 0xFFFF - folded(header)) + header[12:]
    return b"\xff" * 6 + b"\x02" * 6 + b"\x08\x00" + header + udp


def payload_of(sent: bytes) -> bytes:
    """Return the payload of a forwarded packet behind the stamp; check its headers."""
    header, udp_bytes = sent[14:34], struct.unpack_from("!H", sent, 38)[0]
    assert folded(header) == 0xFFFF
    assert struct.unpack_from("!H", header, 2)[0] == len(sent) - 14 == 20 + udp_bytes
    assert (header[0], header[8], header[9]) == (0x45, 63, 17)
    assert sent[40:42] == b"\x00\x00", "no UDP checksum"
    return sent[STAMPED:]


def sent_by_task(
    build_dir: Path, folder: Path, frames: Sequence[bytes], **dut: Any
) -> tuple[list[bytes], dict[str, Any]]:
    """Return the packets that leave, and the lcore's counters."""
    sent, result = sent_frames(build_dir, folder, frames, **dut)
    (lcore,) = result["lcores"]
    assert len(sent) >= len(frames)
    return sent, lcore


def frames_of(lengths: Sequence[int]) -> list[bytes]:
    """Return frames with random payloads and distinct source ports."""
    return [udp_frame(os.urandom(length), source_port=1000 + i) for i, length in enumerate(lengths)]


def pairs(sent: Sequence[bytes], frames: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Return each packet that left with its original; the file is played from any of its frames on."""
    by_port = {one[34:36]: one for one in frames}
    assert len(by_port) == len(frames)
    for one in sent:
        yield one, by_port[one[34:36]]


def check_rest(sent: bytes, before: bytes, **dut: Any) -> None:
    """Check that source, ports and stamp are unchanged, and that the frame grows as the spec says."""
    assert len(sent) + 4 == grown_frame_bytes(Parameters(**dut), len(before) + 4)
    assert sent[:6] == NEXT_HOP
    assert sent[26:30] == before[26:30]
    assert sent[34:36] == before[34:36]
    assert sent[HEADERS:STAMPED] == before[HEADERS:STAMPED]


def test_crypto_decrypts_to_the_payload(build_dir: Path, tmp_path: Path) -> None:
    frames = frames_of(LENGTHS)
    sent, _ = sent_by_task(build_dir, tmp_path, frames, workload="crypto")
    ivs = []
    for after, before in pairs(sent, frames):
        check_rest(after, before, workload="crypto")
        changed = payload_of(after)
        iv, encrypted = changed[:16], changed[16:]
        decryptor = Cipher(algorithms.AES(bytes(range(32))), modes.CBC(iv)).decryptor()
        unpadder = PKCS7(128).unpadder()
        plain = unpadder.update(decryptor.update(encrypted) + decryptor.finalize()) + unpadder.finalize()
        assert plain == before[STAMPED:]
        ivs.append(iv)
    assert len(set(ivs)) == len(ivs)
    # NIST SP 800-38A appendix C: a counter, encrypted with the same key
    encryptor = Cipher(algorithms.AES(bytes(range(32))), modes.ECB()).encryptor()
    assert ivs[0] == encryptor.update((1).to_bytes(16, "big"))


def cut(payload: bytes, buffers: int) -> list[bytes]:
    """Return data buffers of a multiple of 32 bytes, with zeros at the end."""
    size = -(-len(payload) // (32 * buffers)) * 32
    padded = payload.ljust(size * buffers, b"\x00")
    return [padded[i * size : (i + 1) * size] for i in range(buffers)]


def parity_of(sent: bytes, payload: bytes, count: int) -> list[bytes]:
    changed = payload_of(sent)
    assert changed[: len(payload)] == payload
    parity = changed[len(payload) :]
    assert len(parity) % count == 0
    size = len(parity) // count
    return [parity[i * size : (i + 1) * size] for i in range(count)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("data", "parity"), [(4, 2), (2, 1), (10, 4), (32, 16)])
def test_reed_solomon_parity_is_that_of_a_cauchy_matrix(
    build_dir: Path, tmp_path: Path, data: int, parity: int
) -> None:
    frames = frames_of(LENGTHS[:-1])
    dut = {"workload": "rs", "task_buffers": data, "parity_buffers": parity}
    sent, _ = sent_by_task(build_dir, tmp_path, frames, **dut)
    for after, before in itertools.islice(pairs(sent, frames), len(frames)):
        check_rest(after, before, **dut)
        blocks = cut(before[STAMPED:], data)
        found = parity_of(after, before[STAMPED:], parity)
        assert found == [combined(cauchy_row(data, row), blocks) for row in range(parity)]


def test_reed_solomon_survives_the_loss_of_any_two_buffers(build_dir: Path, tmp_path: Path) -> None:
    (before,) = frames_of([200])
    sent, _ = sent_by_task(build_dir, tmp_path, [before], workload="rs")
    data = cut(before[STAMPED:], 4)
    blocks = dict(enumerate([*data, *parity_of(sent[0], before[STAMPED:], 2)]))
    for lost in itertools.combinations(blocks, 2):
        left = {number: block for number, block in blocks.items() if number not in lost}
        assert recovered(left, 4) == data


@pytest.mark.one_in(3)
@pytest.mark.parametrize("data", [2, 4, 7, 32])
def test_raid_parity_is_p_and_q(build_dir: Path, tmp_path: Path, data: int) -> None:
    frames = frames_of(LENGTHS[:-1])
    dut = {"workload": "raid", "task_buffers": data}
    sent, _ = sent_by_task(build_dir, tmp_path, frames, **dut)
    powers = [1]
    while len(powers) < data:
        powers.append(powers[-1] << 1 ^ (0x11D if powers[-1] & 0x80 else 0))
    for after, before in itertools.islice(pairs(sent, frames), len(frames)):
        check_rest(after, before, **dut)
        blocks = cut(before[STAMPED:], data)
        assert parity_of(after, before[STAMPED:], 2) == [combined([1] * data, blocks), combined(powers, blocks)]


def steered(sent: Sequence[bytes]) -> list[int]:
    """Return the server of each packet."""
    assert {one[:5] for one in sent} == {bytes([2, 0, 0, 0, 1])}
    return [one[5] for one in sent]


def test_a_session_stays_with_its_server(build_dir: Path, tmp_path: Path) -> None:
    """200 sessions get the 64 servers in turn, in the order of their first packets; the packets are unchanged."""
    frames = [udp_frame(b"", f"10.0.{i // 20}.{i % 20}", source_port=1000 + i % 7) for i in range(200)]
    frames += [frame("10.1.0.1", 64, 0x0800), udp_frame(b"", "10.1.0.1", source_port=1), frame("10.1.0.1", 1, 0x0800)]
    refused = [frame("10.9.0.1", 64, 0x0806)]
    sent, lcore = sent_by_task(build_dir, tmp_path, refused + frames, workload="steer")
    servers: dict[bytes, int] = {}
    for after in sent:
        assert after[12:] in {before[12:] for before in frames}
        key = after[23:24] + after[26:38]
        servers.setdefault(key, len(servers) % 64)
        assert steered([after]) == [servers[key]]
    assert lcore["task"] == {"sessions": len(servers), "refused": 0}
    assert lcore["workload_dropped"] == pytest.approx(lcore["rx_packets"] / (len(frames) + 1), abs=64)


@pytest.mark.thorough
def test_a_full_table_of_sessions_still_steers_the_same_way(build_dir: Path, tmp_path: Path) -> None:
    frames = [udp_frame(b"", f"10.0.{i // 20}.{i % 20}") for i in range(300)]
    sent, lcore = sent_by_task(build_dir, tmp_path, frames, workload="steer", sessions=64)
    known = lcore["task"]["sessions"]
    assert 32 <= known < 300
    assert lcore["task"]["refused"] > 0
    servers: dict[bytes, set[int]] = {}
    for after in sent:
        servers.setdefault(after[30:34], set()).update(steered([after]))
    assert {len(each) for each in servers.values()} == {1}


def xdr_call(sent: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the words of an ONC RPC call, and its argument (RFC 5531 section 9, RFC 4506 section 4.10)."""
    call = payload_of(sent)
    words = struct.unpack_from("!10I", call)
    (length,) = struct.unpack_from("!I", call, 40)
    assert len(call) == 44 + length + -length % 4
    assert not any(call[44 + length :])
    return words, call[44 : 44 + length]


def test_dispatched_calls_are_those_of_their_types(build_dir: Path, tmp_path: Path) -> None:
    """Byte 2 of the UDP payload is the type; the clients of a type share four back ends, and each client keeps one."""
    frames = [
        udp_frame(os.urandom(length), source_port=1000 + i, stamp=bytes([0xAA, 0xBB, i]) + bytes(15))
        for i, length in enumerate([*LENGTHS, *LENGTHS, *LENGTHS])
    ]
    sent, _ = sent_by_task(build_dir, tmp_path, frames, workload="dispatch")
    back_ends: dict[tuple[int, bytes], set[bytes]] = {}
    for number, (after, before) in enumerate(pairs(sent, frames)):
        check_rest(after, before, workload="dispatch")
        kind = before[HEADERS + 2] % 16
        words, argument = xdr_call(after)
        assert words == (number, 0, 2, 0x20000000 + kind, 1, kind, 0, 0, 0, 0)
        assert argument == before[STAMPED:]
        assert struct.unpack_from("!H", after, 36)[0] == 4000 + kind
        assert after[30:33] == packed(f"198.19.{kind}.0")[:3]
        back_ends.setdefault((kind, before[34:36]), set()).add(after[33:34])
    assert {len(each) for each in back_ends.values()} == {1}
    assert {end for each in back_ends.values() for end in each} == {bytes([n]) for n in (1, 2, 3, 4)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("workload", ["crypto", "rs", "raid", "dispatch"])
def test_packets_that_a_task_cannot_take_are_dropped(build_dir: Path, tmp_path: Path, workload: str) -> None:
    good = udp_frame(b"payload")
    long_length = good[:16] + (1400).to_bytes(2, "big") + good[18:]
    wrong_udp = good[:38] + (30).to_bytes(2, "big") + good[40:]
    fragment = good[:20] + (0x2000).to_bytes(2, "big") + good[22:]
    bad = [
        udp_frame(b""),
        udp_frame(b"payload", ttl=1),
        frame("10.0.0.7", 64, 0x0806),
        frame("10.0.0.7", 64, 0x0800),
        long_length,
        wrong_udp,
        fragment,
        good[:23] + b"\x06" + good[24:],
        good[:14] + b"\x46" + good[15:],
    ]
    padded = udp_frame(b"payload!") + bytes(9)
    frames = [*bad, good, padded]
    sent, lcore = sent_by_task(build_dir, tmp_path, frames, workload=workload)
    # 7 and 8 bytes of payload
    grown = {"crypto": {32}, "rs": {7 + 64, 8 + 64}, "raid": {7 + 64, 8 + 64}, "dispatch": {44 + 8}}[workload]
    assert {len(payload_of(one)) for one in sent} == grown
    assert lcore["workload_dropped"] == pytest.approx(lcore["rx_packets"] * len(bad) / len(frames), abs=64)


def test_without_room_for_parity_a_packet_is_dropped(build_dir: Path, tmp_path: Path) -> None:
    """16 parity buffers of half a payload of 1000 bytes do not fit the buffer of a packet."""
    frames = [udp_frame(os.urandom(1000)), udp_frame(os.urandom(10))]
    sent, lcore = sent_by_task(build_dir, tmp_path, frames, workload="rs", task_buffers=2, parity_buffers=16)
    assert {len(payload_of(one)) for one in sent} == {10 + 16 * 32}
    assert lcore["workload_dropped"] == pytest.approx(lcore["rx_packets"] / 2, abs=64)


@pytest.mark.measure
def test_two_cores_have_memory_of_the_queues_each(node: Node) -> None:
    gen = {"frame": [{"bytes": 128}]}
    dut: dict[str, Any] = {"lcores": [DUT_LCORE, SECOND_DUT_LCORE], "workload": "encap", "task_data": 64}
    node.get("configure", **configuration(queues=5, gen=gen, **dut))
    lcores = node.trial(window_s=0.1, rate={"pps": 20_000})["dut"]["lcores"]
    assert [lcore["task"]["queue_data"]["queues"] for lcore in lcores] == [3, 2]
