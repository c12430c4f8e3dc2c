# SPDX-License-Identifier: BSD-3-Clause
"""Run a stock dpdk-testpmd at its prompt, to measure against it."""

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pollscope.base.errors import HostError
from pollscope.host.eal_folders import new_file_prefix, remove_folder, remove_stale_folders

LIMIT_S = 30.0
PROMPT = "testpmd> "
QUIT_LIMIT_S = 10


class Testpmd:
    """One testpmd: main lcore on CPU 0, forwarding lcore on CPU 1, a file prefix of its own.

    `prefix` names its telemetry socket, if it has one.

    Raises:
        HostError: testpmd is not installed, does not start or does not answer.
    """

    def __init__(self, eal: Sequence[str], options: Sequence[str], log: Path, telemetry: bool = False) -> None:
        remove_stale_folders()
        program = shutil.which("dpdk-testpmd")
        if program is None:
            raise HostError("dpdk-testpmd is not installed", "dpdk-testpmd", "make build")
        self.prefix = new_file_prefix()
        # stdbuf: answers come line by line although they go into a pipe.
        command = ["stdbuf", "-oL", program, "--lcores=0@0,1@1", "--main-lcore=0", "--no-pci"]
        command += [] if telemetry else ["--no-telemetry"]
        command += [f"--file-prefix={self.prefix}", *eal, "--", "--interactive", *options]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        self._until_prompt()

    @property
    def pid(self) -> int:
        """Return the process; stdbuf has become testpmd."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, line: str) -> str:
        """Return the answer to a command."""
        self._write(line)
        return self._until_prompt()

    def forward_pps(self, start: str, settle_s: float, window_s: float, counted: str = "Rx") -> float:
        """Return the packets per second that port 0 receives (or sends: `Tx`) between two readings while forwarding."""
        self.ask(start)
        time.sleep(settle_s)
        rate_pps = self.pps(window_s, counted)
        self.ask("stop")
        return rate_pps

    def pps(self, window_s: float, counted: str = "Rx") -> float:
        """Return the rate of port 0 between two readings, while it forwards."""
        self.ask("show port stats 0")
        time.sleep(window_s)
        answer = self.ask("show port stats 0")
        rate = re.search(rf"{counted}-pps:\s+(\d+)", answer)
        if rate is None:
            raise HostError(f"testpmd showed no {counted}-pps", "show port stats 0")
        return float(rate[1])

    def close(self) -> None:
        """End testpmd and remove what EAL leaves behind: hugepage files and the runtime folder of the prefix."""
        if self._process.poll() is None:
            try:
                self._write("quit")
                self._process.communicate(timeout=QUIT_LIMIT_S)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.communicate()
        remove_folder(self.prefix)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _until_prompt(self) -> str:
        assert self._process.stdout is not None
        answer, descriptor, deadline = "", self._process.stdout.fileno(), time.monotonic() + LIMIT_S
        while not answer.endswith(PROMPT):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(descriptor, 1 << 16) if ready else b""
            if not chunk:
                self.close()
                raise HostError(f"testpmd did not show its prompt: {answer[-200:]!r}", "dpdk-testpmd")
            answer += chunk.decode(errors="replace")
        return answer
