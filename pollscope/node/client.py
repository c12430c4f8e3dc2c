# SPDX-License-Identifier: BSD-3-Clause
"""Client of one `pollscope-node` over its pipes (docs/node-protocol.md), with a time limit on everything.

A node that does not answer, that writes something else than the protocol, or that dies is never waited for: the client
raises, and `end` ends the process that it started, by its own pid.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from pollscope.base.errors import HostError, TrialError
from pollscope.base.paths import BUILD_COMMAND

PROTOCOL = 3
# Of a node without a hello; whatever else is wrong with it is its version.
DID_NOT_START = "did not start"
# The events that end a started trial, one way or the other.
_TRIAL_ENDS = ("done", "failed")
# EAL takes about a second with hugepages, and several to touch the memory of a large --no-huge process.
HELLO_LIMIT_S = 60.0
QUIT_LIMIT_S = 3.0
_TERMINATE_LIMIT_S = 2.0
_CHUNK_BYTES = 1 << 16
# A reply with every histogram full has a few MiB; more than this is not a reply.
_LINE_LIMIT_BYTES = 1 << 28
# A lease lapses when so many signs of life in a row are missing.
_SIGNS_A_LEASE = 5


class NodeRefused(TrialError):
    """The node understood a request and answered `ok: false`."""


class NodeFailed(TrialError):
    """The node said that a started trial cannot go on."""


class NodeLost(TrialError):
    """The node hung, died, or wrote something that is not the protocol; it has to be started again."""


class NodeClient:
    """One running node.

    Args:
        argv: program and arguments; no shell is involved.
        log: file to which the node's standard error is appended.
        who: what messages call it.
        lease_s: of a node behind a network, which may drop packets and close no connection (see `keep_lease`).
        patience: so many times the limits of requests and trials it may take; a hello has a limit for its host.

    Attributes:
        hello: the node's `hello` event.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        who: str = "the node",
        lease_s: float | None = None,
        patience: int = 1,
    ) -> None:
        self.argv, self._who, self._lease_s, self._patience = list(argv), who, lease_s, patience
        self._pending, self._tail = deque[dict[str, Any]](), b""
        self._sequence = 0
        self._writing, self._ended = threading.Lock(), threading.Event()
        with log.open("ab") as stderr:
            try:
                # In a session of its own: Ctrl-C on the terminal reaches the runner, which then ends the node in order.
                self._process = subprocess.Popen(
                    self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
                )
            except OSError as error:
                raise HostError(f"cannot be started: {error.strerror}", self.argv[0]) from error
        self.log = log
        self.hello: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """The process that this client started."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether that process still runs."""
        return self._process.poll() is None

    def wait_hello(self, limit_s: float = HELLO_LIMIT_S) -> dict[str, Any]:
        """Waits until EAL is up.

        Raises:
            HostError: the node ended during start, speaks another version of the protocol, or takes no lease.
        """
        try:
            self.hello = self.wait_event(("hello",), limit_s)
        except NodeLost as error:
            self.end()
            raise HostError(
                f"{self._who} {DID_NOT_START}: {error.what}", str(self.log), _last_lines(self.log)
            ) from error
        if self.hello.get("protocol") != PROTOCOL:
            self.end()
            raise HostError(
                f"speaks protocol {self.hello.get('protocol')!r}, this pollscope speaks {PROTOCOL}",
                self.argv[0],
                BUILD_COMMAND,
            )
        if self._lease_s is not None:
            self.keep_lease(self._lease_s)
        return self.hello

    def keep_lease(self, silent_s: float) -> None:
        """Asks the node to end when it hears nothing for so long, and gives it signs of life from now on.

        Raises:
            HostError: it does not do so.
        """
        try:
            self.request("lease", HELLO_LIMIT_S, silent_s=silent_s)
        except TrialError as error:
            self.end()
            raise HostError(f"{self._who} takes no lease: {error.what}", remedy="pollscope play provision") from error
        every_s = silent_s / _SIGNS_A_LEASE
        threading.Thread(target=self._give_signs, args=(every_s,), name="signs of life", daemon=True).start()

    def _give_signs(self, every_s: float) -> None:
        assert self._process.stdin is not None
        while not self._ended.wait(every_s):
            with self._writing, contextlib.suppress(OSError, ValueError):  # what is lost is noticed by who asks
                if self._has_room():
                    os.write(self._process.stdin.fileno(), b"\n")

    def _has_room(self) -> bool:
        """False while ssh takes nothing, so that nobody waits for it here."""
        assert self._process.stdin is not None
        poller = select.poll()
        poller.register(self._process.stdin, select.POLLOUT)
        return bool(poller.poll(0))

    def request(self, command: str, limit_s: float, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply.

        Raises:
            NodeRefused: the reply is `ok: false`.
            NodeLost: no reply within `limit_s`, no protocol, or no process.
        """
        self._sequence += 1
        self._send({"cmd": command, "id": self._sequence, **fields})
        deadline = time.monotonic() + self._patience * limit_s
        reply = self._take(lambda message: message.get("id") == self._sequence, deadline, f"no reply to '{command}'")
        if reply.get("ok") is not True:
            raise NodeRefused(
                f"{self._who} refused '{command}': {reply.get('error', reply)}", str(reply.get("where", ""))
            )
        return reply

    def wait_event(self, names: Sequence[str], limit_s: float) -> dict[str, Any]:
        """Waits for one of these events; raises NodeLost as `request` does."""
        deadline = time.monotonic() + limit_s
        return self._take(lambda message: message.get("event") in names, deadline, f"no event '{names[0]}'")

    def wait_trial(self, trial: str, limit_s: float) -> None:
        """Waits until this trial is done. The end of another one, lost before, is dropped.

        Raises:
            NodeFailed: the node gave the trial up.
            NodeLost: it gave the trial up because lcores hang, so that it can start no other; or as `request` does.
        """
        deadline = time.monotonic() + self._patience * limit_s
        while (event := self._take(_ends_a_trial, deadline, f"no event '{_TRIAL_ENDS[0]}'")).get("trial") != trial:
            pass
        if event["event"] == "failed":
            what = f"{self._who} gave the trial up: {event.get('error')}"
            raise NodeLost(what) if event.get("hung") else NodeFailed(what)

    def close(self) -> None:
        """Asks the node to quit, and ends it when it does not."""
        if self._process.poll() is None:
            with contextlib.suppress(TrialError, subprocess.TimeoutExpired):  # `end` deals with a node that stays
                self.request("quit", QUIT_LIMIT_S)
                self._process.wait(self._patience * QUIT_LIMIT_S)
        self.end()

    def end(self) -> None:
        """Ends the process that this client started: terminate, then kill."""
        self._ended.set()
        for number, limit_s in ((signal.SIGTERM, _TERMINATE_LIMIT_S), (signal.SIGKILL, None)):
            if self._process.poll() is not None:
                break
            self._process.send_signal(number)
            try:
                self._process.wait(limit_s)
            except subprocess.TimeoutExpired:
                continue
        with self._writing:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    _close(pipe)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            with self._writing:
                self._process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise NodeLost(self._epitaph()) from error

    def _take(self, wanted: Callable[[dict[str, Any]], bool], deadline: float, missing: str) -> dict[str, Any]:
        while True:
            for message in list(self._pending):
                if wanted(message):
                    self._pending.remove(message)
                    return message
            if not self._read(deadline):
                raise NodeLost(f"{self._who} hung: {missing} in time")

    def _read(self, deadline: float) -> bool:
        # Blocks in poll(2) until there is something to read: no cycles are taken from the cores being measured.
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            raise NodeLost(self._epitaph())
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        if len(self._tail) > _LINE_LIMIT_BYTES:
            raise NodeLost(f"{self._who} wrote a line without end")
        self._pending.extend(self._parse(line) for line in lines if line.strip())
        return True

    def _epitaph(self) -> str:
        try:
            status = self._process.wait(_TERMINATE_LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"{self._who} closed its output"
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self._who} {how}"

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line, parse_constant=_refuse)
        except ValueError as error:
            raise NodeLost(f"{self._who} wrote something that is not JSON: {line[:60]!r}") from error
        if not isinstance(message, dict):
            raise NodeLost(f"{self._who} wrote something that is not an object: {line[:60]!r}")
        return message


def _refuse(constant: str) -> Any:
    """NaN and infinities, which Python reads and no other JSON parser; a store that held one could not be read."""
    raise ValueError(f"{constant} is no JSON")


def _ends_a_trial(message: dict[str, Any]) -> bool:
    return message.get("event") in _TRIAL_ENDS


class ClientOwner:
    """Has one client at a time, started when it is first needed; `None` when there is none."""

    _client: NodeClient | None = None

    def close(self) -> None:
        """Ends the program in order."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def end(self) -> None:
        """Ends the program at once."""
        if self._client is not None:
            self._client.end()
        self._client = None


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):  # what was left unsent is of no use to a node that has ended
        pipe.close()


def _last_lines(log: Path) -> str:
    # EAL prints its whole usage after an option that it does not take; what is wrong stands in front of it.
    said = log.read_text(errors="replace").partition("\nUsage:")[0].strip().splitlines()
    return " | ".join(line for line in said[-2:] if line.strip())
