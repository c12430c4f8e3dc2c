# SPDX-License-Identifier: BSD-3-Clause
"""Check the workload ipsec of a real node: another implementation opens its packets; its thirds and counters."""

import hmac
import ipaddress
import os
import re
import shlex
import shutil
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from dut_node import DUT_LCORE, LIMIT_S, SECOND_DUT_LCORE, configuration, running_node, skip_without
from pcap_files import folded, forwarded, frame, packed, read_pcap, sent_frames, write_pcap

TRANSFORMS = ("aes-cbc-sha1", "aes-gcm")
DRIVERS = Path("/usr/lib/x86_64-linux-gnu/dpdk")
ROUTES = 9
ETHERNET, OUTER, ESP = 14, 20, 8
FIRST_SPI = 256
IV_BYTES = {"aes-cbc-sha1": 16, "aes-gcm": 8}
ICV_BYTES = {"aes-cbc-sha1": 12, "aes-gcm": 16}
MULTIPLE = {"aes-cbc-sha1": 16, "aes-gcm": 4}
SALT = bytes([16, 17, 18, 19])


class Opened(NamedTuple):
    """A packet from the tunnel, and the parts of ESP that a receiver checks."""

    number: int
    sequence: int
    iv: bytes
    inner: bytes


def key(number: int, length: int) -> bytes:
    """Return the key of the SA of this number (docs/internals/node-protocol.md)."""
    return bytes([number, *range(1, length)])


def is_esp(frame: bytes) -> bool:
    return frame[12:14] == b"\x08\x00" and frame[23] == 50


def checked_outer(frame: bytes) -> bytes:
    """Return the ESP packet behind a correct outer header."""
    header = frame[ETHERNET : ETHERNET + OUTER]
    assert folded(header) == 0xFFFF
    assert struct.unpack_from("!H", header, 2)[0] == len(frame) - ETHERNET
    assert (header[0], header[6], header[8]) == (0x45, 0x40, 64)
    assert header[12:] == packed("192.0.2.1") + packed("192.0.2.2")
    return frame[ETHERNET + OUTER :]


def opened(frame: bytes, transform: str) -> Opened:
    """Authenticate and decrypt, check padding (RFC 4303 section 2.4); fail where a receiver would drop it."""
    esp = checked_outer(frame)
    spi, sequence = struct.unpack_from("!II", esp)
    number, iv_end, icv_begin = spi - FIRST_SPI, ESP + IV_BYTES[transform], len(esp) - ICV_BYTES[transform]
    iv, encrypted, icv = esp[ESP:iv_end], esp[iv_end:icv_begin], esp[icv_begin:]
    assert len(encrypted) % MULTIPLE[transform] == 0
    if transform == "aes-gcm":
        plain = AESGCM(key(number, 16)).decrypt(SALT + iv, encrypted + icv, esp[:ESP])
    else:
        assert hmac.digest(key(number, 20), esp[:icv_begin], "sha1")[: len(icv)] == icv
        decryptor = Cipher(algorithms.AES(key(number, 16)), modes.CBC(iv)).decryptor()
        plain = decryptor.update(encrypted) + decryptor.finalize()
    padding, next_header = plain[-2], plain[-1]
    inner = plain[: len(plain) - 2 - padding]
    assert next_header == 4
    assert plain[len(inner) : -2] == bytes(range(1, padding + 1))
    assert padding < MULTIPLE[transform]
    return Opened(number, sequence, iv, inner)


def destination(route: int, host: int = 1) -> str:
    """Return an address that a route covers (apps/lib/routes.h)."""
    return str(ipaddress.IPv4Address(10 << 24 | (route * 40503 & 0xFFFF) << 8 | host))


def longer(one: bytes, more: int) -> bytes:
    """Return the frame with more bytes in its packet."""
    packet = one[14:]
    header = packet[:2] + (len(packet) + more).to_bytes(2, "big") + packet[4:10] + b"\x00\x00" + packet[12:20]
    header = header[:10] + (0xFFFF - folded(header)).to_bytes(2, "big") + header[12:]
    return one[:14] + header + packet[20:] + os.urandom(more)


def sent_by_router(
    build_dir: Path, folder: Path, frames: Sequence[bytes], **dut: Any
) -> tuple[list[bytes], dict[str, Any]]:
    """Return the packets that leave, and the lcore's counters."""
    sent, result = sent_frames(build_dir, folder, frames, workload="ipsec", **{"routes": ROUTES, **dut})
    assert result["crypto_driver"] in {"crypto_aesni_mb", "crypto_openssl"}
    (lcore,) = result["lcores"]
    return sent, lcore


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_thirds_are_forwarded_dropped_and_encrypted(build_dir: Path, tmp_path: Path, transform: str) -> None:
    """The frames include padding and all packet lengths modulo the cipher's block."""
    frames = [frame(destination(route), 64, 0x0800, padding=route % 5) for route in range(ROUTES)]
    frames += [longer(frame(destination(route), 9, 0x0800), 18 * route + 1) for route in range(ROUTES)]
    sent, lcore = sent_by_router(build_dir, tmp_path, frames, transform=transform)
    by_policy = [[forwarded(one[14:]) for i, one in enumerate(frames) if i % ROUTES % 3 == hop] for hop in range(3)]
    plain = Counter(one[14:] for one in sent if not is_esp(one))
    encrypted = [opened(one, transform) for one in sent if is_esp(one)]
    # a short Ethernet frame keeps its padding when it is only forwarded
    assert {packet[: int.from_bytes(packet[2:4], "big")] for packet in plain} == set(by_policy[0])
    assert {each.inner for each in encrypted} == set(by_policy[2])
    # The counters cover the window; the file also has the packets of the drain.
    assert 0 < plain.total() == pytest.approx(len(encrypted), abs=len(frames))
    assert 0 < lcore["workload_dropped"] == pytest.approx(lcore["rx_packets"] / 3, abs=len(frames))
    assert {one[:6] for one in sent} == {bytes([2, 0, 0, 0, 0, 1])}
    # One SA: sequence numbers from 1 without a gap, no IV twice.
    assert {each.number for each in encrypted} == {0}
    assert [each.sequence for each in encrypted] == list(range(1, len(encrypted) + 1))
    assert len({each.iv for each in encrypted}) == len(encrypted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_packets_without_a_route_are_dropped(build_dir: Path, tmp_path: Path, transform: str) -> None:
    encrypting = destination(2)
    wrong_length = bytearray(frame(encrypting, 64, 0x0800))
    wrong_length[16:18] = (1400).to_bytes(2, "big")
    frames = [
        frame(encrypting, 1, 0x0800),
        frame(encrypting, 64, 0x0806),
        frame("192.0.2.77", 64, 0x0800),
        frame(destination(ROUTES), 64, 0x0800),
        bytes(wrong_length),
        frame(encrypting, 2, 0x0800),
    ]
    sent, lcore = sent_by_router(build_dir, tmp_path, frames, transform=transform)
    assert {opened(one, transform).inner for one in sent} == {forwarded(frames[-1][14:])}
    assert lcore["workload_dropped"] == pytest.approx(lcore["rx_packets"] * 5 / 6, abs=len(frames))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_tampered_packet_does_not_open(build_dir: Path, tmp_path: Path, transform: str) -> None:
    """Check that the peer of these tests detects a changed packet."""
    sent, _ = sent_by_router(build_dir, tmp_path, [frame(destination(2), 64, 0x0800)], transform=transform)
    for at in (38, 60, len(sent[0]) - 1):  # sequence number, payload, ICV
        bad = sent[0][:at] + bytes([sent[0][at] ^ 1]) + sent[0][at + 1 :]
        with pytest.raises((AssertionError, InvalidTag)):
            opened(bad, transform)


@pytest.mark.thorough
@pytest.mark.measure
def test_each_core_has_an_association_of_its_own(build_dir: Path, tmp_path: Path) -> None:
    """Two queues, each read and written by one core."""
    before = tmp_path / "before.pcap"
    write_pcap(before, [frame(destination(2), 64, 0x0800)])
    after = [tmp_path / f"after{i}.pcap" for i in range(2)]
    queues = ",".join(f"rx_pcap={before},tx_pcap={path}" for path in after)
    with running_node(build_dir, tmp_path / "log", [f"net_pcap0,infinite_rx=1,{queues}"], mib=512) as node:
        if node.hello["ports"] == []:
            pytest.skip("this DPDK has no net_pcap driver")
        dut = {"lcores": [DUT_LCORE, SECOND_DUT_LCORE], "rx_port": "net_pcap0", "tx_port": "net_pcap0"}
        ports = [{"name": "net_pcap0", "rx_queues": 2, "tx_queues": 2}]
        skip_without(node.ask("configure", ports=ports, dut={**dut, "workload": "ipsec", "routes": ROUTES}))
        node.trial(warmup_s=0, window_s=0.05, drain_max_ns=0)
        node.get("quit")
        node.process.wait(LIMIT_S)
    sequences = defaultdict(list)
    for number, path in enumerate(after):
        for one in read_pcap(path):
            each = opened(one, "aes-cbc-sha1")
            assert each.number == number
            sequences[number].append(each.sequence)
    assert all(found == list(range(1, len(found) + 1)) for found in sequences.values())
    assert len(sequences) == 2


def test_a_missing_crypto_driver_is_named(build_dir: Path, tmp_path: Path) -> None:
    """Run the same DPDK with fewer drivers, in a separate mount namespace."""
    plugins = next(iter(sorted(DRIVERS.glob("pmds-*"))), None)
    if plugins is None or shutil.which("unshare") is None:
        pytest.skip("no folder of DPDK's drivers, or no unshare")
    fewer = tmp_path / "drivers"
    fewer.mkdir()
    for driver in plugins.iterdir():
        if re.search(r"_(bus_(auxiliary|pci|vdev)|mempool_ring)\.", driver.name):
            shutil.copy2(driver, fewer, follow_symlinks=False)
    hidden = ["unshare", "--mount", "sh", "-c", f'mount --bind {fewer} {plugins} && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False, timeout=LIMIT_S).returncode:
        pytest.skip("no mount namespace to be had (not root)")
    words = " ".join(map(shlex.quote, [*hidden, str(build_dir / "pollscope-node")]))
    (tmp_path / "pollscope-node").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (tmp_path / "pollscope-node").chmod(0o755)
    with running_node(tmp_path, tmp_path / "log") as node:
        reply = node.ask("configure", **configuration(workload="ipsec"))
        assert (reply["ok"], reply["where"]) == (False, "dut.workload"), reply
        assert "librte-crypto-openssl" in reply["error"]
        assert "\n" not in reply["error"]
        node.get("configure", **configuration(workload="io"))
