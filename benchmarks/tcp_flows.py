#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What reordering by cores that share a receive queue does to TCP (rows C-T5 and C-F8 to C-F10, docs/corec.md).

Flows of kernel TCP (CUBIC, no offloads, MTU 1500) go from one network namespace to another, through a bottleneck and
then through `tcp-path`: from the kernel into a net_crossover pair, and from there by one core, by two at one queue
(rx=corec), or by two with a queue each (RSS), back into the kernel. One core reorders nothing and is the baseline.
Organisations take turns within a round. Needs root, for namespaces; nothing of them is left.

usage: tcp_flows.py [--rounds N] [--rate RATE] [--huge BYTES] [--only CASE]

RATE is the bottleneck as tc writes it (200mbit); --huge is the payload of the one huge flow, where the paper has 1 GB
and 10 GB at 10 Gbit/s: less here, because a turn should take seconds. CASE is huge, 100KB, 10KB or 1KB.
Prints for each case and organisation the mean and the 99th percentile of completion times, retransmitted segments a
flow and in how many flows TCP saw reordering, and, with the 95 % interval of the median over the rounds,
`ratio CASE_FLOWS_ORGANISATION_over_one_core ...` of the mean completion time, and ..._p99_... of its 99th percentile.
A flow's time runs from before connect() to after close(), which waits until the server has everything.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratio import print_ratio
from tcp_namespaces import SERVER_ADDRESS, Namespaces

from pollscope.base.errors import HostError, PollscopeError
from pollscope.base.paths import CHECKOUT

PROGRAM = CHECKOUT / "build" / "tcp-path"
ENDS = Path(__file__).with_name("tcp_ends.py")
PORT = 9000
ROUNDS = 7
RATE = "200mbit"
HUGE_BYTES = 50_000_000
LIMIT_S = 300.0


@dataclass(frozen=True)
class Way:
    """How packets get through the DUT: cores, and whether they share one queue."""

    cores: int
    shares: bool


WAYS = {"one_core": Way(1, False), "corec_two_cores": Way(2, True), "queue_each_two_cores": Way(2, False)}


@dataclass(frozen=True)
class Case:
    """So many flows at once of so many bytes each."""

    flows: int
    size: int


def cases(huge_bytes: int) -> dict[str, list[Case]]:
    """C-T5, and C-F8, C-F9 and C-F10 with 64 and 128 flows."""
    many = {"100KB": 100_000, "10KB": 10_000, "1KB": 1000}
    return {"huge": [Case(1, huge_bytes)]} | {name: [Case(64, size), Case(128, size)] for name, size in many.items()}


@contextmanager
def running(command: Sequence[str]) -> Iterator[list[str]]:
    """A program that has said `ready`, until the end of the block; then its standard input ends, and so does it.

    What it says after that is in the list, once the block is left.
    """
    said: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None and program.stdin is not None and program.stderr is not None
        try:
            for line in program.stdout:
                if line.strip() == "ready":
                    break
            else:
                raise HostError(f"{Path(command[4]).name} did not begin: {program.stderr.read().strip()[-300:]}")
            yield said
        finally:
            program.stdin.close()
            said += program.stdout.read().splitlines()
            program.wait(LIMIT_S)


def path_command(way: Way) -> list[str]:
    """tcp-path with its lcores, which the kernel may put on any CPU of ours."""
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    pair = f"net_crossover0,rx={'corec' if way.shares else 'standard'}"
    devices = ["net_af_packet0,iface=near", f"net_af_packet1,iface=far,qpairs={way.cores}", pair]
    eal = ["--lcores", f"(0-{way.cores + 1})@({cpus})", "--no-huge", "-m", "512", "--no-shconf", "--no-pci"]
    eal += ["--no-telemetry", "--file-prefix", f"pollscope-tcp-{os.getpid()}"]
    vdevs = [word for device in devices for word in ("--vdev", device)]
    return [str(PROGRAM), *eal, *vdevs, "--", *(["--share"] if way.shares else [])]


def measure(namespaces: Namespaces, way: Way, case: Case) -> dict[str, Any]:
    """All flows of a case, once: what tcp_ends.py prints, and as `path` what tcp-path does.

    Raises:
        HostError: a program did not begin, or a flow did not come through.
    """
    server = namespaces.inside("server", sys.executable, str(ENDS), "serve", SERVER_ADDRESS, str(PORT))
    client = [sys.executable, str(ENDS), "send", SERVER_ADDRESS, str(PORT), str(case.flows), str(case.size)]
    with running(namespaces.inside("dut", *path_command(way))) as path, running(server):
        sent = subprocess.run(
            namespaces.inside("client", *client), capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    if sent.returncode != 0:
        raise HostError(f"flows did not come through: {sent.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(sent.stdout)
    return {**found, "path": path}


def rotated(turn: int) -> list[tuple[str, Way]]:
    """All ways, each round beginning with another one: whoever comes first may meet another host."""
    ways = list(WAYS.items())
    first = turn % len(ways)
    return ways[first:] + ways[:first]


def percentile_99(values: Sequence[float]) -> float:
    """The smallest value that 99 % do not exceed."""
    return sorted(values)[-(-99 * len(values) // 100) - 1]


def measure_case(namespaces: Namespaces, name: str, case: Case, rounds: int) -> dict[str, Any]:
    """Prints a case's lines; returns the kernel's words about itself."""
    found: dict[str, list[list[dict[str, float]]]] = defaultdict(list)
    kernel: dict[str, Any] = {}
    for turn in range(rounds):
        for way_name, way in rotated(turn):
            if case.flows == 1 and way.cores > 1 and not way.shares:
                continue  # RSS gives one flow to one core
            measured = measure(namespaces, way, case)
            kernel = measured["kernel"]
            found[way_name].append(measured["flows"])
    label = f"{name}_{case.flows}"
    for way_name in (each for each in WAYS if each in found):
        _print_turns(f"{label} {way_name}", [flow for turn in found[way_name] for flow in turn])
    for way_name in (name for name in WAYS if name in found and name != "one_core"):
        for what, of in (("", statistics.fmean), ("p99_", percentile_99)):
            if what and case.flows == 1:
                continue
            ratios = [
                of([flow["completion_s"] for flow in turn]) / of([flow["completion_s"] for flow in one])
                for turn, one in zip(found[way_name], found["one_core"], strict=True)
            ]
            print_ratio(f"{label}_{what}{way_name}_over_one_core", ratios)
    return kernel


def _print_turns(label: str, flows: Sequence[dict[str, float]]) -> None:
    times = [flow["completion_s"] for flow in flows]
    resent = statistics.fmean(flow["retransmissions"] for flow in flows)
    seen = statistics.fmean(flow["reordering_events"] > 0 for flow in flows)
    print(
        f"flows {label}: mean {statistics.fmean(times):.4f} s, p99 {percentile_99(times):.4f} s, "
        f"{resent:.1f} retransmissions a flow, reordering seen in {100 * seen:.0f} % of {len(flows)}",
        flush=True,
    )


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the namespaces go in any case
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rate", default=RATE)
    parser.add_argument("--huge", type=int, default=HUGE_BYTES)
    parser.add_argument("--only", choices=sorted(cases(1)))
    asked = parser.parse_args()
    if asked.rounds < 1 or asked.huge < 1:
        parser.error("--rounds and --huge are at least 1")
    kernel: dict[str, Any] = {}
    with Namespaces(asked.rate) as namespaces:
        for name, several in cases(asked.huge).items():
            for case in several if asked.only in (None, name) else ():
                kernel = measure_case(namespaces, name, case, asked.rounds)
    print("kernel " + ", ".join(f"{key} {value}" for key, value in kernel.items()))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except PollscopeError as error:
        print(f"tcp_flows: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, HostError) else 1)
