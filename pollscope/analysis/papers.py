# SPDX-License-Identifier: BSD-3-Clause
"""Compare the testbed and the experiments of a paper (data/papers) with those of a run."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator
from ruamel.yaml import YAML

from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.point_values import level_rank
from pollscope.base.names import papers
from pollscope.base.paths import data_folder
from pollscope.base.units import human_number
from pollscope.store.run_folder import RunFolder

VIRTUAL_NIC = (
    "net_crossover, a virtual NIC: the generator's core writes descriptors and frames in place of a DMA engine; "
    "no PCIe, no DDIO, no line rate"
)


EVERY_ROW = "every row"
# Parameters that only the router uses.
_OF_THE_ROUTER = ("routes", "lookups", "checksum")


# Row -> parameters as the paper states them; None if it does not.
_Setup = dict[str, dict[str, float | int | str | list[float | int | str] | None]]


@cache
def _setup_words() -> dict[str, tuple[str, str]]:
    words: dict[str, tuple[str, str]] = YAML(typ="safe").load(data_folder("data") / "setup-words.yaml")
    return words


class PaperTestbed(BaseModel):
    """The machine under test of a paper, in words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine: str
    processor: str
    caches: str
    nic: str
    generator: str
    software: str
    threads: str


class NoFigure(BaseModel):
    """A row that is no figure and no table: its title, what shows it, and its steps with the tests that hold them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    shown_by: str
    columns: list[str] = []
    steps: list[list[str]] = []


class Paper(BaseModel):
    """One paper: its citation, its testbed, and the values that it states."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    short: str
    title: str
    authors: str
    venue: str
    testbed: PaperTestbed
    setup: _Setup
    stated: dict[str, dict[str, Any]]
    simulated: list[str] = []  # rows whose results the paper simulated
    without_figure: dict[str, NoFigure] = {}

    @field_validator("setup")
    @classmethod
    def _in_words(cls, setup: _Setup) -> _Setup:
        unknown = {name for row in setup.values() for name in row} - set(_setup_words())
        if unknown:
            raise ValueError(f"nothing is said of '{min(unknown)}' beside a verdict")
        return setup


@cache
def load_paper(name: str) -> Paper:
    """Return the paper that ships under this name in data/papers."""
    text = (data_folder("data") / "papers" / f"{name}.yaml").read_text(encoding="utf-8")
    return Paper.model_validate(YAML(typ="safe").load(text))


@cache
def rows_without_figure() -> dict[str, NoFigure]:
    """Return the rows of all papers that are neither figures nor tables."""
    return {row: each for paper in papers() for row, each in load_paper(paper).without_figure.items()}


def differences(name: str | None, row: str, run: RunFolder) -> list[str]:
    """Return what differs between a paper's experiment and a run, one line each; nothing without a paper."""
    if name is None:
        return []
    paper, host = load_paper(name).testbed, HostMetadata(run.meta)
    here = {
        "machine": (paper.machine, host.machine),
        "processor": (paper.processor, host.processor),
        "caches": (paper.caches, host.caches),
        "NIC": (paper.nic, VIRTUAL_NIC if host.virtual_nic else host.nic),
        "generator": (paper.generator, host.generator),
        "software": (paper.software, host.software),
    }
    testbed = [f"{what}: {there} in the paper, {found} here" for what, (there, found) in here.items() if found != there]
    return [*testbed, *_deviations(load_paper(name), row, run)]


def _deviations(paper: Paper, row: str, run: RunFolder) -> Iterator[str]:
    """Yield where the spec deviates from the paper, or where the paper does not say what it did."""
    if row not in paper.setup:
        return
    setup = {**paper.setup.get(EVERY_ROW, {}), **paper.setup.get(row, {})}
    here = _parameters(run)
    for name, (words, unit) in _setup_words().items():
        found, there = here[name], setup.get(name)
        if name in setup and found and found != set(there if isinstance(there, list) else [there]):
            yield f"{words}: {_said(there, unit)} in the paper, {_said(sorted(found, key=level_rank), unit)} here"


def _parameters(run: RunFolder) -> dict[str, set[Any]]:
    """Return the values that each parameter of data/setup-words.yaml had in the measured trials of a run."""
    if "setup" not in run.derived:
        trials = [trial["params"] for trial in run.trials if trial.get("kind") == "measure" and "params" in trial]
        run.derived["setup"] = {
            name: {params[name] for params in trials if params.get(name) is not None and _is_read(name, params)}
            for name in _setup_words()
        }
    return dict(run.derived["setup"])


def _is_read(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether trials with these parameters use one of them: TCP and traces have frames of their own."""
    if name in _OF_THE_ROUTER:
        return params.get("workload") == "l3fwd-lpm"
    return name != "frame" or (params.get("flow_size") is None and params.get("trace") is None)


def _said(value: object, unit: str) -> str:
    if value is None:
        return "not stated"
    values = value if isinstance(value, list) else [value]
    words = [human_number(each, 6) if isinstance(each, int | float) else str(each) for each in values]
    several = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    return several + unit if isinstance(values[-1], int | float) else several


def citation(name: str) -> str:
    """Return authors, title and venue."""
    paper = load_paper(name)
    return f"{paper.authors}: {paper.title}. {paper.venue}."


def stated(name: str, row: str) -> Mapping[str, Any]:
    """Return the values that the paper states for a row."""
    return load_paper(name).stated.get(row, {})
