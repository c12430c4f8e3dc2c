# SPDX-License-Identifier: BSD-3-Clause
"""Decrypt at the receiving end of the ipsec tunnel, with another cipher library than the node's (`cryptography`)."""

import hmac
import struct
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pcap_files import folded, packed

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
