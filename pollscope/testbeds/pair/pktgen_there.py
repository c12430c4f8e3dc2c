# SPDX-License-Identifier: BSD-3-Clause
"""Start and command pktgen-dpdk on its own host; the runner sends this file there (pktgen.py).

Usage: python3 -c SOURCE PROGRAM ARGUMENT... It writes {"ready": pid} or {"refused": reason}. Then it answers each line
of its input with one line:

    {"lua": "return 1"}  ->  {"value": "1"} or {"error": message of Lua}
    {"counts": [0, 1]}   ->  {"0.opackets": n, ..., "t_ns": when they were read}

pktgen-dpdk needs a terminal, so it gets a pseudo-terminal. Its Lua socket listens on all addresses without a password,
so it stays closed. Instead a Lua script, its command file, reads lines from a FIFO in a folder
of this user. Lua's counters may be a second old; DPDK's telemetry socket, in the same folder, has current ones.
pktgen-dpdk quits when the FIFO closes, so it ends with this program. Any Python from 3.6 on will do.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

START_LIMIT_S, ANSWER_LIMIT_S, END_LIMIT_S, LOOK_S = 60.0, 20.0, 5.0, 0.2
COUNTERS = ("opackets", "ipackets", "oerrors", "ierrors")
SCRIPT = """\
local asked, answers = io.open("%(ask)s", "r"), io.open("%(answer)s", "w")
pktgen.screen("off")
for line in asked:lines() do
  local chunk, value = load(line)
  local good = false
  if chunk then good, value = pcall(chunk) end
  answers:write(good and "value " or "error ", (tostring(value):gsub("\\n", " ")), "\\n")
  answers:flush()
end
pktgen.quit()
"""
# Terminal escape sequences in its output.
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_CONSOLE_BYTES = 1 << 16


class ProgramEnded(Exception):
    """pktgen-dpdk has ended or hangs; the text says how."""


def devices(words: "list[str]") -> "set[str]":
    """Return the devices that the EAL arguments name, without device arguments."""
    named = (after for word, after in zip(words, words[1:]) if word in ("-a", "--allow", "--vdev"))  # noqa: B905, RUF007
    return {each.split(",")[0] for each in named}


def is_pktgen(process: Path) -> bool:
    """Return whether a process is a pktgen-dpdk of root or of this user; any user can give a process this name."""
    program = os.readlink(str(process / "exe"))  # noqa: PTH115 - Path has this method since Python 3.9
    return Path(program.split(" (deleted)")[0]).name == "pktgen" and process.stat().st_uid in (0, os.geteuid())


def refuse_second(words: "list[str]") -> None:
    """Raise ProgramEnded if a pktgen-dpdk of this host holds one of the same devices, or, if it names no device, holds
    all.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if not is_pktgen(process):
                continue
            other = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended, or is a thread of the kernel
        theirs = devices(other)
        if not theirs or theirs & devices(words):
            held = ", ".join(sorted(theirs & devices(words))) or "every port"
            pid = process.name
            raise ProgramEnded(f"process {pid} is another pktgen-dpdk, which holds {held} (end it: kill {pid})")


class Console:
    """Read the terminal, so that its writer never waits, and keep its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._said = descriptor, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._descriptor, 65536)
            except OSError:  # the program has ended
                return
            self._said = (self._said + chunk)[-_CONSOLE_BYTES:]

    def reason(self) -> str:
        """Return what the program said about its end: its panic, or its last line."""
        self._thread.join(1)
        text = _ESCAPES.sub(b"\n", self._said).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        panics = [line for line in lines if line.startswith(("!PANIC!", "***"))]
        return (panics or lines or ["its log says why"])[-1][:300]


class Program:
    """A running pktgen-dpdk with its script."""

    def __init__(self, folder: Path, words: "list[str]") -> None:
        self._folder, self._text = folder, b""
        paths = {name: folder / name for name in ("ask", "answer")}
        for path in paths.values():
            os.mkfifo(path, 0o600)
        script = folder / "pollscope.lua"
        script.write_text(SCRIPT % paths)
        # Open for both directions, so that neither end blocks. Lua sees end of file when this program closes its end.
        self._ask = os.open(paths["ask"], os.O_RDWR)
        self._answer = os.open(paths["answer"], os.O_RDWR | os.O_NONBLOCK)
        said = os.dup(2)
        self.pid, terminal = pty.fork()
        if self.pid == 0:
            os.dup2(said, 2)  # what EAL says goes to the log
            os.environ["RUNTIME_DIRECTORY"] = str(folder)  # of the telemetry socket
            try:
                os.execvp(words[0], [*words, "-f", str(script)])  # noqa: S606
            except OSError as error:
                print(f"{words[0]}: {error.strerror}", flush=True)
                os._exit(127)
        os.close(said)
        self._console = Console(terminal)
        self._telemetry = None  # type: Any

    def lua(self, line: str, limit_s: float = ANSWER_LIMIT_S) -> "dict[str, str]":
        """Run a line of Lua and return its value or its error."""
        os.write(self._ask, line.encode() + b"\n")
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._text:
            if select.select([self._answer], [], [], LOOK_S)[0]:
                self._text += os.read(self._answer, 65536)
            elif os.waitpid(self.pid, os.WNOHANG)[0]:
                self.pid = 0
                raise ProgramEnded(f"pktgen-dpdk ended: {self._console.reason()}")
            elif time.monotonic() > deadline:
                raise ProgramEnded(f"pktgen-dpdk hung: no answer to {line[:60]!r}")
        answer, _, self._text = self._text.partition(b"\n")
        kind, _, text = answer.decode(errors="replace").partition(" ")
        return {kind: text}

    def counts(self, ports: "list[int]") -> "dict[str, float]":
        """Return the counters of ports as DPDK's telemetry has them at this moment."""
        if self._telemetry is None:
            self._telemetry = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._telemetry.settimeout(ANSWER_LIMIT_S)
            self._telemetry.connect(self._socket())
            self._telemetry.recv(65536)  # its greeting
        asked_ns = time.monotonic() * 1e9
        found = {}
        for port in ports:
            self._telemetry.send(b"/ethdev/stats,%d" % port)
            stats = json.loads(self._telemetry.recv(65536).decode())["/ethdev/stats"]
            found.update({f"{port}.{name}": stats[name] for name in COUNTERS})
        found["t_ns"] = (asked_ns + time.monotonic() * 1e9) / 2
        return found

    def _socket(self) -> str:
        for path in self._folder.glob("dpdk/*/dpdk_telemetry.v2"):
            return str(path)
        raise ProgramEnded(
            "pktgen-dpdk has no telemetry socket, so its counters cannot be read (was DPDK built without it?)"
        )

    def end(self) -> None:
        """End the program: it quits when its input ends, and is killed if it does not."""
        os.close(self._ask)
        deadline = time.monotonic() + END_LIMIT_S
        while self.pid and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.05)


def say(answer: "dict[str, Any]") -> None:
    """Write an answer."""
    print(json.dumps(answer), flush=True)


def serve(program: Program) -> None:
    """Answer until the input ends."""
    program.lua("return 1", START_LIMIT_S)
    say({"ready": program.pid})
    for line in sys.stdin:
        request = json.loads(line)
        say(program.counts(request["counts"]) if "counts" in request else program.lua(request["lua"]))


def main() -> None:
    """Start pktgen-dpdk and serve it."""
    # The connection's end closes the input; a terminal's hang-up or a kill has to remove the folder as well.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="pollscope-pktgen-"))
    try:
        refuse_second(sys.argv[1:])
        program = Program(folder, sys.argv[1:])
        try:
            serve(program)
        finally:
            program.end()
    except ProgramEnded as error:
        say({"refused": str(error)})
        sys.exit(1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
