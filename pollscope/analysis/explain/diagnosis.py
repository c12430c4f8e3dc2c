# SPDX-License-Identifier: BSD-3-Clause
"""Apply all rules to all points: which stages limit the DUT, may limit it, do not, or were not measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from ruamel.yaml import YAML

from pollscope.analysis.explain import rules_dut, rules_host_network, rules_traffic
from pollscope.analysis.explain.finding import ABSENT, LIMITS, OPEN, Rule, RuleJudgement, RuleOutcome, StageFinding
from pollscope.analysis.explain.observations import PointObservations
from pollscope.analysis.explain.run_metadata import paper_metadata, run_metadata
from pollscope.base.paths import data_folder
from pollscope.base.units import human_share
from pollscope.metrics.accounting import WOULD_TELL
from pollscope.metrics.record import NotMeasured
from pollscope.store.run_folder import RunFolder

_JUDGES = rules_traffic.JUDGES | rules_dut.JUDGES | rules_host_network.JUDGES
RULES = tuple(
    Rule(stage, tuple(each["when"]), _JUDGES[stage], each["source"], each["refuted_by"], each.get("hardware", False))
    for stage, each in YAML(typ="safe").load(data_folder("data") / "stages.yaml").items()
)
OFFERED_LOAD = "offered load"
EMPTY_POLLS = "nothing is sent: the poll rate is limited by the cost of empty polls"
# If more than this share of the trials contradict their means, the means alone decide nothing.
_DISAGREEING_SHARE = 1 / 3

_TCP_FLOWS = (
    "TCP chooses its own rate, and what forwards its flows counts nothing that would tell; "
    "bottleneck_share says how far the link limits"
)


@dataclass(frozen=True)
class Diagnosis:
    """Hold the findings of one point in the order of the rules, with the trials behind them.

    `idle` is true where nothing is sent: then the poll rate is limited, not a packet rate.
    """

    label: str
    trials: int
    flagged: int
    modelled: bool
    findings: tuple[StageFinding, ...]
    idle: bool = False

    def of(self, *kinds: RuleOutcome) -> list[StageFinding]:
        return [finding for finding in self.findings if finding.kind in kinds]

    @property
    def telling(self) -> list[StageFinding]:
        return [*self.of(LIMITS), *self.of(OPEN)]

    @property
    def summary(self) -> str:
        limits = [finding.stage for finding in self.of(LIMITS)]
        if self.idle:
            also = [finding.stage for finding in self.telling if finding.stage != OFFERED_LOAD]
            return "; ".join([EMPTY_POLLS, *(f"may be limited by: {stage}" for stage in also)])
        if limits:
            return f"{'modelled, ' if self.modelled else ''}limited by: {', '.join(limits)}"
        may = [finding.stage for finding in self.of(OPEN)]
        return f"not known what limits it; it may be: {', '.join(may)}" if may else "not known what limits it"

    def to_json(self) -> dict[str, Any]:
        limits = [finding.stage for finding in self.of(LIMITS)]
        findings = [finding.to_json() for finding in self.findings]
        return {
            "point": self.label,
            "trials": self.trials,
            "flagged": self.flagged,
            "modelled": self.modelled,
            "limited_by": limits,
        } | {"findings": findings}


def explain_run(run: RunFolder, table: pd.DataFrame) -> list[Diagnosis]:
    """Return what limits the DUT at each measured point of a run.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    return [diagnose(point) for point in run_metadata(run, table)]


def explain_paper(paper: str) -> list[Diagnosis]:
    """Diagnose the points of a paper's own table of counters.

    Raises:
        UsageError: the paper states none.
    """
    return [diagnose(point) for point in paper_metadata(paper)]


def diagnose(point: PointObservations) -> Diagnosis:
    """Apply all rules to one point."""
    return Diagnosis(
        point.label,
        point.trial_count,
        point.flagged,
        point.modelled,
        tuple(_finding(rule, point) for rule in RULES),
        point.nothing_is_sent,
    )


def _finding(rule: Rule, point: PointObservations) -> StageFinding:
    try:
        if point.param("flow_size") is not None:
            raise NotMeasured(_TCP_FLOWS)
        said = _with_doubt(rule, point.trials, _judge(rule, point))
    except NotMeasured as absent:
        said = RuleJudgement(ABSENT, (str(absent),))
    return StageFinding(rule.stage, said.kind, said.evidence, rule.source, rule.refuted_by)


def _judge(rule: Rule, point: PointObservations) -> RuleJudgement:
    """Return the finding of a rule if it holds for all core cycles within their errors.

    Raises:
        NotMeasured: a number is absent, or these errors decide.
    """
    if rule.hardware and point.without_hardware:
        raise NotMeasured(point.without_hardware)
    said = rule.judge(point)
    error = point.load_error
    if error and any(rule.judge(moved).kind is not said.kind for moved in point.at_its_errors):
        raise NotMeasured(f"cycles are known to +-{human_share(error)} of the time only, which decides: {WOULD_TELL}")
    return said


def _with_doubt(rule: Rule, trials: Sequence[PointObservations], said: RuleJudgement) -> RuleJudgement:
    """Return the finding by the means of all trials, open if over a third of the trials contradict it one by one.

    One outlying trial can move the mean, so the mean alone must not decide against most trials.
    """
    judged = [kind for trial in trials if (kind := _kind(rule, trial)) is not ABSENT]
    if not judged or said.kind is OPEN:
        return said
    by_means = said.kind is LIMITS
    limits = sum(kind is LIMITS for kind in judged)
    otherwise = len(judged) - limits if by_means else limits
    if otherwise <= _DISAGREEING_SHARE * len(judged):
        return said
    whole = "limits" if by_means else "does not limit"
    disagree = f"by their means it {whole}, one by one it limits in {limits} of {len(judged)}"
    return RuleJudgement(OPEN, (f"the trials do not agree: {disagree}", *said.evidence))


def _kind(rule: Rule, trial: PointObservations) -> RuleOutcome:
    try:
        return _judge(rule, trial).kind
    except NotMeasured:
        return ABSENT
