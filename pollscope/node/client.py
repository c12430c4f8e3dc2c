# SPDX-License-Identifier: BSD-3-Clause
"""Talk to one `pollscope-node` over its pipes (docs/internals/node-protocol.md), with limits on time and on memory.

The client raises if a node does not answer in time, breaks the protocol, sends without bound, or dies. `end` then ends
the process that the client started, by its own pid.
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
# Part of the message about a node without a hello. Other errors at the start are about its version.
DID_NOT_START = "did not start"
# The events that end a started trial.
_TRIAL_ENDS = ("done", "failed")
# EAL takes about a second with hugepages, and several to touch the memory of a large --no-huge process.
HELLO_LIMIT_S = 60.0
QUIT_LIMIT_S = 3.0
# A process in an uninterruptible system call survives SIGKILL for as long as the call takes.
_TERMINATE_LIMIT_S, _KILL_LIMIT_S = 2.0, 5.0
_CHUNK_BYTES = 1 << 16
# A reply with every histogram full has a few MiB, as has a piece of a recording. The same limit applies to unrequested
# messages, each of which counts with the size of its Python object.
LINE_LIMIT_BYTES = 1 << 25
_MESSAGE_BYTES = 1 << 10
# Signs of life sent per heartbeat timeout.
_HEARTBEATS_PER_TIMEOUT = 5


class NodeRefused(TrialError):
    """Report that the node understood a request and answered `ok: false`."""


class NodeFailed(TrialError):
    """Report that the node gave up a started trial."""


class NodeLost(TrialError):
    """Report that the node hung, died, or broke the protocol, and has to be restarted."""


class LineReader:
    """Read the lines of a process that may hang, or send without end.

    Args:
        pipe: its standard output.
        who: name of the process in messages.
    """

    def __init__(self, pipe: IO[bytes] | None, who: str) -> None:
        assert pipe is not None
        self._descriptor, self._who, self._tail = pipe.fileno(), who, bytearray()

    def chunk(self, deadline: float) -> bytes | None:
        """Return what arrived, empty at the end of the stream; None if nothing did until the deadline."""
        # poll(2) blocks, so that waiting takes no cycles from the cores being measured.
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        return os.read(self._descriptor, _CHUNK_BYTES)

    def lines(self, deadline: float) -> list[bytes] | None:
        """Return the lines that the next chunk completes; None at the deadline.

        Raises:
            EOFError: the stream has ended.
            NodeLost: a line is longer than LINE_LIMIT_BYTES.
        """
        chunk = self.chunk(deadline)
        if not chunk:
            if chunk is None:
                return None
            raise EOFError
        first, *others = chunk.split(b"\n")
        self._tail += first
        if len(self._tail) > LINE_LIMIT_BYTES:
            raise NodeLost(f"{self._who} sent a line of more than {LINE_LIMIT_BYTES >> 20} MiB")
        if not others:
            return []
        complete = [bytes(self._tail), *others[:-1]]
        self._tail = bytearray(others[-1])
        return complete


def end_process(process: "subprocess.Popen[Any]") -> bool:
    """End a process that this program started: terminate, then kill. Return whether it has ended."""
    for number, limit_s in ((signal.SIGTERM, _TERMINATE_LIMIT_S), (signal.SIGKILL, _KILL_LIMIT_S)):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)
    return process.poll() is not None


class NodeClient:
    """Own one running node.

    Args:
        argv: program and arguments; no shell is involved.
        log: file to which the node's standard error is appended.
        who: name of the node in messages.
        heartbeat_timeout_s: heartbeat timeout of a node behind a network, which may drop packets without closing a
        connection
            (see `keep_heartbeat`).
        patience: factor on the time limits of requests and trials; the limit of a hello is its caller's.

    Attributes:
        hello: the node's `hello` event.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        who: str = "the node",
        heartbeat_timeout_s: float | None = None,
        patience: int = 1,
    ) -> None:
        self.argv, self._who, self._heartbeat_timeout_s, self._patience = list(argv), who, heartbeat_timeout_s, patience
        self._pending = deque[tuple[int, dict[str, Any]]]()  # with the size of each
        self._sequence = 0
        self._writing, self._ended = threading.Lock(), threading.Event()
        with log.open("ab") as stderr:
            self._log_begin = stderr.tell()
            try:
                # Ctrl-C on the terminal must reach the runner alone, which then ends the node in order.
                self._process = subprocess.Popen(
                    self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
                )
            except OSError as error:
                raise HostError(f"cannot be started: {error.strerror}", self.argv[0]) from error
        self._reader = LineReader(self._process.stdout, who)
        self.log = log
        self.hello: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """Return the pid of the process that this client started."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether that process still runs."""
        return self._process.poll() is None

    def wait_hello(self, limit_s: float = HELLO_LIMIT_S) -> dict[str, Any]:
        """Wait until EAL is up, and return the hello.

        Raises:
            HostError: the node ended during start, speaks another version of the protocol, or takes no heartbeat
                timeout.
        """
        try:
            self.hello = self.wait_event(("hello",), limit_s)
        except NodeLost as error:
            self.end()
            raise HostError(f"{self._who} {DID_NOT_START}: {error.what}", str(self.log), self._last_lines()) from error
        if self.hello.get("protocol") != PROTOCOL:
            self.end()
            raise HostError(
                f"speaks protocol {self.hello.get('protocol')!r}, this pollscope speaks {PROTOCOL}",
                self.argv[0],
                BUILD_COMMAND,
            )
        if self._heartbeat_timeout_s is not None:
            self.keep_heartbeat(self._heartbeat_timeout_s)
        return self.hello

    def keep_heartbeat(self, silent_s: float) -> None:
        """Ask the node to end if it hears nothing for `silent_s`, and send it signs of life from now on.

        Raises:
            HostError: the node refuses.
        """
        try:
            self.request("heartbeat_timeout", HELLO_LIMIT_S, silent_s=silent_s)
        except TrialError as error:
            self.end()
            what = f"{self._who} takes no heartbeat timeout: {error.what}"
            raise HostError(what, remedy="pollscope play provision") from error
        every_s = silent_s / _HEARTBEATS_PER_TIMEOUT
        threading.Thread(target=self._give_signs, args=(every_s,), name="signs of life", daemon=True).start()

    def _give_signs(self, every_s: float) -> None:
        assert self._process.stdin is not None
        while not self._ended.wait(every_s):
            with self._writing, contextlib.suppress(OSError, ValueError):  # the next request notices a lost node
                if self._has_room():
                    os.write(self._process.stdin.fileno(), b"\n")

    def _has_room(self) -> bool:
        """Return whether ssh accepts input now, so that this thread never waits for it."""
        assert self._process.stdin is not None
        poller = select.poll()
        poller.register(self._process.stdin, select.POLLOUT)
        return bool(poller.poll(0))

    def request(self, command: str, limit_s: float, **fields: Any) -> dict[str, Any]:
        """Send a request and return its reply.

        Raises:
            NodeRefused: the reply is `ok: false`.
            NodeLost: there is no reply within `limit_s`, no protocol, or no process.
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
        """Wait for one of these events and return it; raise NodeLost as `request` does."""
        deadline = time.monotonic() + limit_s
        return self._take(lambda message: message.get("event") in names, deadline, f"no event '{names[0]}'")

    def wait_trial(self, trial: str, limit_s: float) -> None:
        """Wait until this trial is done; drop the end of another one that was lost before.

        Raises:
            NodeFailed: the node gave the trial up.
            NodeLost: the node gave the trial up because lcores hang, and can start no other; or as `request` does.
        """
        deadline = time.monotonic() + self._patience * limit_s
        event: dict[str, Any] = {}
        while event.get("trial") != trial:
            event = self._take(lambda each: each.get("event") in _TRIAL_ENDS, deadline, f"no event '{_TRIAL_ENDS[0]}'")
        if event["event"] == "failed":
            what = f"{self._who} gave the trial up: {event.get('error')}"
            raise NodeLost(what) if event.get("hung") else NodeFailed(what)

    def close(self) -> None:
        """Ask the node to quit, and end it if it does not."""
        if self._process.poll() is None:
            with contextlib.suppress(TrialError, subprocess.TimeoutExpired):  # `end` ends a node that stays
                self.request("quit", QUIT_LIMIT_S)
                self._process.wait(self._patience * QUIT_LIMIT_S)
        self.end()

    def end(self) -> None:
        """End the process that this client started; a process that survives SIGKILL is abandoned, and the log says
        so.
        """
        self._ended.set()
        if not end_process(self._process):
            with contextlib.suppress(OSError), self.log.open("a") as log:
                log.write(f"pollscope: process {self.pid} has not ended {_KILL_LIMIT_S:.0f} s after SIGKILL\n")
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
            for each in list(self._pending):
                if wanted(each[1]):
                    self._pending.remove(each)
                    return each[1]
            if not self._read(deadline):
                raise NodeLost(f"{self._who} hung: {missing} in time")

    def _read(self, deadline: float) -> bool:
        try:
            lines = self._reader.lines(deadline)
        except EOFError:
            raise NodeLost(self._epitaph()) from None
        if lines is None:
            return False
        self._pending.extend((len(line) + _MESSAGE_BYTES, self._parse(line)) for line in lines if line.strip())
        if sum(size for size, _ in self._pending) > LINE_LIMIT_BYTES:
            raise NodeLost(f"{self._who} sent more than {LINE_LIMIT_BYTES >> 20} MiB of unrequested messages")
        return True

    def _last_lines(self) -> str:
        """Return the end of this node's own part of the log, which other nodes may have begun."""
        with self.log.open("rb") as log:
            log.seek(self._log_begin)
            # EAL prints its whole usage after a wrong option. The error stands before it.
            said = log.read().decode(errors="replace").partition("\nUsage:")[0].strip().splitlines()
        return " | ".join(line for line in said[-2:] if line.strip())

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
        except (ValueError, RecursionError) as error:
            raise NodeLost(f"{self._who} wrote something that is not JSON: {line[:60]!r}") from error
        if not isinstance(message, dict):
            raise NodeLost(f"{self._who} wrote something that is not an object: {line[:60]!r}")
        return message


def _refuse(constant: str) -> Any:
    """Refuse NaN and infinities, which Python reads but no other JSON parser; a store with one could not be read."""
    raise ValueError(f"{constant} is no JSON")


class ClientOwner:
    """Own at most one client, which is started on first use."""

    _client: NodeClient | None = None

    def close(self) -> None:
        """End the program in order."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def end(self) -> None:
        """End the program at once."""
        if self._client is not None:
            self._client.end()
        self._client = None


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):  # unsent data is of no use to a node that has ended
        pipe.close()
