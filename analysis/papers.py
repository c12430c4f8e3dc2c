# SPDX-License-Identifier: BSD-3-Clause
"""What a paper says about its testbed (data/papers), set beside what a run says about its own."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from pollscope.analysis.host_facts import HostFacts
from pollscope.places import data_folder
from pollscope.run_folder import RunFolder

VIRTUAL_NIC = (
    "net_crossover, a virtual NIC: the generator's core writes descriptors and frames in place of a DMA engine; "
    "no PCIe, no DDIO, no line rate"
)


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


class Paper(BaseModel):
    """One paper: how it is cited, its testbed, and the values that its text states."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    short: str
    title: str
    authors: str
    venue: str
    testbed: PaperTestbed
    stated: dict[str, dict[str, Any]]


@cache
def load_paper(name: str) -> Paper:
    """The paper that ships under this name in data/papers."""
    text = (data_folder("data") / "papers" / f"{name}.yaml").read_text(encoding="utf-8")
    return Paper.model_validate(YAML(typ="safe").load(text))


def differences(name: str | None, run: RunFolder) -> list[str]:
    """What differs between the paper's testbed and the run's, one line each; empty without a paper."""
    if name is None:
        return []
    paper, facts = load_paper(name).testbed, HostFacts(run.meta)
    here = {
        "machine": (paper.machine, facts.machine),
        "processor": (paper.processor, facts.processor),
        "caches": (paper.caches, facts.caches),
        "NIC": (paper.nic, VIRTUAL_NIC if facts.virtual_nic else facts.nic),
        "generator": (paper.generator, facts.generator),
        "software": (paper.software, facts.software),
    }
    return [f"{what}: {there} in the paper, {found} here" for what, (there, found) in here.items() if found != there]


def citation(name: str) -> str:
    """Authors, title and venue."""
    paper = load_paper(name)
    return f"{paper.authors}: {paper.title}. {paper.venue}."


def stated(name: str, row: str) -> Mapping[str, Any]:
    """Values that the paper's text states for a row."""
    return load_paper(name).stated.get(row, {})
