# SPDX-License-Identifier: BSD-3-Clause
"""Several pairs that share the trials of one spec: each trial runs on one of them, and each has one trial at a time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pollscope.knobs import Knobs, RestoreResult
from pollscope.plan.plan import Trial
from pollscope.spec.points import Point
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.base import HostFinding, Testbed, TestbedConfig, TestbedState
from pollscope.testbeds.pair.config import PairConfig, PairHost, require_each_agent_once
from pollscope.testbeds.pair.testbed import PairTestbed

_PairName = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class NamedPair(TestbedConfig):
    """One of the pairs: the keys of a pair's file, without its kind."""

    dut: PairHost
    generator: PairHost


class PairsConfig(TestbedConfig):
    """The file of several pairs."""

    kind: Literal["pairs"]
    pairs: dict[_PairName, NamedPair] = Field(min_length=2, description="name -> pair")
    inventory: str | None = Field(default=None, description="see PairConfig; a pair has the same name there")

    @model_validator(mode="after")
    def _hosts_differ(self) -> Self:
        duts = {f"{name}.dut": pair.dut for name, pair in self.pairs.items()}
        require_each_agent_once(duts | {f"{name}.generator": pair.generator for name, pair in self.pairs.items()})
        return self


class PairsTestbed(Testbed):
    """Several pairs; each trial names the pair that measures it."""

    # A spec's rule for pairs applies to each of them.
    kind = "pair"
    summary = "several pairs that share the trials of a spec, which names them as pair"
    config_model = PairsConfig

    def __init__(self, file: Path, config: PairsConfig) -> None:
        super().__init__(file, config)
        self._pairs = tuple(_part(file, name, pair, config.inventory) for name, pair in config.pairs.items())

    @property
    def parts(self) -> Sequence[PairTestbed]:
        return self._pairs

    def named_by(self, kinds: Collection[str]) -> bool:
        return not {"pair", "pairs"}.isdisjoint(kinds)

    def describe(self) -> dict[str, Any]:
        """Return the description for run.json, with each pair under its name."""
        pairs = {part.name: part.describe() for part in self.parts}
        found = {**super().describe(), "pairs": pairs}
        return {**found, "emulated": True} if any("emulated" in pair for pair in pairs.values()) else found

    def knobs(self, what: str, restore_first: bool) -> "PairsKnobs":
        return PairsKnobs({part.name: part.knobs(what, restore_first) for part in self.parts})

    def machine(self) -> dict[str, Any]:
        """Return the machines of the first pair, and those of each under its name."""
        found = {part.name: part.machine() for part in self.parts}
        return {**next(iter(found.values())), "pairs": found}

    def refusal(self, point: Point) -> str | None:
        reasons = [(part.name, part.refusal(point)) for part in self.parts]
        return None if None in [reason for _, reason in reasons] else "; ".join(f"{n}: {r}" for n, r in reasons)

    def check(self) -> None:
        for part in self.parts:
            part.check()

    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        return next(part for part in self.parts if part.name == trial.pair).measure(trial, attempt)

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def build(self, say: Callable[[str], None]) -> list[str]:
        return [f"{part.name} {line}" for part in self.parts for line in part.build(say)]

    def findings(self) -> list[HostFinding]:
        return [replace(each, host=f"{part.name} {each.host}") for part in self.parts for each in part.findings()]

    def status(self) -> TestbedState:
        states = [(part.name, part.status()) for part in self.parts]
        metadata = [f"{name}: {fact}" for name, state in states for fact in state.metadata]
        return TestbedState(all(state.ready for _, state in states), metadata)


def _part(file: Path, name: str, pair: NamedPair, inventory: str | None) -> PairTestbed:
    config = PairConfig(kind="pair", dut=pair.dut, generator=pair.generator, inventory=inventory)
    return PairTestbed(file, config, name=name)


class PairsKnobs(Knobs):
    """The knobs of several pairs, by the pair's name."""

    def __init__(self, parts: Mapping[str, Knobs]) -> None:
        self.parts = dict(parts)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as taken:
            for part in self.parts.values():
                taken.enter_context(part)
            self._held = taken.pop_all()
        self.restored_first = [result for part in self.parts.values() for result in part.restored_first]
        return self

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(*error)

    def apply(self, settings: Mapping[str, object]) -> list[object]:
        return [change for part in self.parts.values() for change in part.apply(settings)]

    def restore(self) -> list[RestoreResult]:
        return [result for part in self.parts.values() for result in part.restore()]

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Return knob -> PAIR/TARGET -> value."""
        found: dict[str, dict[str, str]] = {}
        for name, part in self.parts.items():
            for knob, values in part.snapshot().items():
                found.setdefault(knob, {}).update({f"{name}/{target}": value for target, value in values.items()})
        return found
