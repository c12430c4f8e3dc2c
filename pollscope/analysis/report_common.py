# SPDX-License-Identifier: BSD-3-Clause
"""Prepare the parts of a page that all its runs share: the tally of verdicts, cautions, and common metadata."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pollscope.analysis.run_section import RunSection
from pollscope.metrics.dictionary import Metric, metric_dictionary

T = TypeVar("T", bound=Hashable)
_MOST_NAMES = 3


@dataclass(frozen=True)
class Common:
    """Hold the texts above and below the sections of several runs; `runs` are numbers of sections, from one.

    Attributes:
        topics: topics of cautions about single runs, with the runs.
        of_hosts: cautions about hosts, with the runs.
        differs: ways in which every run differs from its paper's experiment.
        metadata: names and texts that are the same for every run.
        absences: metrics that every run lacks for the same reason, by reason.
    """

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
