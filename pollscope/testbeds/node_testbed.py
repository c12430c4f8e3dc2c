# SPDX-License-Identifier: BSD-3-Clause
"""A testbed on which `pollscope-node` runs: keep a suitable session, and record every outcome of a trial."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pollscope.base.errors import HostError, TrialError
from pollscope.host.corunner_placement import CorunnerCpus, has_corunners, runs_dut
from pollscope.knobs import Knobs
from pollscope.knobs.points import knob_settings
from pollscope.metrics.host_state import HostCheck
from pollscope.node.client import NodeLost
from pollscope.node.requests import rate_request, with_seeds_of
from pollscope.plan.plan import Trial, configuration_key
from pollscope.spec import lcores
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.base import Assignment, HostAway, Opening, Testbed, TestbedConfig
from pollscope.testbeds.corunner import CorunnerLost, CorunnerProgram, workers
from pollscope.testbeds.host_state_watch import HostStateWatch
from pollscope.testbeds.path_floor import PathFloors, not_measured
from pollscope.testbeds.session import Session, TrialRequest

if TYPE_CHECKING:
    from pollscope.testbeds.collecting import RunCollectors

# How long each measuring core is watched for gaps before the run.
# Enough for a warning; time that the host takes from a trial is recorded in the trial.
_NOISE_NS = 500_000_000
# Calibrating takes longer than a short trial, so repeats share this many calibrations and path floors.
_COSTS = 8
# Parts of a TrialRecord.
Parts = dict[str, Any]


class NodeTestbed(Testbed):
    """Runs trials one after the other; a hung or dead node is ended, and the next trial gets a new one.

    Attributes:
        collectors: read during every trial; None without any. May be changed between trials.
        most_sessions: how many sessions exist at a time. Points that need different ones alternate without a restart.
    """

    most_sessions = 1

    def __init__(self, file: Path, config: TestbedConfig) -> None:
        super().__init__(file, config)
        self.collectors: RunCollectors | None = None
        self._knobs: Knobs = Knobs()
        self._floors = PathFloors()
        self._calibrations: dict[tuple[tuple[object, ...], int], dict[str, Any]] = {}
        self._sessions: list[Session] = []  # the last used one last
        self._corunner: CorunnerProgram | None = None
        self._count = 0
        self._repeats_per_cost = 1
        self._left: Parts = {}  # of the collectors of a lost trial

    @abstractmethod
    def open(self, params: Parameters, log: Path) -> Session:
        """Start nodes that can run this configuration, and as many others as possible.

        Raises:
            HostError: they do not start.
        """

    @abstractmethod
    def own_knobs(self, what: str, restore_first: bool) -> Knobs:
        """See `knobs`."""

    def knobs(self, what: str, restore_first: bool) -> Knobs:
        """Return the knobs of the host, which are set to a point's levels before its trial."""
        self._knobs = self.own_knobs(what, restore_first)
        return self._knobs

    def begin(self, assignment: Assignment) -> Opening:
        """Start the first session and ask the collectors.

        Raises:
            HostError: it does not start.
        """
        points = [trial.point for trial in assignment.plan.trials]
        self._log = assignment.log
        pair = assignment.plan.trials[0].pair
        self._repeats_per_cost = max(1, assignment.plan.spec.repeats.at_least // _COSTS)
        self._one_core = all(_on_one_core(point.params) for point in points)
        self._host_state = HostStateWatch(self._look, assignment.append_host_check, pair, assignment.host_checks)
        session = self._suitable_session(points[0].params)
        noise = session.noise(_NOISE_NS)
        self.warnings += session.metadata
        if not (uses := assignment.plan.spec.collectors):
            return Opening(session.hello, noise)
        from pollscope.testbeds.collecting import RunCollectors  # imports every collector, which most runs do not need

        self.collectors = RunCollectors(uses, assignment.folder, assignment.plan)
        with_corunner = next((point.params for point in points if point.params.corunner != "none"), points[0].params)
        return Opening(
            session.hello, noise, self.collectors.probe(_collector_options(session, with_corunner), session.hosts)
        )

    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        """Measure one trial, with the knobs of its point set, and a host-state check before it if one is due.

        Raises:
            HostError: a node cannot be started, or a host whose knobs are set is gone.
        """
        settings = knob_settings(trial.point.factors)
        try:
            maximum_pps = self.maxima.of(trial)
        except TrialError as error:
            return self.begun(trial, attempt).failed(str(error), final=True)
        try:
            self._knobs.apply(settings)
        except HostAway:
            raise
        except HostError as error:
            return self.begun(trial, attempt).failed(f"its knobs could not be set: {error}", final=True)
        host_state = self._host_state.before(trial, settings)
        floor = self._floor(trial)
        session = self._suitable_session(trial.point.params)
        record = self.begun(trial, attempt).having(host_state=host_state)
        self._left = {}
        try:
            return record.having(**self._measured(session, record, trial, maximum_pps), floor=floor)
        except NodeLost as error:
            self._end_sessions()
            return record.failed(str(error), lost=True, **self._left)
        except CorunnerLost as error:
            return record.failed(str(error), lost=True, **self._left)
        except TrialError as error:
            return record.failed(str(error), **self._left)

    @property
    def host_checks(self) -> Sequence[HostCheck]:
        """Return all host-state checks, those of an interrupted part of the run first."""
        return self._host_state.host_checks

    def end_block(self) -> None:
        """Take a last host-state check after the last trial, so that each trial lies between two."""
        self._host_state.close()

    def end(self) -> None:
        """End the sessions in order, and the programs beside them."""
        if self._corunner is not None:
            self._corunner.close()
            self._corunner = None
        with ExitStack() as closing:  # all of them, also if one fails
            while self._sessions:
                closing.callback(self._sessions.pop().close)

    def make_room(self, idle: Sequence[Session], chosen: Session | None, params: Parameters) -> int:
        """Return how many idle sessions, the longest unused first, have to end before one takes these parameters.

        Args:
            idle: all other sessions.
            chosen: the session that takes them; None if one is opened.
            params: the configuration.
        """
        return max(0, len(idle) + (chosen is None) - self.most_sessions)

    def _suitable_session(self, params: Parameters) -> Session:
        """Return a session that suits these parameters: one that exists, or a new one."""
        chosen = next((session for session in reversed(self._sessions) if session.suits(params)), None)
        idle = [session for session in self._sessions if session is not chosen]
        for session in idle[: self.make_room(idle, chosen, params)]:
            self._sessions.remove(session)
            session.close()
        if chosen is None:
            chosen = self.open(params, self._log)
        else:
            self._sessions.remove(chosen)
        self._sessions.append(chosen)
        return chosen

    def _end_sessions(self) -> None:
        """End all sessions at once: what lost one may have lost others."""
        while self._sessions:
            self._sessions.pop().end()

    def _look(self, point: Point) -> HostCheck:
        """Return the present state of the cores of a session for this point, or `absent` with the reason."""
        session = self._suitable_session(point.params)
        try:
            hosts = session.host_state()
        except NodeLost as error:
            self._end_sessions()
            return {"absent": str(error)}
        except TrialError as error:
            return {"absent": str(error)}
        # Lines between cores, whose latency changes from second to second in some virtual machines, are then not used.
        return {"hosts": [{**host, "lines": []} for host in hosts] if self._one_core else hosts}

    def _floor(self, trial: Trial) -> Parts:
        """Return the path's floor at a trial's point; losing a node here does not fail the trial."""
        point = trial.point
        if not runs_dut(point.params):
            return {}
        session = self._suitable_session(point.params)
        try:
            number = trial.repeat // self._repeats_per_cost
            return self._floors.of(session, point.params, knob_settings(point.factors), number)
        except NodeLost as error:
            self._end_sessions()
            return {"absent": not_measured(error)}

    def _measured(self, session: Session, record: TrialRecord, trial: Trial, maximum_pps: float | None) -> Parts:
        self._count += 1
        params = trial.point.params
        config, calibration = self._configured(session, trial)
        host = session.watch()
        rate = rate_request(params, maximum_pps)
        warmup_ns = max(trial.warmup_ns, session.least_warmup_ns(params))
        request = TrialRequest(f"t{self._count}", warmup_ns, trial.window_ns, trial.drain_ns, rate)
        result, collected = self._collected(session, record, params, request)
        return {
            "maximum_pps": maximum_pps,
            "config": config,
            "start": request.to_json(),
            "result": result,
            "calibration": calibration,
            "host": host(),
            **collected,
        }

    def _configured(self, session: Session, trial: Trial) -> tuple[Parts, Parts]:
        """Configure the DUT and calibrate it once per repeat; return both, or why the DUT is not used."""
        params = trial.point.params
        if not runs_dut(params):
            return {}, {"absent": f"dut_core is {params.dut_core}: the DUT did not run"}
        config = session.configure(with_seeds_of(params, trial.repeat))
        # If all repeats shared a value, its interval would have width 0. The attempts of one trial share it.
        key = configuration_key(trial.point), trial.repeat // self._repeats_per_cost
        if key not in self._calibrations:
            self._calibrations[key] = session.calibrate(params)
        return config, self._calibrations[key]

    def _collected(
        self, session: Session, record: TrialRecord, params: Parameters, request: TrialRequest
    ) -> tuple[Parts, Parts]:
        """Return the result of one measurement with the collectors around it, and the other parts of the record."""
        corunners = session.corunner_cpus(params) if has_corunners(params) else CorunnerCpus()
        if self.collectors is None:
            return self._with_corunners(session, params, corunners, request, lambda: None)
        # Those of a pair are on the DUT's host.
        busy = () if session.hosts else (*session.measuring_cpus, *corunners.cpus)
        options = _collector_options(session, params)
        collection = self.collectors.begin(record, options, busy, session.hosts)
        try:
            begin = lambda: collection.mark(request)  # noqa: E731
            result, corunner = self._with_corunners(session, params, corunners, request, begin)
        except TrialError:
            collection.stop()
            self._left = collection.record_lost()
            raise
        except BaseException:  # Ctrl-C: leave nothing behind
            collection.stop()
            raise
        collection.stop()
        return result, {**corunner, **collection.record(result)}

    def _with_corunners(
        self,
        session: Session,
        params: Parameters,
        corunners: CorunnerCpus,
        request: TrialRequest,
        begin: Callable[[], None],
    ) -> tuple[Parts, Parts]:
        """Return the result of one measurement with the DUT's co-runners at work, and what they did.

        `begin` is called right before the nodes are started.
        """
        if not has_corunners(params):
            begin()
            return session.measure(request), {}
        if self._corunner is None:
            self._corunner = CorunnerProgram(lambda: session.open_corunner(self._log))
        with self._corunner.ready(workers(params, corunners)) as working:
            if not runs_dut(params):
                begin()
                found = working.alone(request)
                return {"state": "done", "window": found["result"]["window"]}, {"corunner": found}
            working.start()
            begin()
            result = session.measure(request)
            return result, {"corunner": working.record(result["window"])}


def _collector_options(session: Session, params: Parameters) -> dict[str, Mapping[str, object]]:
    """Return the options of collectors for the nodes of a point and the co-runner beside them."""
    corunner = session.corunner_cpus(params).corunner if has_corunners(params) else None
    # The agents of a pair know their options already.
    more = {} if corunner is None or session.hosts else {"perf-corunner": {"cpus": (corunner,)}}
    return {**session.collector_options, **more}


def _on_one_core(params: Parameters) -> bool:
    """Return whether one DUT core works alone: no other core sends, receives or runs beside it."""
    is_silent = not lcores.has_generator(params) or params.load_pps == 0
    return is_silent and lcores.dut_lcores(params) == 1 and not has_corunners(params)
