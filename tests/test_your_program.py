# SPDX-License-Identifier: BSD-3-Clause
"""Walk docs/your-program.md, and compare the tax of the distribution's testpmd with what testpmd counts itself."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import pollscope
from testpmd import Testpmd, remove_leftovers, require_testpmd

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs/your-program.md"
BLOCK = re.compile(r"^```console program\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START_LIMIT_S, END_LIMIT_S = 30, 20
SECONDS = 2
SMALL = ["-m", "128"]
QUEUES = 8
# Both count whole calls; stamps, and what testpmd does between calls, are apart.
POINTS_5 = 0.05

pytestmark = [pytest.mark.measure, pytest.mark.timeout(300)]


def prefix() -> str:
    return f"tests-{os.getpid()}"


def attached(*words: str, cwd: Path) -> str:
    """Return the output of `pollscope attach` for the program of this test."""
    done = pollscope("attach", prefix(), *words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for_socket(said: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the program forwards: EAL has its socket, and both ports are there."""
    end = time.monotonic() + START_LIMIT_S
    while "Port statistics" not in said.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < end, said.read_text(errors="replace")[-3000:]
        time.sleep(0.1)


@pytest.mark.thorough
def test_page_leads_from_a_program_to_its_report(
    build_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_testpmd()
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    (block,) = BLOCK.findall(PAGE.read_text())
    lines = [line.removeprefix("$ ").replace("$PWD/build", str(build_dir)) for line in block.splitlines()]
    assert lines[0] == "make build" and lines[-1] == "kill -INT %1"  # the fixture has built it
    program = [*shlex.split(lines[1].removesuffix(" &"))]
    program.insert(1, f"--file-prefix={prefix()}")
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            ["stdbuf", "-oL", *program], cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        wait_for_socket(said, process)
        for line in lines[2:-1]:
            words = [prefix() if word == "dpdk-testpmd" else word for word in shlex.split(line)[1:]]
            done = pollscope(*words, cwd=tmp_path)
            assert done.returncode == 0, f"$ {line}\n{(done.stdout + done.stderr)[-3000:]}"
        process.send_signal(signal.SIGINT)
        assert process.wait(END_LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        remove_leftovers(prefix())
    assert "Cycles of a running program" in (tmp_path / "report.html").read_text()


@contextmanager
def probed_testpmd(build_dir: Path, vdev: str, *options: str) -> Iterator[Testpmd]:
    """Yield a testpmd with the probe plug-in and one forwarding lcore on the last CPU."""
    require_testpmd()
    cpus = sorted(os.sched_getaffinity(0))
    command = ["stdbuf", "-oL", "dpdk-testpmd", f"--lcores=0@{cpus[0]},1@{cpus[-1]}", "--no-pci", "--in-memory"]
    command += [*SMALL, f"--file-prefix={prefix()}", f"--vdev={vdev}"]
    for plugin in ("librte_pollscope_probe.so", "librte_net_crossover.so"):
        command += ["-d", str(build_dir / plugin)]
    command += ["--", "-i", "--total-num-mbufs=16384", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            testpmd = Testpmd(process)
            testpmd.wait_for_prompt(START_LIMIT_S)
            yield testpmd
        finally:
            process.kill()
            process.wait()
            remove_leftovers(prefix())


def test_tax_is_that_of_testpmd(build_dir: Path, tmp_path: Path) -> None:
    """One of eight queues has packets, so that most calls are empty; testpmd stamps each call."""
    options = (f"--rxq={QUEUES}", f"--txq={QUEUES}", "--record-core-cycles")
    with probed_testpmd(build_dir, "net_crossover0", *options) as testpmd:
        testpmd.tell("start tx_first")
        began = time.monotonic()
        found = json.loads(attached("--seconds", str(SECONDS), "--json", cwd=tmp_path))
        said = testpmd.tell("stop")
        duration_s = time.monotonic() - began
    cycles, mhz = re.findall(r"total cycles=(\d+) .* at (\d+) MHz", said)[0]
    own_tax = 1 - int(cycles) / (int(mhz) * 1e6 * duration_s)
    (thread,) = found["threads"]
    tax = thread["tax_share"]
    assert abs(tax["value"] - own_tax) <= POINTS_5 + tax["error"] + thread["interrupted_share"]
    assert 0 < thread["empty_poll_fraction"] < 1
    assert sum(queue["rx_pps"] > 0 for queue in thread["queues"]) < len(thread["queues"]) == 2 * QUEUES


@pytest.mark.thorough
def test_idle_program_has_nothing_but_tax(build_dir: Path, tmp_path: Path) -> None:
    with probed_testpmd(build_dir, "net_crossover0") as testpmd:
        testpmd.tell("start")
        (thread,) = json.loads(attached("--seconds", "2", "--json", cwd=tmp_path))["threads"]
    assert thread["tax_share"]["value"] == 1
    assert thread["empty_poll_fraction"] == 1
    assert "no packet" in thread["saturation_pps"]["absent"]


@pytest.mark.thorough
def test_rings_that_are_always_full_saturate_the_lcore(build_dir: Path, tmp_path: Path) -> None:
    """The program has no time left except for other work on its CPU, and its rate does not exceed saturation."""
    with probed_testpmd(build_dir, "net_crossover0,feed=infinite") as testpmd:
        testpmd.tell("start")
        (thread,) = json.loads(attached("--seconds", str(SECONDS), "--json", cwd=tmp_path))["threads"]
    tax, useful = thread["tax_share"], thread["useful_share"]["value"]
    assert abs(tax["value"] - thread["interrupted_share"]) <= POINTS_5 + tax["error"]
    rate = thread["saturation_pps"]
    noise = (tax["error"] + rate.get("error", 0) / thread["rx_pps"]) / useful
    assert rate.get("value", thread["saturation_at_least_pps"]) >= (0.9 - noise) * thread["rx_pps"]
