# SPDX-License-Identifier: BSD-3-Clause
"""The `model` testbed: trials are simulated with the costs in its file (docs/models.md)."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pollscope.base.errors import TrialError
from pollscope.base.names import WORKLOADS
from pollscope.knobs.points import knob_settings
from pollscope.models import points, server_points
from pollscope.models.costs import Cost, Costs
from pollscope.models.simulate import Arrivals, PollingCores, QwaitCores, Service, simulate
from pollscope.node.requests import rate_request
from pollscope.plan.plan import Trial
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.base import Assignment, Opening, Testbed, TestbedConfig, generator_refusal, tcp_refusal
from pollscope.testbeds.cluster import Cluster
from pollscope.testbeds.model_result import (
    Ipc,
    activity,
    beside,
    config_of,
    notified_result,
    power_w,
    result_of,
    sent_late,
    servers_result,
)

# Simulating any system of a kind compiles its loop.
_SHORT_POLLING = PollingCores(Arrivals(1e6), Service(100.0), empty_poll_ns=10.0)
_SHORT_QWAIT = QwaitCores(Arrivals(1e6), Service(100.0))

_USUAL_FRAME = 64  # bytes


# Value of a parameter, as in a trial's record.
Level = int | float | str | bool | None


class MadeFrom(TestbedConfig):
    """Describe the source of a file of `pollscope calibrate`.

    Attributes:
        runs: their numbers.
        rows: paper rows that they measured, or single claims that costs are fitted to, each with its runs or values;
            the model reproduces these by construction.
    """

    runs: Annotated[tuple[str, ...], Field(strict=False)] = ()
    rows: Mapping[str, str] = Field(default_factory=dict)


class ModelConfig(TestbedConfig):
    """The file of a modelled machine.

    Attributes:
        tsc_hz: cycles per second of the machine.
        workloads: costs of each workload that is known.
        servers: instead of workloads: cores are servers of queueing theory, which begin as soon as they are free; the
            spec gives the service time.
        batch: packets that the generator sends together below saturation; default: one.
        holds_for: parameters of a spec that the costs depend on, with the values for which they are valid.
        made_from: runs that the costs come from.
    """

    kind: Literal["model"]
    tsc_hz: int = Field(gt=0)
    workloads: Mapping[str, Costs] | None = Field(default=None, min_length=1)
    servers: Literal[True] | None = None
    batch: Cost | None = None
    holds_for: Mapping[str, Level | Annotated[tuple[Level, ...], Field(strict=False, min_length=1)]] = Field(
        default_factory=dict
    )
    made_from: MadeFrom | None = None

    @field_validator("holds_for")
    @classmethod
    def _are_parameters(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        for name in value:
            if name not in Parameters.model_fields:
                raise ValueError(f"{name} is not a parameter of a spec")
        return value

    @field_validator("workloads")
    @classmethod
    def _are_workloads(cls, value: Mapping[str, Costs] | None) -> Mapping[str, Costs] | None:
        for name in value or ():
            if name not in WORKLOADS:
                raise ValueError(f"{name} is not a workload; allowed: {', '.join(WORKLOADS)}")
        return value

    @field_validator("batch")
    @classmethod
    def _is_whole(cls, value: Cost | None) -> Cost | None:
        if value is not None and (value.value is None or value.value < 1 or value.value % 1):
            raise ValueError("is a whole number of packets from 1 on, in `value`")
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.workloads is None) == (self.servers is None):
            raise ValueError("needs either `workloads` or `servers`")
        return self


class ModelTestbed(Testbed):
    """Cores that poll, simulated. The same trial gives the same bits."""

    kind = "model"
    summary = "a simulation of polling cores, with measured or given costs"
    config_model = ModelConfig
    config: ModelConfig
    modelled = True

    def __init__(self, file: Path, config: ModelConfig) -> None:
        super().__init__(file, config)
        self._cluster: Cluster | None = None
        self._planned: Sequence[Trial] = ()

    def compute_on(self, cluster: Cluster) -> None:
        """Simulate on a cluster's workers; the testbed closes the cluster."""
        self._cluster = cluster

    def build(self, _say: Callable[[str], None]) -> list[str]:
        """Do nothing: a simulation starts no program."""
        return ["nothing to build: this testbed simulates"]

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def refusal(self, point: Point) -> str | None:
        params = point.params
        if (other := tcp_refusal(params) or generator_refusal(params)) is not None:
            return other
        if settings := knob_settings(point.factors):
            return f"a model has no host with knobs: {', '.join(settings)}"
        if params.placement in ("remote-node", "smt-pairs"):
            return f"the model's cores are whole cores on one NUMA node, not placed as {params.placement}"
        if not WORKLOADS[params.workload].receives:
            return f"the model's cores receive; workload {params.workload} only sends"
        if self.config.workloads is not None and params.workload not in self.config.workloads:
            return f"{self.file.name} has no costs of workload {params.workload}"
        given = params.model_dump(mode="json")
        for name, values in self.config.holds_for.items():
            known = values if isinstance(values, tuple) else (values,)
            if given.get(name) not in known:
                held = ", ".join(map(str, known))
                return f"the costs in {self.file.name} hold for {name} {held}, not for {given.get(name)}"
        if not isinstance(params.frame, int) and "frame" not in self.config.holds_for and not self.config.servers:
            return f"the costs in {self.file.name} hold for one frame size, and {params.frame} is a mix"
        if self.config.servers:
            return server_points.refusal(params, self.config.tsc_hz)
        return points.refusal(params, self._costs(params), self.config.tsc_hz)

    def cautions(self, point: Point) -> list[str]:
        """Return warnings about costs of other conditions: another frame size, or the generator's rate to other
        queues.
        """
        if self.config.servers:
            return []
        return [*self._of_other_frames(point.params.frame), *self._of_more_queues(point.params)]

    def _of_other_frames(self, frame: object) -> list[str]:
        if "frame" in self.config.holds_for or frame == _USUAL_FRAME:
            return []
        return [f"the costs in {self.file.name} know no frame sizes: at {frame} B a packet costs what it costs at 64 B"]

    def _of_more_queues(self, params: Parameters) -> list[str]:
        """Return numbers of queues for which the generator's rate was measured only with more queues."""
        costs, queues = self._costs(params), points.queues_of_a_core(params)
        rates = [costs.turn_ns, costs.sent_ns, costs.generator_pps if params.load_pps is None else None]
        fewest = {rate.from_more_queues(queues) for rate in rates if rate is not None and params.feed == "wire"}
        return [
            f"{self.file.name} has the generator's rate to one queue and to {more}: between these it is that to {more}"
            for more in sorted(filter(None, fewest))
        ]

    def _costs(self, params: Parameters) -> Costs:
        return (self.config.workloads or {})[params.workload]

    def begin(self, assignment: Assignment) -> Opening:
        """Compile the loops before the first trial, or start the cluster."""
        self._planned = assignment.plan.trials
        found = (text for point in assignment.plan.points for text in self.cautions(point))
        self.warnings += [text for text in dict.fromkeys(found) if text not in self.warnings]
        if self._cluster is not None:
            self._give([trial for trial in self._planned if trial.maximum_of is None and not trial.search_trials])
        elif self.config.servers is None:
            for how in {trial.point.params.notification for trial in assignment.plan.trials}:
                system = _SHORT_QWAIT if how == "qwait" else _SHORT_POLLING
                simulate(system, window_ns=1000.0)
        return super().begin(assignment)

    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        """Simulate the trial; the seed follows from its name and the spec's seeds."""
        params = trial.point.params
        record = self.begun(trial, attempt)
        try:
            maximum_pps = self.maxima.of(trial)
        except TrialError as error:
            return record.failed(str(error), final=True)
        rate = rate_request(params, maximum_pps)
        start = {"trial": trial.id, "warmup_ns": trial.warmup_ns, "window_ns": trial.window_ns, "rate": rate}
        result = self._result(trial, rate.get("pps"), maximum_pps)
        found = {"config": config_of(params), "start": start, **self._beside(params, result)}
        return record.having(maximum_pps=maximum_pps, **found)

    def _beside(self, params: Parameters, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result with the power of its cores and the co-runner, if the file has IPCs."""
        if self.config.servers:
            return {"result": result}
        costs = self._costs(params)
        if (ipc := _ipc(costs, points.queues_of_a_core(params))) is None:
            return {"result": result}
        busy = activity(result, ipc)
        neighbour = {"corunner": beside(params, costs, busy, float(result["window"]["end_tsc"]))}
        return {"result": {**result, "power_w": power_w(params, costs, busy)}} | (
            {} if params.corunner == "none" else neighbour
        )

    def _result(self, trial: Trial, offered_pps: float | None, maximum_pps: float | None) -> dict[str, Any]:
        if self._cluster is None:
            return simulated(self.config, trial, offered_pps)
        if maximum_pps is not None and all(self.maxima.has(each) for each in self._planned if each.kind == "maximum"):
            self._give([each for each in self._planned if each.maximum_of is not None])
        self._cluster.give(_name(trial, offered_pps), simulated, self.config, trial, offered_pps)
        return dict(self._cluster.take(_name(trial, offered_pps)))

    def _give(self, trials: Sequence[Trial]) -> None:
        """Let the cluster begin with trials whose load is known."""
        assert self._cluster is not None
        for trial in trials:
            try:
                maximum_pps = self.maxima.of(trial)
            except TrialError:
                continue  # reported when this trial is due
            offered_pps = rate_request(trial.point.params, maximum_pps).get("pps")
            self._cluster.give(_name(trial, offered_pps), simulated, self.config, trial, offered_pps)

    def machine(self) -> dict[str, Any]:
        return {"host": {"absent": "nothing was measured on a host"}, "build": {"absent": "no node program is needed"}}

    def describe(self) -> dict[str, Any]:
        """Return the description with the costs on which the run depends."""
        return {**super().describe(), "model": self.config.model_dump(mode="json", exclude_none=True)}


def _name(trial: Trial, offered_pps: float | None) -> str:
    return f"{trial.id} at {offered_pps}"


def simulated(config: ModelConfig, trial: Trial, offered_pps: float | None) -> dict[str, Any]:
    """Return the result of a trial: the same bits for the same arguments, wherever it is computed."""
    params, tsc_hz = trial.point.params, config.tsc_hz
    seed = zlib.crc32(f"{trial.id} {params.arrivals_seed} {params.service_seed} {params.hiccup_seed}".encode())
    if config.servers:
        return _of_servers(trial, tsc_hz, offered_pps, seed)
    costs = (config.workloads or {})[params.workload]
    due_pps, offered_pps = offered_pps, points.sent_on_schedule_pps(params, costs, offered_pps)
    return sent_late(_of_cores(config, trial, offered_pps, seed), due_pps, offered_pps)


def _of_cores(config: ModelConfig, trial: Trial, offered_pps: float | None, seed: int) -> dict[str, Any]:
    params, tsc_hz = trial.point.params, config.tsc_hz
    costs = (config.workloads or {})[params.workload]
    if params.notification == "qwait":
        system = points.notified_system(params, costs, tsc_hz, offered_pps)
        outcome = simulate(system, trial.window_ns, trial.warmup_ns, seed)
        return notified_result(params, system, outcome, tsc_hz, _ipc(costs, points.queues_of_a_core(params)))
    batch = 1 if config.batch is None else round(config.batch.at(params.queues))
    polling = points.system(params, costs, tsc_hz, offered_pps, batch)
    outcome = simulate(polling, trial.window_ns, trial.warmup_ns, seed)
    return result_of(params, polling, outcome, tsc_hz, _ipc(costs, points.queues_of_a_core(params)))


def _ipc(costs: Costs, queues: int) -> Ipc | None:
    if costs.useful_ipc is None or costs.polling_ipc is None:
        return None
    return Ipc(costs.useful_ipc.at(queues), costs.polling_ipc.at(queues))


def _of_servers(trial: Trial, tsc_hz: int, offered_pps: float | None, seed: int) -> dict[str, Any]:
    params = trial.point.params
    if offered_pps is None:
        capacity_pps = server_points.capacity_pps(params, tsc_hz)
        return servers_result(params, trial.window_ns, tsc_hz, taken=capacity_pps * trial.window_ns / 1e9)
    system, parts = server_points.system(params, tsc_hz, offered_pps)
    outcome = simulate(system, trial.window_ns / system.servers, trial.warmup_ns, seed, parts)
    return servers_result(params, trial.window_ns, tsc_hz, outcome=outcome)
