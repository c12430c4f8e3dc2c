# SPDX-License-Identifier: BSD-3-Clause
"""Talk to a running DPDK program over its telemetry socket (version 2): SOCK_SEQPACKET, one request per packet."""

import json
import math
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pollscope.host.eal_folders import runtime_folder

SOCKET_NAME = "dpdk_telemetry.v2"
_TIMEOUT_S = 2.0
_MOST_BYTES = 1 << 20
# struct ucred of SO_PEERCRED, see unix(7).
_CREDENTIALS = struct.Struct("3i")


class TelemetrySocket:
    """A connection to one program.

    Args:
        path: the socket.
        deadline: of time.monotonic(), after which no reply is waited for.

    Attributes:
        path: the socket.
        deadline: as above; may be changed.
        hello: the program's first message: `version`, `pid` as the program sees itself, `max_output_len`.
        pid: the process behind the socket as this host sees it, also from outside its container.
    """

    def __init__(self, path: Path, deadline: float = math.inf) -> None:
        """Connect.

        Raises:
            OSError: nothing listens there, or it does not answer like DPDK.
        """
        self.path, self.deadline = path, deadline
        self._connection = _connect(path, deadline)
        try:
            self._connection.settimeout(_left_s(deadline))
            self.hello: Mapping[str, Any] = _object(self._connection.recv(1024))
            self._limit = max(0, min(_MOST_BYTES, int(self.hello["max_output_len"]))) + 1024
            credentials = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            self.close()
            raise error if isinstance(error, OSError) else OSError("its first message is not DPDK's") from error
        self.pid: int = _CREDENTIALS.unpack(credentials)[0]

    def ask(self, request: str) -> bytes:
        """Return the reply to a request as it came.

        Raises:
            OSError: the program is gone or does not answer in time.
        """
        self._connection.settimeout(_left_s(self.deadline))
        self._connection.send(request.encode())
        reply = self._connection.recv(self._limit)
        if not reply:
            raise OSError("the application closed the telemetry socket")
        return reply

    def value(self, request: str) -> Any:
        """Return the result in the reply to a request; None if this DPDK does not know the command.

        Raises:
            OSError: as `ask`, or the reply is not JSON.
        """
        return _object(self.ask(request)).get(request.partition(",")[0])

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def telemetry_sockets(file_prefix: str = "", runtime: Path | None = None) -> list[Path]:
    """Return the sockets that answer; `:1` and so on are instances with --in-memory under the same prefix."""
    return [path for path in socket_files(file_prefix, runtime) if _answers(path)]


def socket_files(file_prefix: str = "", runtime: Path | None = None) -> list[Path]:
    """Return the sockets, also those of programs that have ended."""
    folder = runtime_folder() if runtime is None else runtime
    return sorted(folder.glob(f"{file_prefix or '*'}/{SOCKET_NAME}*"))


def _object(reply: bytes) -> dict[str, Any]:
    try:
        # DPDK sends names as they are, in any encoding.
        found = json.loads(reply.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise OSError(f"the reply is not JSON: {reply[:60]!r}") from error
    if not isinstance(found, dict):
        raise OSError(f"the reply is no JSON object: {reply[:60]!r}")
    return found


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no time is left to wait for its reply")
    return min(_TIMEOUT_S, left_s)


def _connect(path: Path, until: float = math.inf) -> socket.socket:
    """Connect; wait while EAL's backlog of one is full (EAGAIN on a socket with a timeout)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(_left_s(until))
        deadline = time.monotonic() + _left_s(until)
        while True:
            try:
                connection.connect(str(path))
                return connection
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    except OSError:
        connection.close()
        raise


def _answers(path: Path) -> bool:
    """Return whether a program is behind a socket file, which outlives it."""
    try:
        _connect(path).close()
    except OSError:
        return False
    return True
