#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the tables of docs/*.md that are generated from the code and the recorded runs (`make tables`).

A table stands between `<!-- table: NAME -->` and `<!-- end of NAME -->`; NAME is a key of TABLES. In a table between
`<!-- verdicts -->` and `<!-- end of verdicts -->`, the last two cells of each line are generated: whether a row is
done, and its verdicts. `docs/tables.py PAGE...` writes only these pages: judging all recorded runs takes a minute.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pollscope.analysis.claims import Verdict, VerdictKind, evaluate_run
from pollscope.analysis.claims.verdict import Number
from pollscope.analysis.explain import RULES
from pollscope.analysis.figures import figure_of
from pollscope.analysis.figures.figure import TableFigure
from pollscope.analysis.findings import lacking, tally_of
from pollscope.analysis.gallery import STATED, table_of
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.papers import citation, load_paper, rows_without_figure
from pollscope.analysis.point_values import PointValues, by_point, measured
from pollscope.base.errors import UsageError
from pollscope.base.names import COLLECTORS, KNOBS, QUANTITIES, TESTBEDS, WORKLOADS, figure_rows, load, papers, rows
from pollscope.base.units import human_number, human_size
from pollscope.collectors.interface import Collector
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.models.hyperplane import chip, statements
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_meta, read_run
from pollscope.testbeds import Testbed

DOCS = Path(__file__).resolve().parent
RUNS = DOCS.parent / "data" / "runs" / "whole"
_BETTER = {"lower": " ↓", "higher": " ↑", "neither": ""}
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
VERDICTS = re.compile(r"(<!-- verdicts -->\n)(.*?)(<!-- end of verdicts -->)", re.DOTALL)
ROW = re.compile(r"[SCHIP]-[\w.-]+|h-[\w-]+")
_MACHINE = re.compile(r"^\| \*([\w-]+)\* \| [^|]* \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)
_HOLE = re.compile(r"\{([^{}]+)\}")
_RATIO = re.compile(r"[\d.]+ \([\d.]+ to [\d.]+\)")
_UNIT_AGAIN = re.compile(r" (\S+) \((\S+) \1 to (\S+) \1\)")
# The source of a claim that is about another quantity than the paper's: "figure 9 (there the average)".
_OTHER_QUANTITY = re.compile(r"\bthere\b")
# Words around the name of a missing thing: "more CPUs", "pair, Intel".
_NOT_THE_THING = re.compile(r"^(a|more|\d+ to \d+|\d+) |( or| with|[,;]) .*")
# Verdicts without a machine's name are those of this one.
_USUAL = "VM-R"
_FIRM = {VerdictKind.AGREES, VerdictKind.DISAGREES}


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


@cache
def recorded() -> dict[str, list[Path]]:
    """Return the recorded runs of each row, and of each spec by its name."""
    found: dict[str, list[Path]] = {}
    for path in sorted(RUNS.glob("*")):
        meta = read_meta(path)
        names = [*(meta.get("rows") or [meta["row"]]), meta["spec_name"]]
        for name in dict.fromkeys(str(name) for name in names if name is not None):
            found.setdefault(name, []).append(path)
    return found


@cache
def _run(path: Path) -> RunFolder:
    return read_run(path)


@cache
def _verdicts(path: Path) -> list[Verdict]:
    return evaluate_run(_run(path))


def machine_of(meta: Mapping[str, Any]) -> str:
    """Return the machine of a run: the modelled one's name, or what docs/reproduce.md calls one with these caches.

    Raises:
        UsageError: that page names no machine with these caches.
    """
    host = HostMetadata(meta)
    if host.modelled:
        return host.testbed_name
    caches = host.get("caches") or {}
    sizes = tuple(human_size(caches.get(name, 0)) for name in ("L2", "L3"))
    page = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    for name, *found in _MACHINE.findall(page):
        if tuple(found) == sizes:
            return str(name)
    raise UsageError(
        f"no machine has an L2 of {sizes[0]} and an LLC of {sizes[1]}",
        "docs/reproduce.md: The machines of the verdicts",
        f"add that of {meta['run_id']}",
    )


def verdicts_of(row: str) -> dict[str, list[Verdict]]:
    """Return the verdicts of the recorded runs on a row or spec, by machine."""
    found: dict[str, list[Verdict]] = {}
    for path in recorded().get(row, ()):
        meta = _run(path).meta
        own = [each for each in _verdicts(path) if each.claim.row in (row, meta["spec_name"])]
        found.setdefault(machine_of(meta), []).extend(own)
    return found


@cache
def _on_chip(row: str) -> list[VerdictKind]:
    """Return the verdicts of the modelled chip on a row that HyperPlane simulated."""
    if row not in load_paper("hyperplane").simulated:
        return []
    machine = chip()
    return [VerdictKind(each.verdict(each.of(machine))) for each in statements() if each.row == row]


def done(row: str, needs: str) -> str:
    """Return `done`, or the one thing that a row lacks.

    A row is done if it has a figure, and a recorded run has a firm verdict on the quantity of the paper, measured, or
    modelled where the paper simulated. `needs` names what the row needs, for rows without a recorded run.
    """
    if row in rows_without_figure():
        return "done"  # the gallery has a table
    if row in figure_rows() and isinstance(figure_of(row), TableFigure):
        return "done"
    simulated = any(row in load_paper(paper).simulated for paper in papers())
    own = [
        each
        for verdicts in verdicts_of(row).values()
        for each in verdicts
        if not _OTHER_QUANTITY.search(each.claim.source) and (simulated or not each.modelled)
    ]
    kinds = [*(each.kind for each in own), *_on_chip(row)]
    if _FIRM & {*kinds}:
        return "done" if row in figure_rows() or row not in rows() else "figure"
    if row not in recorded():
        return "recorded run" if needs.startswith("2 CPUs") else _NOT_THE_THING.sub("", needs)
    if 2 * sum(each.kind is VerdictKind.INCONCLUSIVE for each in own) > len(own):
        return "firm verdict"
    return next((_NOT_THE_THING.sub("", what) for what, _ in lacking(own)), "claims")


def counts(row: str) -> str:
    """Return how many claims of a row have which verdict, by machine."""
    if row in rows_without_figure():
        return table_of(row)[0].text
    if row in figure_rows() and isinstance(figure_of(row), TableFigure):
        return STATED
    kinds = {machine: [each.kind for each in verdicts] for machine, verdicts in verdicts_of(row).items()}
    kinds |= {"chip": _on_chip(row)} if _on_chip(row) else {}
    return "; ".join(
        _in_words(found) if machine == _USUAL else f"{machine}: {_in_words(found)}" for machine, found in kinds.items()
    )


def _in_words(kinds: list[VerdictKind]) -> str:
    words = ", ".join(text for _, text in tally_of(kinds)) or "no claims"
    words = words.replace(" not measurable", " n/m").replace(" consistent by", " by")
    return "n/m" if {*kinds} == {VerdictKind.NOT_MEASURABLE} else words


def with_verdicts(line: str, head: str) -> str:
    """Return a line of a table with its last two cells generated; the first names its rows."""
    cells, columns = ([cell.strip() for cell in each.strip()[1:-1].split("|")] for each in (line, head))
    names = ROW.findall(cells[0])
    if not names:
        return line
    needs = cells[columns.index("needs")]
    made = (dict.fromkeys(map(counts, names)), dict.fromkeys(done(name, needs) for name in names))
    whole = [*cells[:-2], *(", ".join(each) for each in reversed(made))]
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in whole)}|"


def _with_verdicts(body: str) -> str:
    lines = body.splitlines()
    return "".join(f"{with_verdicts(line, lines[0])}\n" for line in lines)


def filled(words: str) -> str:
    """Return words with numbers of recorded runs for what stands in braces: of several, the lowest and the highest.

    `{CLAIM}` are the numbers of its verdict, `{ROW METRIC FACTOR=LEVEL ...}` the estimates of a metric at these points.
    """
    return _HOLE.sub(lambda found: _value(found[1]), words)


def _value(what: str) -> str:
    row, *rest = what.split()
    if rest:
        metric, *levels = rest
        wanted = dict(level.split("=") for level in levels)
        found = [(each.estimate.value, _text(metric, each)) for each in points(row, metric, wanted)]
    else:
        found = [(each.value, _short(each)) for each in _numbers(row)]
    ends = [_UNIT_AGAIN.sub(r" \1 (\2 to \3)", text) for _, text in (min(found), max(found))]
    return " to ".join(dict.fromkeys(ends))


def points(row: str, metric: str, levels: Mapping[str, object]) -> list[PointValues]:
    """Return the values of a metric in the first recorded run of a row, at the points with these levels."""
    table = current_table(_run(recorded()[row][0]))
    return [
        each
        for each in by_point(measured(table), metric)
        if all(str(each.levels.get(name)) == str(level) for name, level in levels.items())
    ]


def _text(metric: str, sample: PointValues) -> str:
    text, found = metric_dictionary()[metric].text, sample.estimate
    return f"{text(found.value)} ({text(found.low)} to {text(found.high)})" if found.has_interval else text(found.value)


def _numbers(claim: str) -> list[Number]:
    row = claim.rpartition(".")[0]
    every = (each for found in verdicts_of(row).values() for each in found)
    numbers = next((each.finding.numbers for each in every if each.claim.id == claim), [])
    if not numbers:
        raise UsageError("no recorded run has numbers for it", claim, "change docs/recorded-runs.yaml")
    # An average comes with the numbers of all its pairs.
    return numbers[:1] if numbers[0].label.startswith("arithmetic mean") else numbers


def _short(number: Number) -> str:
    """Return a number as its verdict does, a ratio with three digits."""
    if number.low is None or number.high is None or not _RATIO.fullmatch(number.text):
        return number.text.partition(", ")[0]
    value, low, high = (human_number(each) for each in (number.value, number.low, number.high))
    return f"{value} ({low} to {high})"


def rows_of_tables() -> set[str]:
    """Return the rows of the tables of verdicts in docs/reproduce.md."""
    page = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    firsts = [re.findall(r"^\| ([^|]*) \|", body, re.MULTILINE) for _, body, _ in VERDICTS.findall(page)]
    return {row for cells in firsts for cell in cells for row in ROW.findall(cell)}


def recorded_runs() -> Iterator[str]:
    """List what decides the verdicts of recorded runs; the verdicts on rows without another table come first."""
    words: dict[str, str] = YAML(typ="safe").load(DOCS / "recorded-runs.yaml")
    elsewhere = rows_of_tables()
    named = {row for rows_of_line in words for row in rows_of_line.split(", ")}
    known = [str(meta["row"] or meta["spec_name"]) for meta in map(read_meta, sorted(RUNS.glob("*")))]
    unnamed = [name for name in dict.fromkeys(known) if name not in named | elsewhere]
    lines = []
    for line in [*words, *unnamed]:
        own = [counts(row) for row in line.split(", ") if row not in elsewhere]
        lines.append((line, "; ".join([*own, filled(words.get(line, ""))]).strip("; ")))
    return table(("row", "what decides"), lines)


TABLES = {
    "collectors": collectors,
    "quantities": quantities,
    "knobs": knobs,
    "metrics": metrics,
    "papers": paper_rows,
    "recorded-runs": recorded_runs,
    "stages": stages,
    "testbeds": testbeds,
    "workloads": workloads,
}


def with_tables(page: str) -> str:
    """Return the page with its tables generated again."""
    page = PLACE.sub(lambda found: found[1] + "\n".join([*TABLES[found[2]](), found[3]]), page)
    return VERDICTS.sub(lambda found: found[1] + _with_verdicts(found[2]) + found[3], page)


def main() -> None:
    """Write the pages whose tables have changed, and print their paths."""
    for path in sorted(DOCS.glob("*.md")):
        if sys.argv[1:] and path.name not in sys.argv[1:]:
            continue
        page = path.read_text(encoding="utf-8")
        if with_tables(page) != page:
            path.write_text(with_tables(page), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
