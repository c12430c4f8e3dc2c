# SPDX-License-Identifier: BSD-3-Clause
"""The `namespaces` testbed: kernel TCP goes from one network namespace to another, through forwarding cores."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pollscope.base.errors import HostError, TrialError
from pollscope.base.paths import tcp_path_program
from pollscope.host.activity import read_activity
from pollscope.host.metadata import build_metadata, host_metadata
from pollscope.knobs import KnobHost, Knobs, KnobSession
from pollscope.knobs.points import knob_refusal, knob_settings
from pollscope.plan.plan import Trial
from pollscope.spec.model import LOADS, Parameters
from pollscope.spec.points import Point
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.base import Assignment, HostAway, Opening, Testbed, TestbedConfig, without_collectors
from pollscope.testbeds.namespaces.flows import measure
from pollscope.testbeds.namespaces.network import Namespaces, require_namespaces

# Parameters that the forwarding program takes from a point; the rest is built in (apps/bench/tcp_path.c).
USED = ("queues", "cores", "organisation", "workload", "flows", "frame", *LOADS)
# Most worker lcores that the program supports.
_MOST_CORES = 16
# CPUs besides the workers': the pump, and the kernel's two ends.
_OTHER_THREADS = 3
# Reasons why parts of other testbeds' records are absent here.
_NO_CYCLES = {"absent": "the program that forwards TCP flows does not count cycles and polls"}
_NO_GENERATOR = {"absent": "the kernel's TCP sends, not a generator"}
_NO_WINDOW = {"absent": "TCP flows have no window: a trial lasts until all of them are complete"}
_NO_CONFIG = {"absent": "no node is configured where TCP flows are measured"}


class NamespacesConfig(TestbedConfig):
    """The file of a namespaces testbed."""

    kind: Literal["namespaces"]
    rate_mbit: int = Field(ge=1, le=100_000, description="bottleneck on the data path, in Mbit/s")
    queue_ms: int = Field(default=20, ge=1, le=10_000, description="longest wait of a frame there")


class NamespacesTestbed(Testbed):
    """This machine: two ends of TCP in namespaces of their own, and the DUT between them. Needs root."""

    kind = "namespaces"
    summary = "TCP flows of this machine's kernel between network namespaces, through forwarding cores"
    config_model = NamespacesConfig
    config: NamespacesConfig
    shared_tsc = True

    def __init__(self, file: Path, config: NamespacesConfig) -> None:
        super().__init__(file, config)
        self.knob_host = KnobHost()
        self._knobs: Knobs = Knobs()
        self._open = ExitStack()

    def refusal(self, point: Point) -> str | None:
        """Return why a point cannot be measured: no TCP, another DUT, too few CPUs, or a knob."""
        params = point.params
        if params.flow_size is None:
            return "this testbed sends TCP flows, so it needs flow_size"
        if params.workload != "io":
            return f"TCP flows are forwarded unchanged (workload io), not by {params.workload}"
        if params.organisation not in ("scale-out", "corec"):
            two = "cores with one queue each (scale-out) or one for all (corec)"
            return f"TCP flows go through {two}, not {params.organisation}"
        if params.queues != (wanted := 1 if params.organisation == "corec" else params.cores):
            return f"{params.organisation} with {params.cores} cores has {wanted} RX queues here, not {params.queues}"
        if (other := _other_parameter(params)) is not None:
            return f"the program that forwards TCP flows has no {other}"
        cpus = len(os.sched_getaffinity(0))
        if params.cores > min(cpus, _MOST_CORES):
            return f"needs {params.cores} CPUs for the DUT's cores; there are {min(cpus, _MOST_CORES)}"
        return knob_refusal(self.knob_host, point.factors)

    def check(self) -> None:
        """Check that this user may make namespaces, and that the program is built.

        Raises:
            HostError: this is not the case.
        """
        require_namespaces()
        tcp_path_program()

    def knobs(self, what: str, restore_first: bool) -> Knobs:
        self._knobs = KnobSession(what, self.knob_host, restore_first)
        return self._knobs

    def machine(self) -> dict[str, Any]:
        return {"host": host_metadata(), "build": build_metadata(tcp_path_program())}

    def describe(self) -> dict[str, Any]:
        """Return the description with the bottleneck, which determines completion times."""
        return {**super().describe(), "rate_mbit": self.config.rate_mbit, "queue_ms": self.config.queue_ms}

    def begin(self, assignment: Assignment) -> Opening:
        """Make the namespaces.

        Raises:
            HostError: this host or user cannot have them.
        """
        self._log = assignment.log
        self._cpus = sorted(os.sched_getaffinity(0))
        self._namespaces = self._open.enter_context(Namespaces(self.config.rate_mbit * 10**6, self.config.queue_ms))
        most = max(trial.point.params.cores for trial in assignment.plan.trials)
        if len(self._cpus) < most + _OTHER_THREADS:
            self.warnings.append(
                f"the kernel's TCP and the DUT share {len(self._cpus)} CPUs, so completion times hold waits for a CPU "
                "(bottleneck_share says how near one core came to what the link alone allows), and cores lose theirs "
                "between taking and sending; compare by the ratio to one core in this run"
            )
        return without_collectors(assignment, "collectors do not run beside TCP flows")

    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        """Run all flows of a point, with its knobs set."""
        record = self.begun(trial, attempt).having(config=_NO_CONFIG)
        try:
            self._knobs.apply(knob_settings(trial.point.factors))
        except HostAway:
            raise
        except HostError as error:
            return record.failed(f"its knobs could not be set: {error}", final=True)
        before = read_activity(self._cpus)
        try:
            found = measure(self._namespaces, tcp_path_program(), trial.point.params, self._cpus, self._log)
        except TrialError as error:
            return record.failed(str(error))
        result = {"state": "done", "window": _NO_WINDOW, "dut": _NO_CYCLES, "gen": _NO_GENERATOR, "tcp": found}
        return record.having(host=read_activity(self._cpus).since(before), result=result)

    def end(self) -> None:
        self._open.close()


def _other_parameter(params: Parameters) -> str | None:
    """Return a parameter that the program does not read, if it differs from its default, and its value."""
    for name, field in Parameters.model_fields.items():
        value = getattr(params, name)
        if name not in USED and value != field.default:
            return f"{name} {value}"
    return None
