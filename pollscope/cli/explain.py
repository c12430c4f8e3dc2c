# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope explain`."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from pollscope.analysis.explain import Diagnosis, StageFinding, explain_paper, explain_run
from pollscope.analysis.explain.diagnosis import EMPTY_POLLS, OFFERED_LOAD
from pollscope.analysis.littles_law import paper_arithmetic
from pollscope.base.errors import UsageError
from pollscope.base.units import counted, human_number
from pollscope.cli.words import JsonFlag, PaperName, RunWords, echo, echo_json, runs_of, say_unfinished
from pollscope.store.results_table import current_table

_WIDTH = 24
ORDER = ("limits", "open", "not", "absent")


def explain(
    runs: RunWords = None,
    paper: PaperName = None,
    every: Annotated[bool, typer.Option("--all", help="Also the numbers of stages that do not limit.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Name what limits the DUT at each point: cores, rings, locks, the generator, PCIe, IOTLB, DRAM, and others.

    Each stage that limits or may limit comes with the numbers behind it and with what would refute it; --all shows the
    numbers of the others, too. What was not measured is absent, with the reason. With --paper, the numbers are those of
    that paper's own table, and what the paper derives from it is recomputed. The exit code is 0 whatever limits.
    """
    if not runs and paper is None:
        raise UsageError("no run is given", remedy="name run folders, or --paper for a paper's own table")
    found = {} if paper is None else {f"paper {paper}": explain_paper(paper)}
    modelled = set()
    for run in runs_of(runs or ()):
        say_unfinished([run])
        found[str(run.path)] = explain_run(run, current_table(run))
        modelled |= {str(run.path)} if run.modelled else set()
    if as_json:
        plain = [
            {"of": of, "modelled": of in modelled, "points": [each.to_json() for each in points]}
            for of, points in found.items()
        ]
        echo_json(plain)
        return
    for of, points in found.items():
        echo(_lines(f"{of} (modelled, not measured)" if of in modelled else of, points, every))
    echo(_arithmetic() if paper is not None else ())


def _lines(of: str, points: Sequence[Diagnosis], every: bool) -> Iterator[str]:
    yield of
    if not points:
        yield "  no point was measured, so there is nothing to explain"
    # The stages that are absent at all points for the same reason.
    absent = [{(each.stage, each.evidence) for each in point.findings if each.kind == "absent"} for point in points]
    every_stage = [(each.stage, each.evidence) for each in (points[0].findings if points else ())]
    everywhere = [key for key in every_stage if all(key in others for others in absent)]
    if idle := sum(point.idle for point in points):
        yield f"{EMPTY_POLLS} ({idle} of {counted(len(points), 'point')})"
    for point in points:
        yield ""
        yield f"{point.label}{_trials(point.trials, point.flagged)}: {_rate(point) or point.summary}"
        for finding in sorted(point.findings, key=lambda each: ORDER.index(each.kind)):
            if (finding.stage, finding.evidence) not in everywhere and _shown(point, finding, every):
                yield from _finding(finding)
        clear = [finding.stage for finding in point.findings if finding.kind == "not" and not (every or point.idle)]
        if clear:
            yield f"  {'does not limit':{_WIDTH}} {', '.join(clear)}"
    if everywhere:
        yield ""
        yield "absent at every point:"
    for stage, evidence in everywhere:
        yield _absent(stage, evidence)


def _rate(point: Diagnosis) -> str:
    """Return the poll rate of a point where nothing is sent, as the rule of the offered load states it."""
    [load] = [finding for finding in point.findings if finding.stage == OFFERED_LOAD]
    return ", ".join(load.evidence[1:]) if point.idle else ""


def _shown(point: Diagnosis, finding: StageFinding, every: bool) -> bool:
    return every or not (finding.kind == "not" or (point.idle and finding.stage == OFFERED_LOAD))


def _arithmetic() -> Iterator[str]:
    yield ""
    yield "the paper's arithmetic, recomputed from its table:"
    for each in paper_arithmetic():
        yield f"  {each.what}: {human_number(each.computed)}, printed {human_number(each.printed)} ({each.off:+.1%})"


def _trials(count: int, flagged: int) -> str:
    noisy = f", {flagged} flagged" if flagged else ""
    return f" ({counted(count, 'trial')}{noisy})" if count else ""


def _absent(stage: str, evidence: Sequence[str]) -> str:
    return f"  {stage:{_WIDTH}} absent, because {'; '.join(evidence)}"


def _finding(finding: StageFinding) -> Iterator[str]:
    if finding.kind == "absent":
        yield _absent(finding.stage, finding.evidence)
    elif finding.kind == "not":
        yield f"  {finding.stage:{_WIDTH}} does not limit: {'; '.join(finding.evidence)}"
    else:
        head = "limits" if finding.kind == "limits" else "may limit"
        yield f"  {finding.stage:{_WIDTH}} {head}: {finding.evidence[0]}"
        for text in (*finding.evidence[1:], f"refuted if {finding.refuted_by}", f"source: {finding.source}"):
            yield f"  {'':{_WIDTH}}   {text}"
