# SPDX-License-Identifier: BSD-3-Clause
"""Run tools: collectors that record a tool's standard output as a stream, and single requests to a tool."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pollscope.base.errors import HostError
from pollscope.collectors.interface import Collector, CollectorOutcome, ProbeResult, Status
from pollscope.collectors.parsing import recognise_failure
from pollscope.collectors.recording import Recorder

_GRACE_S = 3.0
_ANSWER_LIMIT_S = 20.0
_LEAST_SILENCE_NS = 5_000_000_000


class _Running(NamedTuple):
    """A started tool, its recorder, and its standard error."""

    process: "subprocess.Popen[bytes]"
    recorder: Recorder
    reader: threading.Thread
    errors: Path
    started_ns: int
    interval_ns: int


class ToolCollector(Collector):
    """Runs one long-lived tool. Subclasses define the tool, its arguments and its parser."""

    binary: str
    package = ""

    def __init__(self) -> None:
        self._running: _Running | None = None

    def arguments(self, interval_ns: int) -> Sequence[str]:
        """Return the arguments after the tool's name."""
        raise NotImplementedError

    def metadata(self) -> Sequence[str]:
        """Return the lines about this host that its recording keeps for the parser."""
        return ()

    def probe(self) -> ProbeResult:
        path = shutil.which(self.binary)
        if path is None:
            advice = f" (apt-get install {self.package})" if self.package else ""
            return ProbeResult(False, f"{self.binary} is not installed{advice}")
        return ProbeResult(True, path)

    def start(self, folder: Path, interval_ns: int) -> None:
        recorder = Recorder(folder, self.name, "stream")
        for line in self.metadata():
            recorder.write(b"", line)
        errors = recorder.path.with_suffix(".stderr")
        command = [*tied_to_us(), *line_buffered(), self.binary, *self.arguments(interval_ns)]
        try:
            with errors.open("wb") as stderr:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                    env={**os.environ, "LC_ALL": "C"},
                )
        except OSError as error:
            recorder.close()
            raise HostError(f"cannot run {self.binary}: {error.strerror}", self.name, "see pollscope doctor") from None
        reader = threading.Thread(target=_read, args=(process, recorder), name=f"collect-{self.name}", daemon=True)
        self._running = _Running(process, recorder, reader, errors, time.monotonic_ns(), interval_ns)
        reader.start()

    def stop(self) -> CollectorOutcome:
        assert self._running is not None, "BUG: not started"
        process, recorder, reader, errors, started_ns, interval_ns = self._running
        self._running = None
        ended_by_itself = process.poll() is not None
        status, cpu_ns = _end(process) if not ended_by_itself else (process.returncode, None)
        reader.join(_GRACE_S)
        recorder.close()
        if not reader.is_alive() and process.stdout is not None:
            process.stdout.close()
        outcome = CollectorOutcome(self.name, Status.OK, "", cpu_ns, started_ns, time.monotonic_ns(), recorder.path)
        silence_ns = outcome.stopped_ns - max(recorder.last_ns, started_ns)
        if ended_by_itself:
            what = f"{self.binary} ended with status {status}{_last_words(recorder.path, errors)}"
            outcome.status, outcome.reason = Status.FAILED, what
        elif silence_ns > max(_LEAST_SILENCE_NS, 3 * interval_ns):
            outcome.status, outcome.reason = Status.HUNG, f"{self.binary} gave nothing for {silence_ns / 1e9:.1f} s"
        elif recorder.size_bytes == 0:
            what = f"{self.binary} gave nothing{_last_words(recorder.path, errors)}"
            outcome.status, outcome.reason = Status.FAILED, what
        elif recorder.failure:
            outcome.status, outcome.reason = Status.FAILED, recorder.failure
        return outcome


def _read(process: "subprocess.Popen[bytes]", recorder: Recorder) -> None:
    assert process.stdout is not None, "BUG: opened with a pipe"
    descriptor = process.stdout.fileno()
    while data := os.read(descriptor, 1 << 16):
        recorder.write(data)


def _last_words(*said: Path) -> str:
    """Return the tool's own reason for its end: a known failure in our words, else its last line."""
    lines: list[str] = []
    for path in said:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            lines += [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    if failure := next(filter(None, map(recognise_failure, lines)), None):
        return f": {failure[0]} ({failure[1]})"
    return f": {lines[-1][:120]}" if lines else ""


def ask(command: Sequence[str]) -> bytes:
    """Return the standard output of a short-lived tool.

    Raises:
        HostError: it cannot run, fails, or takes too long.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"cannot ask it: {error}", command[0]) from None
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise HostError(f"status {done.returncode}: {words[-1][:120] if words else 'no message'}", " ".join(command))
    return done.stdout


def tied_to_us(sent: str = "TERM") -> list[str]:
    """Return a prefix that gives a program a signal if this process dies (setpriv of util-linux).

    The program replaces setpriv, so the pid is its own. A tool leaves no counter programmed on SIGTERM.
    """
    return ["setpriv", "--pdeathsig", sent] if shutil.which("setpriv") else []


def line_buffered() -> list[str]:
    """Return a prefix that makes tools flush every line; in a pipe, most wait for a full buffer."""
    return ["stdbuf", "-oL"] if shutil.which("stdbuf") else []


def _end(process: "subprocess.Popen[bytes]") -> tuple[int, int | None]:
    """End our own tool: interrupt (tools free their counters on it), terminate, kill. Return status and CPU time."""
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        # it may have ended by itself in between; its status is collected below
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, int((usage.ru_utime + usage.ru_stime) * 1e9)
            time.sleep(0.01)
    return process.wait(), None
