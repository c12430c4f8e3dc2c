# SPDX-License-Identifier: BSD-3-Clause
"""Arguments and messages that several commands share."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pollscope.base.errors import UsageError
from pollscope.base.names import COLLECTORS, KNOBS, papers

if TYPE_CHECKING:
    from pollscope.spec import LoadedSpec
    from pollscope.store.run_folder import RunFolder


def _known_runs() -> list[str]:
    from pollscope.store.find import LATEST, RESULTS

    return [LATEST, *sorted(path.name for path in RESULTS.glob("*") if path.is_dir())]


def _known_specs() -> list[str]:
    from pollscope.spec import known_specs

    return list(known_specs())


def _metrics() -> list[str]:
    from pollscope.metrics.dictionary import metric_dictionary

    return list(metric_dictionary().metrics)


CollectorNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Collectors; without any, all are listed.", metavar="[NAME]...", autocompletion=lambda: list(COLLECTORS)
    ),
]
KnobName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=lambda: list(KNOBS))]
MetricNames = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="Only these metrics; repeatable.", autocompletion=_metrics),
]
_SPECS: Any = typer.Argument(
    metavar="SPEC...", help="Files, folders, names or paper rows.", autocompletion=_known_specs
)
SpecWords = Annotated[list[str], _SPECS]
OptionalSpecs = Annotated[list[str] | None, _SPECS]
_RUN_HELP = "Run folders, folders of them (the newest of each spec), ids, specs or rows run here, `latest`, `latest~1`."
RunWords = Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help=_RUN_HELP, autocompletion=_known_runs)]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the spec; dotted key, value in YAML."),
]
TestbedName = Annotated[str | None, typer.Option("--testbed", metavar="T", help="Where to run; default: loopback.")]


StatName = Annotated[
    Literal["mean", "median"],
    typer.Option("--stat", help="Statistic of the numbers shown: median, with a dot per trial in figures."),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="'METRIC < NUMBER %'",
        help="End with 1 where the change from the first to the second is below (<) or above (>) the bound, by its "
        "whole interval, and with 4 where no such change could have been seen; repeatable.",
    ),
]
WithoutFlagged = Annotated[bool, typer.Option("--without-flagged", help="Leave flagged trials out of the numbers.")]


def _known_paper(name: str | None) -> str | None:
    if name is None or name.lower() in papers():
        return name and name.lower()
    raise UsageError(f"there is no paper {name!r}", remedy=f"one of: {', '.join(papers())}")


PaperName = Annotated[
    str | None,
    typer.Option(
        "--paper",
        metavar="|".join(papers()),
        callback=_known_paper,
        autocompletion=lambda: list(papers()),
        help="Only for this paper.",
    ),
]
QuickFlag = Annotated[
    bool, typer.Option("--quick", help="Fewer levels and shorter windows; what is left out is printed.")
]
ModelFlag = Annotated[
    bool, typer.Option("--model/--no-model", help="Let the testbed `model` compute rows that no run shows.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


def echo(lines: Iterable[object]) -> None:
    """Print lines on standard output."""
    for line in lines:
        typer.echo(line)


def echo_json(value: object) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def split_words(words: Iterable[str] | None) -> tuple[str, ...]:
    """Return the parts of words between commas."""
    return tuple(part.strip() for word in words or () for part in word.split(",") if part.strip())


def say(text: str) -> None:
    """Print a line on standard error, beside the output."""
    typer.echo(text, err=True)


def runs_of(words: Iterable[str] | str) -> "list[RunFolder]":
    """Return the named runs; print on standard error the folder for each name that is not a path.

    Raises:
        UsageError: a name matches no run.
    """
    from pollscope.store.find import find_runs, is_modelled
    from pollscope.store.run_folder import read_run

    places = dict[Path, None]()
    for word in [words] if isinstance(words, str) else words:
        found = find_runs(word)
        places |= dict.fromkeys(found)
        if not Path(word).exists():
            for path in found:
                modelled = " (modelled: no measured run of it is here)" if is_modelled(path) else ""
                say(f"{word}: {path}{modelled}")
    return [read_run(path) for path in places]


def say_unfinished(runs: "Iterable[RunFolder]") -> None:
    """Warn on standard error of runs that have not ended, so that partial results are not taken for complete ones."""
    from pollscope.analysis.quality import unfinished

    for run in runs:
        for sentence in unfinished(run):
            say(f"warning: {run.path}: {sentence}")


def say_of(loaded: "LoadedSpec") -> None:
    """Warn on standard error of probable mistakes in a spec, and say what `--quick` leaves out."""
    from pollscope.spec.advice import advice

    for sentence in advice(loaded.spec):
        say(f"warning: {loaded.name}: {sentence}")
    if loaded.left_out:
        say(f"quick: {loaded.spec.name} has {'; '.join(loaded.left_out)}")


def specs_of(words: list[str]) -> list[Path]:
    """Return the spec files that the command line names, without duplicates.

    Raises:
        UsageError: a name that matches no spec.
    """
    from pollscope.spec import find_specs

    return list(dict.fromkeys(path for word in words for path in find_specs(word)))
