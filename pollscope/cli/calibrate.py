# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope calibrate`."""

from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML

from pollscope.analysis.calibration import calibrate as costs_of
from pollscope.base.errors import UsageError
from pollscope.base.replacing import written
from pollscope.base.units import human_number
from pollscope.store.find import find_run
from pollscope.store.run_folder import read_run

HEAD = """\
# SPDX-License-Identifier: BSD-3-Clause
# A modelled machine (docs/models.md), made by `pollscope calibrate`. Each cost says where it comes from.
# Removing a parameter from holds_for assumes that it makes no difference.
"""


def calibrate(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Measured run folders, names of specs, or `latest`.")
    ],
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="FACTOR=LEVEL[,LEVEL]", help="Only trials at these levels; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The testbed file to write.")] = Path("model.yaml"),
) -> None:
    """Derive the costs of polls, busy polls and packets from measured runs, for the testbed `model`.

    A cost that the runs do not show is left out of the file. The model then leaves out points that need it.
    """
    if out.exists():
        raise UsageError("the file exists", str(out), "give another --out, or remove it")
    document = costs_of([read_run(find_run(word)) for word in runs], _levels(at or []))
    writer = YAML()
    writer.default_flow_style = None
    writer.width = 160
    with written(out) as new, new.open("w", encoding="utf-8") as file:
        file.write(HEAD)
        writer.dump(document, file)
    for workload, costs in document["workloads"].items():
        for name, cost in costs.items():
            known = cost.get("by_queues") or {"any": cost["value"]}
            intervals = cost.get("intervals") or {"any": cost.get("interval")}
            values = ", ".join(_shown(queues, value, intervals.get(queues)) for queues, value in known.items())
            typer.echo(f"{workload}: {name}: {values}, {cost['origin']}")
    typer.echo(str(out))
    typer.echo(f"next: pollscope run SPEC --testbed {out}")


def _shown(queues: int | str, value: float, interval: list[float] | None) -> str:
    ends = f" [{human_number(interval[0], 4)} to {human_number(interval[1], 4)}]" if interval else ""
    return f"{human_number(value, 4)}{ends} ({queues} queues)"


def _levels(words: list[str]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for word in words:
        factor, equals, levels = word.partition("=")
        if not factor or not equals or not levels:
            raise UsageError(f"is {word!r}", "--at", "write FACTOR=LEVEL, or FACTOR=LEVEL,LEVEL")
        found[factor] = found.get(factor, frozenset()) | frozenset(levels.split(","))
    return found
