# SPDX-License-Identifier: BSD-3-Clause
"""Makes single trials: keeps a session that suits, measures, and turns whatever happens into a record."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pollscope.base.errors import TrialError
from pollscope.host.company import Company, has_company, runs_dut
from pollscope.node.client import NodeLost
from pollscope.node.requests import rate_request, with_seeds_of
from pollscope.plan.plan import Trial, configuration_key
from pollscope.store.writer import utc_now
from pollscope.testbeds import Session, Testbed
from pollscope.testbeds.base import Measured
from pollscope.testbeds.corunner import Beside, CorunnerLost, workers
from pollscope.testbeds.path_floor import PathFloors

if TYPE_CHECKING:
    from pollscope.run.collecting import RunCollectors

Record = dict[str, Any]


@dataclass(frozen=True)
class _Trial:
    """What is asked of the nodes in one trial: its name there, its times and its rate as the protocol has them."""

    name: str
    times: Mapping[str, int]
    rate: Mapping[str, Any]


class TrialMaker:
    """Runs trials one after the other; a hung or dead node is ended, and the next trial gets a new one.

    Args:
        testbed: where.
        most_cores: the most DUT lcores that any trial needs.
        log: file for the nodes' standard error.
        collectors: what is read during every trial; None without any. May be changed between trials.
    """

    def __init__(self, testbed: Testbed, most_cores: int, log: Path, collectors: "RunCollectors | None" = None) -> None:
        self._testbed, self._most_cores, self._log = testbed, most_cores, log
        self.collectors = collectors
        self._session: Session | None = None
        self._calibrations: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._floors = PathFloors()
        self._beside: Beside | None = None
        self._count = 0
        self._left: Record = {}  # by the collectors of a trial that was lost

    def session(self, params: Mapping[str, Any]) -> Session:
        """A session that suits these parameters: the present one, or a new one.

        Raises:
            HostError: it does not start.
        """
        if self._session is not None and not self._session.suits(params):
            self._close_session()
        if self._session is None:
            self._session = self._testbed.open(params, self._most_cores, self._log)
        return self._session

    def make(self, trial: Trial, attempt: int, maximum_pps: float | None) -> Record:
        """One trial as a line of trials.jsonl; a trial that fails is a record with the reason."""
        session = self.session(trial.point.params)
        record = {**_plain(trial, attempt, self._testbed), "started_utc": utc_now()}
        record["started_monotonic_ns"] = time.monotonic_ns()
        try:
            return {**record, **self._measured(session, trial, attempt, maximum_pps)}
        except NodeLost as error:
            session.end()
            self._session = None
            return {**record, **self._left, "status": "failed", "reason": str(error), "lost": True}
        except CorunnerLost as error:
            return {**record, **self._left, "status": "failed", "reason": str(error), "lost": True}
        except TrialError as error:
            return {**record, **self._left, "status": "failed", "reason": str(error)}

    def ground(self, params: Mapping[str, Any]) -> Record:
        """What the cores of a session for these parameters are like now, or `absent` with the reason.

        Raises:
            HostError: it does not start.
        """
        session = self.session(params)
        try:
            return {"hosts": session.ground()}
        except NodeLost as error:
            session.end()
            self._session = None
            return {"absent": str(error)}
        except TrialError as error:
            return {"absent": str(error)}

    def close(self) -> None:
        """Ends the session in order, and what runs beside it."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None
        self._close_session()

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _measured(self, session: Session, trial: Trial, attempt: int, maximum_pps: float | None) -> Record:
        self._count += 1
        self._left = {}
        params = trial.point.params
        floor = self._floors.of(session, params) if runs_dut(params) else {}
        config, calibration = self._configured(session, with_seeds_of(params, trial.repeat))
        warmup_ns = max(trial.warmup_ns, session.least_warmup_ns)
        times = {"warmup_ns": warmup_ns, "window_ns": trial.window_ns, "drain_max_ns": trial.drain_ns}
        watch = session.watch()
        rate = rate_request(params, maximum_pps)
        measured, collected = self._collected(session, trial, attempt, _Trial(f"t{self._count}", times, rate))
        maximum = {} if maximum_pps is None else {"maximum_pps": maximum_pps}
        return {
            **maximum,
            "config": config,
            "start": measured.start,
            "result": measured.result,
            "calibration": calibration,
            "floor": floor,
            "host": watch.record(),
            **collected,
        }

    def _configured(self, session: Session, params: Mapping[str, Any]) -> tuple[Record, Record]:
        """The request that configured the DUT and its calibration, if it takes part."""
        if not runs_dut(params):
            return {}, {"absent": f"dut_core is {params['dut_core']}: the DUT did not run"}
        return session.configure(params), self._calibration(session, params)

    def _collected(self, session: Session, trial: Trial, attempt: int, ask: "_Trial") -> tuple[Measured, Record]:
        """One measurement with the collectors around it: what was measured, and the other parts of the record."""
        params = trial.point.params
        company = session.company(params) if has_company(params) else Company()
        if self.collectors is None:
            return self._accompanied(session, params, company, ask)
        # Those of a pair are on the DUT's host.
        busy = () if session.ends else (*session.measuring_cpus, *company.cpus)
        options = collector_options(session, params)
        collection = self.collectors.begin(trial.id, attempt, options, busy, session.ends)
        try:
            collection.mark(ask.times)
            measured, beside = self._accompanied(session, params, company, ask)
        except TrialError:
            collection.stop()
            self._left = collection.record_lost()
            raise
        except BaseException:  # Ctrl-C: nothing is left behind
            collection.stop()
            raise
        collection.stop()
        return measured, {**beside, **collection.record(measured.result)}

    def _accompanied(
        self, session: Session, params: Mapping[str, Any], company: Company, ask: "_Trial"
    ) -> tuple[Measured, Record]:
        """One measurement with the DUT's company at work."""
        if not has_company(params):
            return session.measure(ask.name, ask.times, ask.rate), {}
        if self._beside is None:
            self._beside = Beside(lambda: session.open_corunner(self._log))
        with self._beside.present(workers(params, company)) as present:
            if not runs_dut(params):
                found = present.alone(ask.times)
                start = {"trial": ask.name, **ask.times, "rate": dict(ask.rate)}
                return Measured(start, {"state": "done", "window": found["result"]["window"]}), {"corunner": found}
            present.start()
            measured = session.measure(ask.name, ask.times, ask.rate)
            return measured, {"corunner": present.record(measured.result["window"])}

    def _calibration(self, session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
        # Once per configuration and run: it takes longer than the configuration itself.
        key = configuration_key(params)
        if key not in self._calibrations:
            self._calibrations[key] = session.calibrate(params)
        return self._calibrations[key]


def collector_options(session: Session, params: Mapping[str, Any]) -> dict[str, Mapping[str, object]]:
    """What collectors have to be told about the nodes of a point and the co-runner beside them."""
    corunner = session.company(params).corunner if has_company(params) else None
    # An end has been told itself.
    beside: Record = {} if corunner is None or session.ends else {"perf-corunner": {"cpus": (corunner,)}}
    return {**session.collector_options, **beside}


def not_run(trial: Trial, attempt: int, testbed: Testbed, reason: str) -> Record:
    """The record of a trial that could not even be started."""
    record = {**_plain(trial, attempt, testbed), "started_utc": utc_now(), "started_monotonic_ns": time.monotonic_ns()}
    return {**record, "status": "failed", "reason": reason}


def search_record(trial: Trial, attempt: int, testbed: Testbed, found: Mapping[str, Any]) -> Record:
    """The record of a search that has ended; its trials have records of their own."""
    record = {**_plain(trial, attempt, testbed), "started_utc": utc_now(), "started_monotonic_ns": time.monotonic_ns()}
    return {**record, "search": dict(found)}


def _plain(trial: Trial, attempt: int, testbed: Testbed) -> Record:
    return {
        "trial": trial.id,
        "point": trial.point.id,
        "repeat": trial.repeat,
        "kind": trial.kind,
        "factors": dict(trial.point.factors),
        "params": dict(trial.point.params),
        "status": "ok",
        "attempt": attempt,
        "testbed": testbed.name,
        "modelled": testbed.modelled,
        "flags": [],
        **({} if trial.pair is None else {"pair": trial.pair}),
    }


def same_params(record: Mapping[str, Any], trial: Trial) -> bool:
    """Whether a stored record was made with the parameters that the plan has now (compared as JSON)."""
    return bool(record["params"] == json.loads(json.dumps(dict(trial.point.params))))
