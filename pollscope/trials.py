# SPDX-License-Identifier: BSD-3-Clause
"""Makes single trials: keeps a session that suits, measures, and turns whatever happens into a record."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pollscope.errors import TrialError
from pollscope.host.activity import read_activity
from pollscope.node import NodeLost
from pollscope.plan import Trial, configuration_key
from pollscope.requests import rate_request
from pollscope.store import utc_now
from pollscope.testbeds import Session, Testbed
from pollscope.testbeds.base import Measured

if TYPE_CHECKING:
    from pollscope.collecting import RunCollectors

Record = dict[str, Any]


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
        self._count = 0

    def session(self, params: Mapping[str, Any]) -> Session:
        """A session that suits these parameters: the present one, or a new one.

        Raises:
            HostError: it does not start.
        """
        if self._session is not None and not self._session.suits(params):
            self.close()
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
            return {**record, "status": "failed", "reason": str(error), "lost": True}
        except TrialError as error:
            return {**record, "status": "failed", "reason": str(error)}

    def close(self) -> None:
        """Ends the session in order."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _measured(self, session: Session, trial: Trial, attempt: int, maximum_pps: float | None) -> Record:
        self._count += 1
        params = trial.point.params
        config = session.configure(params)
        calibration = self._calibration(session, params)
        times = {"warmup_ns": trial.warmup_ns, "window_ns": trial.window_ns, "drain_max_ns": trial.drain_ns}
        before, waits = read_activity(session.measuring_cpus), session.waits_ns()
        rate = rate_request(params, maximum_pps)
        measured, collected = self._collected(session, (trial.id, attempt), times, rate)
        host = read_activity(session.measuring_cpus).since(before)
        host["waits_ns"] = {str(lcore): ns - waits.get(lcore, 0) for lcore, ns in session.waits_ns().items()}
        maximum = {} if maximum_pps is None else {"maximum_pps": maximum_pps}
        return {
            **maximum,
            "config": config,
            "start": measured.start,
            "result": measured.result,
            "calibration": calibration,
            "host": host,
            **collected,
        }

    def _collected(
        self, session: Session, name: tuple[str, int], times: Mapping[str, int], rate: Mapping[str, Any]
    ) -> tuple[Measured, Record]:
        """One measurement with the collectors around it: what was measured, and their part of the record."""
        if self.collectors is None:
            return session.measure(f"t{self._count}", times, rate), {}
        collection = self.collectors.begin(*name, session.collector_options, session.measuring_cpus)
        try:
            collection.mark(times)
            measured = session.measure(f"t{self._count}", times, rate)
        finally:
            collection.stop()
        return measured, collection.record()

    def _calibration(self, session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
        # Once per configuration and run: it takes longer than the configuration itself.
        key = configuration_key(params)
        if key not in self._calibrations:
            self._calibrations[key] = session.calibrate(params)
        return self._calibrations[key]


def not_run(trial: Trial, attempt: int, testbed: Testbed, reason: str) -> Record:
    """The record of a trial that could not even be started."""
    record = {**_plain(trial, attempt, testbed), "started_utc": utc_now(), "started_monotonic_ns": time.monotonic_ns()}
    return {**record, "status": "failed", "reason": reason}


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
    }


def same_params(record: Mapping[str, Any], trial: Trial) -> bool:
    """Whether a stored record was made with the parameters that the plan has now (compared as JSON)."""
    return bool(record["params"] == json.loads(json.dumps(dict(trial.point.params))))
