#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the tables of docs/*.md that are generated from the code (`make tables`).

A table stands between `<!-- table: NAME -->` and `<!-- end of NAME -->`; NAME is a key of TABLES.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.analysis.explain import RULES
from pollscope.analysis.figures import figure_of
from pollscope.analysis.papers import citation
from pollscope.base.names import COLLECTORS, KNOBS, QUANTITIES, TESTBEDS, WORKLOADS, figure_rows, load, papers
from pollscope.collectors.interface import Collector
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.testbeds import Testbed

DOCS = Path(__file__).resolve().parent
_BETTER = {"lower": " ↓", "higher": " ↑", "neither": ""}
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Return the lines of a Markdown table."""
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


def collectors() -> Iterator[str]:
    """List every collector with what it reads."""
    every: dict[str, type[Collector]] = {name: load(COLLECTORS, name) for name in COLLECTORS}
    notes = {name: ("at start and stop; " if each.once else "") + each.notes for name, each in every.items()}
    return table(("name", "reads", "notes"), ((f"`{name}`", every[name].summary, notes[name]) for name in every))


def quantities() -> Iterator[str]:
    """List every quantity with the collectors that give it, in the order of preference."""
    return table(("quantity", "collectors"), ((f"`{name}`", ", ".join(each)) for name, each in QUANTITIES.items()))


def knobs() -> Iterator[str]:
    """List every knob with its targets and values."""
    every = (load(KNOBS, name) for name in KNOBS)
    head = "knob", "what it is", "target (default)", "values", "where"
    return table(head, ((f"`{each.name}`", each.summary, each.aims, each.values, each.where) for each in every))


def testbeds() -> Iterator[str]:
    """List every kind of testbed with an example of its file."""
    every: dict[str, type[Testbed]] = {name: load(TESTBEDS, name) for name in TESTBEDS}
    files = sorted((DOCS.parent / "configs" / "testbeds").glob("*.yaml"))
    of_kind = {name: [file.name for file in files if f"kind: {name}\n" in file.read_text()] for name in every}
    rows = (
        (
            f"`{name}`",
            each.summary,
            "none" if each.modelled else "one TSC" if each.shared_tsc else "one each",
            ", ".join(f"[{file}](../configs/testbeds/{file})" for file in of_kind[name]),
        )
        for name, each in every.items()
    )
    return table(("kind", "where", "clock", "file"), rows)


def workloads() -> Iterator[str]:
    """List every workload with its own parameters."""
    own = {name: ", ".join(f"`{parameter}`" for parameter in each.parameters) for name, each in WORKLOADS.items()}
    head = "workload", "what is done with a packet", "its own parameters"
    return table(head, ((f"`{name}`", each.summary, own[name]) for name, each in WORKLOADS.items()))


def metrics() -> Iterator[str]:
    """List the metrics, one section per group."""
    dictionary = metric_dictionary()
    for group, title in dictionary.groups.items():
        yield from ("", f"### {title}", "")
        if group in dictionary.introductions:
            yield from (dictionary.introductions[group], "")
        members = [each for each in dictionary.metrics.values() if each.group == group]
        sources = [each.source for each in members]
        rows = (
            (
                f"`{each.name}`",
                f"{each.unit}{_BETTER[each.better]}",
                f"{each.definition} {each.caveats}".strip(),
                "" if source == above else source,
            )
            for each, source, above in zip(members, sources, ["", *sources], strict=False)
        )
        yield from table(("metric", "unit", "definition", "source"), rows)


def paper_rows() -> Iterator[str]:
    """List every paper with its rows that have a figure."""
    rows = {name: [row for row in figure_rows() if figure_of(row).paper == name] for name in papers()}
    head = "`--paper`", "paper", "rows with a figure"
    return table(head, ((f"`{name}`", citation(name), ", ".join(rows[name]) or "none yet") for name in papers()))


def stages() -> Iterator[str]:
    """List every stage that `pollscope explain` knows."""
    head = "stage", "limits when", "refuted if", "source"
    return table(head, ((each.stage, "<br>".join(each.when), each.refuted_by, each.source) for each in RULES))


TABLES = {
    "collectors": collectors,
    "quantities": quantities,
    "knobs": knobs,
    "metrics": metrics,
    "papers": paper_rows,
    "stages": stages,
    "testbeds": testbeds,
    "workloads": workloads,
}


def with_tables(page: str) -> str:
    """Return the page with its tables generated again."""
    return PLACE.sub(lambda found: found[1] + "\n".join([*TABLES[found[2]](), found[3]]), page)


def main() -> None:
    """Write the pages whose tables have changed, and print their paths."""
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if with_tables(page) != page:
            path.write_text(with_tables(page), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
