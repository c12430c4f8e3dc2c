# SPDX-License-Identifier: BSD-3-Clause
"""Run a DPDK program as the DUT: it polls one port of a virtual NIC, and a generator beside it uses the other.

The program is started with the probe plug-in and `net_crossover0,ports=a`, so that it finds a single port. The
generator is a `pollscope-node` that runs as a secondary process of the program: it sets up the other port, sends at the
trial's rate, and receives what the program sends back. Other ways were rejected:

- Generator lcores inside the program would share its allocator, its lcore numbers and its crashes, and would need
  another build of the generator for each DPDK series.
- An agent that plays the virtual NIC (apps/gpu) needs the program's memory too, so it would be a secondary process as
  well, and it offers less than the generator: one frame size, no traces.
- Two primary processes have no memory in common. Frames would cross a socket or vhost, whose costs count as the DUT's.

A secondary process needs nothing of the program but a file prefix and shared hugepages. Programs that refuse secondary
processes (`--in-memory`: Open vSwitch) cannot be measured in this way.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from pollscope.base.errors import HostError, TrialError, one_line
from pollscope.base.paths import BUILD_COMMAND, build_folder, node_program
from pollscope.collectors.tool import line_buffered, tied_to_us
from pollscope.host.eal_folders import new_file_prefix, remove_folder, runtime_folder
from pollscope.host.memory import HUGEPAGE_BYTES, hugepages, hugetlbfs_folder
from pollscope.host.placement import Roles, room_beside
from pollscope.host.telemetry_socket import SOCKET_NAME, TelemetrySocket
from pollscope.knobs.probe import PLUGIN
from pollscope.node.client import NodeClient, NodeLost
from pollscope.node.observation import CounterReading, Observer, port_rates, shares, thread_result
from pollscope.node.probe import Probe
from pollscope.node.requests import Wiring, generator_request
from pollscope.spec.arguments import EAL
from pollscope.spec.model import Parameters
from pollscope.testbeds.busy_report import BusyCycles, Reader, busy_reader, busy_share, prompt_reader
from pollscope.testbeds.session import TrialRequest

DRIVER = "librte_net_crossover.so"
_DEVICE = "net_crossover0"
PORT, FAR_PORT = f"{_DEVICE}_a", f"{_DEVICE}_b"
# Lcores of the generator; the program's begin at 0. Caches of mempools are per lcore.
_FIRST_LCORE = 64
_START_LIMIT_S, _PORT_LIMIT_S, _HELLO_LIMIT_S, _REQUEST_LIMIT_S = 30.0, 20.0, 20.0, 5.0
# Delay of a trial's end after which the generator counts as hung.
_GRACE_S = 8.0
_LOOK_S, _END_LIMIT_S = 0.02, 2.0
# Readings of the counters per window, and the sampling windows of the plug-in: 2 % of the time, 20 or more per window.
_READINGS, _LONGEST_STEP_S = 8, 0.5
_SAMPLES, _LONGEST_PERIOD_US, _SHORTEST_SAMPLE_US, _SAMPLED_SHARE = 20, 50_000, 100, 0.02
_LAST_LINES, _MOST_LOG_BYTES = 3, 1 << 16
# Words of a program about a failure; not counters such as `TX-errors: 0`.
_COMPLAINT = re.compile(r"(?<![-\w])(error|invalid|fatal|panic|failed|segmentation fault)\b(?!s?: *0\b)", re.IGNORECASE)
Value = TypeVar("Value")


class ProgramFailed(TrialError):
    """Report that the program ended, hung, or complained."""


def program_refusal(params: Parameters) -> str | None:
    """Return why this host cannot run the program of a point; None if it can, or the point has none."""
    if not params.command:
        return None
    name = params.command[0]
    if shutil.which(name) is None:
        return f"there is no program {name} on this host (install it, or give its whole path under dut)"
    if not tied_to_us():
        return "there is no setpriv on this host, which ends a program with its runner (install util-linux)"
    for plugin in (PLUGIN, DRIVER):
        if not (build_folder() / plugin).is_file():
            return f"{plugin} is not built ({BUILD_COMMAND})"
    if not any(map(hugetlbfs_folder, HUGEPAGE_BYTES)) or not any(pages.free for pages in hugepages()):
        return "program and generator share hugepages: none is free, or no hugetlbfs is mounted (make run sets both up)"
    return None


def arguments_of(command: Sequence[str], prefix: str, roles: Roles) -> list[str]:
    """Return program and arguments, with EAL's in their place."""
    lcores = ",".join(f"{lcore}@{cpu}" for lcore, cpu in enumerate((roles.main, *roles.dut)))
    eal = ["--lcores", lcores, "--main-lcore", "0", "--no-pci", "--file-prefix", prefix]
    for plugin in (PLUGIN, DRIVER):
        eal += ["-d", str(build_folder() / plugin)]
    eal += ["--vdev", f"{_DEVICE},ports=a"]
    return [each for argument in command for each in (eal if argument == EAL else (argument,))]


class DutProgram:
    """A running program, and the generator beside it.

    Args:
        command: program and arguments, EAL's still missing.
        roles: the CPUs; the program's main lcore shares one with the generator if there are only two.
        log: file for the output of both.

    Attributes:
        prefix: EAL's file prefix.

    Raises:
        ProgramFailed: the program ended, or its port does not run in time.
    """

    def __init__(self, command: Sequence[str], roles: Roles, log: Path) -> None:
        self.command, self.roles, self._log = tuple(command), roles, log
        self.prefix = new_file_prefix()
        self._said = log.stat().st_size if log.exists() else 0
        self._configured: dict[str, Any] = {}
        self._read_busy: Reader | None = None
        self._closing = ExitStack()
        self._closing.callback(remove_folder, self.prefix)
        try:
            self._start()
        except BaseException:
            self._closing.close()
            raise

    def _start(self) -> None:
        self.arguments = arguments_of(self.command, self.prefix, self.roles)
        # SIGKILL, because a stopped program does not react to SIGTERM. Complaints and answers come line by line.
        argv = [*tied_to_us("KILL"), *line_buffered(), *self.arguments]
        with self._log.open("ab") as said:
            try:
                # Some programs end at the end of their input. Ctrl-C must reach the runner alone.
                self._process = subprocess.Popen(
                    argv, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise ProgramFailed(f"the program cannot be started: {error.strerror}", self.arguments[0]) from error
        self._closing.callback(self._end_process)
        self._connection = self._wait(self._connected, _START_LIMIT_S, "it offers no telemetry socket, as DPDK does")
        self._closing.callback(self._connection.close)
        if self._connection.pid != self._process.pid:
            what = f"process {self._connection.pid} polls, not the one that was started"
            raise self._failed(what, "a script that starts the program has to `exec` it; sudo cannot be used")
        self._port = self._only_port()
        self._generator = self._beside()
        self._wait(self._runs, _PORT_LIMIT_S, "its port does not run")
        self._require_no_complaint()
        self._said = self._log.stat().st_size

    def _beside(self) -> NodeClient:
        """Start the generator and its port: programs wait for the link."""
        lcores = [f"{_FIRST_LCORE}@{self.roles.main}"]
        lcores += [f"{_FIRST_LCORE + 1 + place}@{cpu}" for place, cpu in enumerate(self.roles.generators)]
        eal = ["--proc-type", "secondary", "--file-prefix", self.prefix, "--no-pci", "--no-telemetry"]
        argv = [str(node_program()), "--lcores", ",".join(lcores), "--main-lcore", str(_FIRST_LCORE), *eal]
        client = NodeClient([*argv, "--vdev", _DEVICE], self._log, "the generator beside the program")
        self._closing.callback(client.close)
        try:
            client.wait_hello(_HELLO_LIMIT_S)
            client.request("configure", _REQUEST_LIMIT_S, ports=[{"name": FAR_PORT}])
        except (HostError, TrialError) as error:
            raise self._failed(error.what) from error
        return client

    @property
    def ended(self) -> bool:
        """Return whether the program has ended by itself."""
        return self._process.poll() is not None

    @property
    def lcores(self) -> dict[int, tuple[int, ...]]:
        """Return the spinning lcores by process."""
        generators = range(_FIRST_LCORE + 1, _FIRST_LCORE + 1 + len(self.roles.generators))
        return {self._generator.pid: tuple(generators), self._process.pid: self._dut_lcores}

    @property
    def _dut_lcores(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.roles.dut) + 1))

    def pause(self) -> None:
        """Stop the program, so that it leaves its CPUs to other measurements."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the program run on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the program at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the program and the processes that it started, which are of its session."""
        if self._process.poll() is None:  # otherwise the number of the group may be that of another one
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def configure(self, params: Parameters) -> dict[str, Any]:
        """Set up the generator for a point; return the configuration for the record.

        Raises:
            ProgramFailed: the program ended, or its port has other queues than the point.
            NodeRefused, NodeLost: the generator refuses, or hung or died.
        """
        queues = int(self._ask(f"/ethdev/info,{self._port}")["nb_rx_queues"])
        if queues != params.queues:
            what = f"the program's port has {queues} RX queues, the point has queues={params.queues}"
            raise ProgramFailed(what, "dut", "put {queues} into its arguments, or set queues")
        lcores = list(range(_FIRST_LCORE + 1, _FIRST_LCORE + 1 + len(self.roles.generators)))
        wiring = Wiring(lcores, (), FAR_PORT, PORT, PORT, FAR_PORT)
        request = generator_request(params, wiring)
        if request != self._configured:
            self._configured = {}
            self._generator.request("configure", _START_LIMIT_S, **request)
            self._configured = request
        port = {"name": PORT, "rx_queues": queues}
        dut = {"program": self.arguments, "rx_port": PORT, "tx_port": PORT, "workload": "program"}
        return {**request, "ports": [*request["ports"], port], "dut": dut}

    def measure(self, request: TrialRequest) -> dict[str, Any]:
        """Measure one trial: the generator's result, with the program's threads under `dut`.

        Raises:
            ProgramFailed: the program ended, does not poll, or printed an error.
            NodeRefused, NodeFailed, NodeLost: from the generator.
        """
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, room_beside(before, self.roles.measuring))
        try:
            found = self._measured(request)
        except HostError as error:
            raise self._failed(f"the program does not answer: {error.what}") from error
        except NodeLost as error:
            if self.ended:  # the generator uses its memory
                raise ProgramFailed(self._epitaph()) from error
            raise
        finally:
            os.sched_setaffinity(0, before)
        if self.ended:
            raise ProgramFailed(self._epitaph())
        self._require_no_complaint()
        return found

    def _measured(self, request: TrialRequest) -> dict[str, Any]:
        with Probe(self._connection, *_settings(request.window_ns)) as probe:
            observer = Observer(self._connection, probe)
            self._read_busy = self._read_busy or self._busy_reader(observer.info.tsc_hz)
            self._generator.request("start", _REQUEST_LIMIT_S, **request.to_json())
            readings, busy = self._readings(observer, request)
        self._generator.wait_trial(request.trial, request.planned_s + _GRACE_S)
        result = self._generator.request("read", _REQUEST_LIMIT_S)
        threads, rates = shares(readings, observer.info), port_rates(readings)
        if not threads:
            raise ProgramFailed(self._with_last_lines("no thread of the program polled its port in the window"))
        self._require_lcores({thread.counts.lcore for thread in threads})
        window_s = request.window_ns / 1e9
        found = [thread_result(readings, thread, threads, rates, observer.info, window_s) for thread in threads]
        lcores = [lcore for each in found for lcore in each["dut"]["lcores"]]
        return {**result, "dut": {"lcores": lcores, "reported_busy_share": self._reported(busy)}}

    def _reported(self, busy: Sequence[BusyCycles | None]) -> float | dict[str, str]:
        """Return the busy share as the program counts it, or the reason why there is none."""
        if self._read_busy is None:
            return {"absent": "the program does not report how busy it is"}
        share = busy_share(busy)
        return {"absent": "the program did not answer how busy it was"} if share is None else share

    def _require_lcores(self, polled: set[int | None]) -> None:
        """Check that exactly the lcores of the DUT polled."""
        wanted = set(self._dut_lcores)
        if polled != wanted:
            seen = ", ".join(sorted(map(str, polled)))
            what = f"lcores {seen} of the program polled, the point has cores={len(wanted)}, from lcore 1 on"
            raise ProgramFailed(self._with_last_lines(what), "dut", "for example --nb-cores={cores} for testpmd")

    def _readings(
        self, observer: Observer, request: TrialRequest
    ) -> tuple[list[CounterReading], list[BusyCycles | None]]:
        """Return the counters from the start to the end of the generator's window, and those of the program itself."""
        asked_s = time.monotonic()  # readings rather begin in the warm-up than end after the load
        live = self._generator.request("read", _REQUEST_LIMIT_S)
        window = live["window"]
        ahead_s = (window["start_tsc"] - live.get("now_tsc", window["start_tsc"])) / window["tsc_hz"]
        start_s, window_s = asked_s + ahead_s, request.window_ns / 1e9
        steps = max(_READINGS, int(window_s / _LONGEST_STEP_S))
        readings, busy = [], []
        for step in range(steps + 1):
            time.sleep(max(0.0, start_s + window_s * step / steps - time.monotonic()))
            busy.append(self._busy_cycles())
            readings.append(observer.read(with_queues=step in (0, steps)))
        return readings, busy

    def _busy_reader(self, tsc_hz: float) -> Reader | None:
        """Return what reads the program's own count; None if it has none, or not yet: l3fwd-power starts it late."""
        assert self._process.stdin is not None
        lcores = self._dut_lcores
        prompt = prompt_reader(self.command, self._process.stdin, self._log, tsc_hz, len(lcores))
        with suppress(OSError):  # readings of the plug-in report that a program is gone
            return busy_reader(self._connection, lcores, prompt)
        return None

    def _busy_cycles(self) -> BusyCycles | None:
        with suppress(OSError):
            return self._read_busy() if self._read_busy else None
        return None

    def close(self) -> None:
        """End the generator, then the program: the generator's memory belongs to the program."""
        self.resume()  # the generator asks it for memory, and a stopped process does not react to SIGTERM
        self._closing.close()

    def _end_process(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_LIMIT_S)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _connected(self) -> TelemetrySocket | None:
        with suppress(OSError):
            return TelemetrySocket(runtime_folder() / self.prefix / SOCKET_NAME)
        return None

    def _runs(self) -> bool:
        try:
            links: Mapping[str, bool] = self._generator.request("links", _REQUEST_LIMIT_S)["links"]
        except TrialError as error:
            raise self._failed(error.what) from error
        return links.get(FAR_PORT, False)

    def _require_no_complaint(self) -> None:
        """Check that the program printed no error. testpmd, for example, goes on in another mode than an unknown one.

        EAL itself ends a program that cannot run, and warns of much that does not matter.
        """
        lines = (line for line in self._new_lines() if not line.startswith("EAL:"))
        if complaint := next(filter(_COMPLAINT.search, lines), None):
            raise ProgramFailed(f"the program printed an error: {one_line(complaint)}")

    def _only_port(self) -> int:
        """Return the number of the program's port, and check that the plug-in is in the program."""
        ports = self._ask("/ethdev/list") or []
        if len(ports) != 1:
            raise self._failed(f"the program has {len(ports)} ports instead of {PORT} alone", f"leave ports to {EAL}")
        try:
            Probe(self._connection).info()
        except HostError as error:
            raise self._failed(error.what) from error
        return int(ports[0])

    def _ask(self, request: str) -> Any:
        try:
            return self._connection.value(request)
        except OSError as error:
            raise self._failed(f"the program does not answer: {error}") from error

    def _wait(self, look: Callable[[], Value | None], limit_s: float, missing: str) -> Value:
        deadline = time.monotonic() + limit_s
        while not (found := look()):
            if self.ended:
                raise ProgramFailed(self._epitaph())
            if time.monotonic() > deadline:
                raise ProgramFailed(self._with_last_lines(f"the program hangs: after {limit_s:.0f} s {missing}"))
            time.sleep(_LOOK_S)
        return found

    def _failed(self, what: str, remedy: str = "") -> ProgramFailed:
        """Return the error: that the program ended, or else `what`. Its connections end a moment before itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        return ProgramFailed(self._epitaph() if self.ended else self._with_last_lines(what), remedy=remedy)

    def _epitaph(self) -> str:
        status = self._process.returncode
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return self._with_last_lines(f"the program {how}")

    def _with_last_lines(self, what: str) -> str:
        last = " | ".join(self._new_lines()[-_LAST_LINES:])
        return one_line(f"{what}; its last lines: {last}" if last else what)

    def _new_lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(max(self._said, self._log.stat().st_size - _MOST_LOG_BYTES))
            text = log.read().decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]


def _settings(window_ns: int) -> list[str]:
    """Return the settings of the plug-in's session: more frequent, shorter samples in a short window."""
    period_us = max(_SHORTEST_SAMPLE_US, min(_LONGEST_PERIOD_US, window_ns // 1000 // _SAMPLES))
    return [f"sample_us={max(_SHORTEST_SAMPLE_US, round(period_us * _SAMPLED_SHARE))}", f"period_us={period_us}"]
