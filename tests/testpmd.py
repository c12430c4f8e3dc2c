# SPDX-License-Identifier: BSD-3-Clause
"""Drive an unmodified dpdk-testpmd through its prompt."""

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PROMPT = b"testpmd> "
START_LIMIT_S = 30
COMMAND_LIMIT_S = 30


class TestpmdError(Exception):
    """testpmd ended or does not answer; the message ends with its output."""

    __test__ = False


class Testpmd:
    """A running testpmd at its prompt.

    Attributes:
        greeting: what it said before the first prompt.
    """

    __test__ = False

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._said = b""
        self.greeting = ""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(process.stdout, selectors.EVENT_READ)

    def wait_for_prompt(self, limit_s: float) -> str:
        """Return the output up to the next prompt.

        Raises:
            TestpmdError: it ended, or said nothing of that kind within `limit_s` seconds.
        """
        end = time.monotonic() + limit_s
        while PROMPT not in self._said:
            if not self._selector.select(max(0.0, end - time.monotonic())):
                raise TestpmdError(f"no prompt within {limit_s} s: {self._said[-2000:].decode()}")
            assert self._process.stdout is not None
            new = self._process.stdout.read(65536)
            if new == b"":
                raise TestpmdError(f"ended: {self._said[-2000:].decode()}")
            self._said += new or b""
        text, self._said = self._said.split(PROMPT, 1)
        return text.decode()

    def tell(self, command: str, limit_s: float = COMMAND_LIMIT_S) -> str:
        """Return the answer to a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        return self.wait_for_prompt(limit_s)

    def forward(self, seconds: float, start: str = "start") -> str:
        """Forward for a while; return the statistics that `stop` prints."""
        self.tell(start)
        time.sleep(seconds)
        return self.tell("stop")


def require_testpmd() -> None:
    """Skip where testpmd cannot run as the tests need it."""
    if os.geteuid() != 0:
        pytest.skip("EAL with hugepages needs root")
    if int(Path("/proc/sys/vm/nr_hugepages").read_text()) < 128:
        pytest.skip("fewer than 128 hugepages of 2 MB are reserved")


@contextmanager
def running_testpmd(
    build_dir: Path,
    vdev: str | None,
    options: Sequence[str] = (),
    eal: Sequence[str] = ("--in-memory",),
    forwarders: int = 1,
    telemetry: bool = False,
) -> Iterator[Testpmd]:
    """Yield a testpmd with the plug-in and one vdev (`None`: those of the primary process); end it after the block.

    Forwarding lcores share the last CPU; the prompt has the first.

    Raises:
        TestpmdError: it does not come up.
    """
    cpus = sorted(os.sched_getaffinity(0))
    lcores = ",".join([f"0@{cpus[0]}", *(f"{lcore}@{cpus[-1]}" for lcore in range(1, 1 + forwarders))])
    # Line by line; otherwise output would come after the prompt that ends it.
    command = ["stdbuf", "-oL", "dpdk-testpmd", f"--lcores={lcores}", "--no-pci", "-d"]
    command += [str(build_dir / "librte_net_crossover.so"), *([f"--vdev={vdev}"] if vdev else [])]
    command += [*([] if telemetry else ["--no-telemetry"]), *eal, "--", "-i", *options]
    if not any(option.startswith("--file-prefix") for option in eal):
        command.insert(3, f"--file-prefix=tests-{os.getpid()}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            testpmd = Testpmd(process)
            testpmd.greeting = testpmd.wait_for_prompt(START_LIMIT_S)
            yield testpmd
            _quit(process)
        finally:
            process.kill()


def _quit(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"quit\n")
    process.stdin.close()
    os.set_blocking(process.stdout.fileno(), True)
    rest = process.stdout.read()
    assert process.wait(timeout=COMMAND_LIMIT_S) == 0, rest[-2000:].decode()


def remove_leftovers(prefix: str) -> None:
    """Take away what processes of an EAL file prefix leave behind: hugepage files and the runtime folder."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind == "hugetlbfs":
            for left in Path(folder).glob(f"{prefix}map_*"):
                left.unlink()
    shutil.rmtree(Path("/var/run/dpdk") / prefix, ignore_errors=True)


def number(text: str, name: str) -> int:
    """Return the first `NAME: number` or `NAME = number` of a text; releases of DPDK differ in capital letters."""
    found = re.search(rf"{re.escape(name)} *[:=] *(\d+)", text, re.IGNORECASE)
    assert found is not None, f"no {name} in: {text}"
    return int(found[1])


def totals(text: str) -> dict[str, int]:
    """Return RX and TX of the `Accumulated forward statistics`, keys as testpmd prints them."""
    _, _, part = text.partition("Accumulated forward statistics")
    return {name: int(value) for name, value in re.findall(r"([RT]X-\w+): *(\d+)", part)}


def port_stats(testpmd: Testpmd, port: int) -> dict[str, int]:
    """Return `show port stats`: packets, missed, errors, nombuf; keys as testpmd prints them."""
    said = testpmd.tell(f"show port stats {port}")
    return {name: int(value) for name, value in re.findall(r"([RT]X-\w+): *(\d+)", said)}
