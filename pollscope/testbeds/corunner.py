# SPDX-License-Identifier: BSD-3-Clause
"""Run programs beside the DUT during a trial through `pollscope-corunner` (docs/internals/corunner-protocol.md)."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, TrialError
from pollscope.base.paths import corunner_program
from pollscope.base.units import human_size
from pollscope.host.corunner_placement import CorunnerCpus, has_corunners
from pollscope.host.files import read_text
from pollscope.host.memory import available_bytes
from pollscope.node.client import ClientOwner, NodeClient, NodeLost
from pollscope.spec.model import Parameters
from pollscope.testbeds.session import TrialRequest

# Filling memory and linking it at random takes about 0.1 s/MiB on a slow machine; one step ends within milliseconds.
CONFIGURE_LIMIT_S = 300.0
START_LIMIT_S = 10.0
# stress-ng may need seconds to end, and is killed after 5.
STOP_LIMIT_S = 15.0
_READ_LIMIT_S = 10.0
# As in apps/corunner/work.c: the rest of the memory belongs to the host.
_FOOTPRINT_SHARE = 0.75
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


class CorunnerLost(TrialError):
    """The co-runner hung, died, or wrote something that is not the protocol; DUT and generator still work."""


def corunner_refusal(params: Parameters, place: Callable[[], CorunnerCpus]) -> str | None:
    """Return why this host cannot run a point's programs beside the DUT; None if it can, or if there are none.

    Args:
        params: the point's parameters.
        place: chooses the CPUs; HostError if there are none.
    """
    if not has_corunners(params):
        return None
    try:
        place()
        corunner_program()
    except HostError as error:
        return error.what
    if params.corunner != "none" and params.corunner_place == "dut-cpu" and (reason := _no_sharing(params)):
        return reason
    if "stress-ng" in (params.corunner, params.dut_core) and shutil.which("stress-ng") is None:
        return "stress-ng is not installed (apt-get install stress-ng)"
    footprint, free = params.corunner_footprint or 0, available_bytes()
    if params.corunner != "none" and footprint > free * _FOOTPRINT_SHARE:
        most = human_size(int(free * _FOOTPRINT_SHARE))
        return f"the co-runner needs {human_size(footprint)}; it may have {most}, {_FOOTPRINT_SHARE:.0%} of free memory"
    return None


def _no_sharing(params: Parameters) -> str | None:
    """Return why no program can run on the DUT's CPU only while the DUT sleeps; None if one can (SCHED_IDLE,
    sched(7)).
    """
    if "stress-ng" in (params.corunner, params.dut_core):
        return "corunner_place dut-cpu: stress-ng does not wait until a CPU is idle; use another co-runner"
    if (read_text(AUTOGROUP) or "0").strip() != "0":
        return (
            "corunner_place dut-cpu: this kernel divides a CPU among sessions first, and DUT "
            "and co-runner are in different ones (sysctl kernel.sched_autogroup_enabled=0)"
        )
    return None


def workers(params: Parameters, cpus: CorunnerCpus) -> list[dict[str, Any]]:
    """Return the workers of a point, as `configure` takes them."""
    found = [{"name": f"spinner{cpu}", "cpu": cpu, "work": "spin"} for cpu in cpus.spinning]
    if cpus.occupant is not None:
        found.insert(0, {"name": "occupant", "cpu": cpus.occupant, "work": "stress-ng"})
    if cpus.corunner is not None:
        found.insert(0, _corunner(params, cpus.corunner))
    return found


def _corunner(params: Parameters, cpu: int) -> dict[str, Any]:
    worker = {"name": "corunner", "cpu": cpu, "work": params.corunner}
    if params.corunner_place == "dut-cpu":
        worker["scheduling"] = "idle"
    if params.corunner_footprint is not None and params.corunner != "stress-ng":
        worker["footprint_bytes"] = params.corunner_footprint
    if params.corunner == "memory-stream":
        worker["operation"] = params.corunner_stream
    return worker


class CorunnerProgram(ClientOwner):
    """Keeps one `pollscope-corunner` over the trials of a run; a lost one is started again for the next trial.

    Args:
        start: starts the program and returns its client.
    """

    def __init__(self, start: Callable[[], NodeClient]) -> None:
        self._start = start
        self._workers: list[dict[str, Any]] = []
        self._made: list[dict[str, Any]] = []

    @contextmanager
    def ready(self, wanted: list[dict[str, Any]]) -> Iterator["CorunnerTrial"]:
        """Yield these workers, ready to work in one trial; end them if an exception ends the `with` block.

        Raises:
            CorunnerLost: a worker was lost.
            TrialError: a worker cannot be provided.
        """
        try:
            with _corunner_lost():
                client = self._configured(wanted)
            yield CorunnerTrial(client, {"workers": wanted, "made": self._made})
        except BaseException:
            self.end()
            raise

    def _configured(self, wanted: list[dict[str, Any]]) -> NodeClient:
        if self._client is None:
            self._client, self._workers = self._start(), []
            self._client.wait_hello()
        if wanted != self._workers:
            self._made = self._client.request("configure", CONFIGURE_LIMIT_S, workers=wanted)["workers"]
            self._workers = wanted
        return self._client


class CorunnerTrial:
    """Hold the workers of one trial."""

    def __init__(self, client: NodeClient, config: dict[str, Any]) -> None:
        self._client, self._config = client, config

    def start(self) -> None:
        """Let them work until `record`.

        Raises:
            TrialError: one of them cannot.
        """
        with _corunner_lost():
            self._client.request("start", START_LIMIT_S)

    def record(self, window: Mapping[str, Any]) -> dict[str, Any]:
        """Let them rest; return the trial's `corunner`: what they did in a window of the DUT.

        Raises:
            TrialError: one of them did not work through all of it.
        """
        with _corunner_lost():
            self._client.request("stop", STOP_LIMIT_S)
            cut = {key: window[key] for key in ("start_tsc", "end_tsc")}
            return {**self._config, "result": self._client.request("read", _READ_LIMIT_S, **cut)}

    def alone(self, request: TrialRequest) -> dict[str, Any]:
        """Measure without the DUT, over a warm-up and a window of their own: the trial's `corunner`.

        Raises:
            TrialError: one of them ended.
        """
        own = {"warmup_ns": max(1, request.warmup_ns), "window_ns": request.window_ns}
        with _corunner_lost():
            self._client.request("start", START_LIMIT_S, trial="alone", **own)
            self._client.wait_trial("alone", sum(own.values()) / 1e9 + STOP_LIMIT_S)
            return {**self._config, "result": self._client.request("read", _READ_LIMIT_S)}


@contextmanager
def _corunner_lost() -> Iterator[None]:
    try:
        yield
    except NodeLost as error:
        raise CorunnerLost(error.what) from error
