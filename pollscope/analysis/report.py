# SPDX-License-Identifier: BSD-3-Clause
"""Write one self-contained HTML page about runs: findings, cautions, contents, a section per run, glossary."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pollscope import __version__
from pollscope.analysis.findings import by_chance, findings, folded, run_command, tally
from pollscope.analysis.page import page_html, write_page
from pollscope.analysis.point_values import factor_title
from pollscope.analysis.run_section import RunSection, run_section
from pollscope.metrics.dictionary import Metric, metric_dictionary
from pollscope.store.run_folder import RunFolder

T = TypeVar("T", bound=Hashable)
_MOST_NAMES = 3


@dataclass(frozen=True)
class Common:
    """Hold the texts above and below the sections of several runs; `runs` are numbers of sections, from one."""

    topics: list[tuple[str, list[int]]]
    of_hosts: list[tuple[str, str, list[int]]]
    differs: list[str]
    metadata: list[tuple[str, str]]
    absences: list[tuple[str, str]]


def page_title(sections: Sequence[RunSection]) -> str:
    """Return the title of a single run, or the names of the first few runs."""
    names = list(dict.fromkeys(section.name for section in sections))
    if len(sections) == 1:
        return sections[0].title
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def common(sections: Sequence[RunSection]) -> Common:
    """Return the parts that all sections share; for one run these are only the cautions about its host."""
    topics: dict[str, list[int]] = {}
    of_hosts: dict[tuple[str, str], list[int]] = {}
    for number, section in enumerate(sections, start=1):
        for caution in section.cautions:
            if caution.of_host:
                of_hosts.setdefault((caution.topic, caution.text), []).append(number)
            elif number not in topics.setdefault(caution.topic, []):
                topics[caution.topic].append(number)
    return Common(
        list(topics.items()),
        [(topic, text, numbers) for (topic, text), numbers in of_hosts.items()],
        _shared(sections, lambda section: section.differs),
        _shared(sections, lambda section: section.metadata),
        _shared(sections, lambda section: section.absences),
    )


def _shared(sections: Sequence[RunSection], part: Callable[[RunSection], Iterable[T]]) -> list[T]:
    """Return the elements of a part that every section has, in the order of the first; nothing with one section."""
    if len(sections) < 2:
        return []
    first, *others = (dict.fromkeys(part(section)) for section in sections)
    return [each for each in first if all(each in other for other in others)]


def by_reason(absences: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Group absent metrics by reason."""
    found: dict[str, list[str]] = {}
    for name, reason in absences:
        found.setdefault(reason, []).append(name)
    return list(found.items())


def glossary(sections: Sequence[RunSection]) -> dict[str, Metric]:
    """Return the metrics that the page names in tables and verdicts, in the order of the dictionary."""
    used: set[Any] = {name for section in sections for table in section.tables for name in table.metrics}
    used |= {verdict.claim.metric for section in sections for verdict in section.verdicts}
    return {name: metric for name, metric in metric_dictionary().metrics.items() if name in used}


def write_report(runs: Sequence[RunFolder], target: Path) -> Path:
    """Write the page and return its path.

    Raises:
        UsageError: a run folder contradicts its formats.
        HostError: the file cannot be written.
    """
    return write_page(report_html(runs), target)


def report_html(runs: Sequence[RunFolder]) -> str:
    """Return the page as text; everything that comes from a run is escaped."""
    sections = [run_section(run, number) for number, run in enumerate(runs)]
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    return page_html(
        "report.html.j2",
        "".join(figure.svg for section in sections for figure in section.figures),
        {
            "by_reason": by_reason,
            "factor_title": factor_title,
            "run_command": run_command,
            "tally": tally,
            "by_chance": by_chance,
        },
        sections=sections,
        common=common(sections),
        title=page_title(sections),
        verdicts=verdicts,
        findings=findings(runs),
        folded=folded(verdicts),
        lead=next((figure for section in sections for figure in section.figures), None),
        version=__version__,
        glossary=glossary(sections),
    )
