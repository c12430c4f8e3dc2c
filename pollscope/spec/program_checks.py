# SPDX-License-Identifier: BSD-3-Clause
"""Check the `dut` of a spec: its programs, their arguments, and the parameters that go with a program."""

from collections.abc import Iterator

from pollscope.base.document import Path
from pollscope.base.names import did_you_mean
from pollscope.spec.arguments import EAL, placeholders
from pollscope.spec.model import LOADS, Parameters, Spec

# Parameters that the generator, the testbed or the virtual NIC reads. A program has to name the others itself.
_USED = frozenset(
    {
        *LOADS,
        *("program", "cores", "placement", "queues", "routes"),
        *("frame", "flows", "trace", "shape", "shape_seed", "arrivals", "arrivals_seed", "burst_packets"),
        *("on_time", "off_time", "generator_burst", "generator_receives"),
    }
)
# Numbers, after which a text can be repeated.
_COUNTS = frozenset(name for name, info in Parameters.model_fields.items() if info.annotation is int)
_NAMED = [name for name in Parameters.model_fields if name not in {*LOADS, "program", "flow_size"}]
# Shapes whose queues are kept backlogged by the polls of pollscope's own node.
_SHAPES = {"FB", "SQ"}

Found = Iterator[tuple[Path, str]]


def program_problems(spec: Spec) -> Found:
    """Yield what is wrong: the path of keys and a text."""
    names = spec.levels.get("program", (spec.parameters.program,))
    if not spec.dut:
        if names != (None,):
            yield _place(spec, "program"), "is for a spec with programs under `dut`; this one has none"
        return
    for name, arguments in spec.dut.items():
        yield from _arguments(("dut", name), arguments)
    for name in names:
        if name is None and len(spec.dut) > 1:
            yield ("dut",), f"has {len(spec.dut)} programs: name one in parameters.program, or sweep factors.program"
        elif name is not None and name not in spec.dut:
            yield _place(spec, "program"), f"'{name}' is not under dut{did_you_mean(str(name), list(spec.dut))}"
    if others := [kind for kind in spec.testbeds if kind != "loopback"]:
        yield ("testbeds",), f"a program under dut runs on loopback only, not on {others[0]}"
    yield from _parameters(spec)


def _arguments(path: Path, arguments: tuple[str, ...]) -> Found:
    if arguments[1:].count(EAL) != 1:
        yield path, f"needs {EAL} once, as an argument behind the program: pollscope puts EAL's options there"
    for argument in arguments:
        for name, repeats in placeholders(argument):
            if name not in _NAMED:
                yield path, f"'{argument}': '{name}' is not a parameter{did_you_mean(name, _NAMED)}"
            elif repeats and name not in _COUNTS:
                yield path, f"'{argument}': a text is repeated for a number such as queues, not for {name}"


def _parameters(spec: Spec) -> Found:
    named = {name for each in spec.dut.values() for argument in each for name, _ in placeholders(argument)}
    for name in [*spec.parameters.model_fields_set, *spec.levels]:
        if name in Parameters.model_fields and name not in _USED | named:
            what = f"no program under dut uses it: put {{{name}}} into its arguments, or remove it"
            yield _place(spec, name), what
    for shape in spec.levels.get("shape", (spec.parameters.shape,)):
        if shape not in _SHAPES:
            yield _place(spec, "shape"), f"{shape} needs the polls of pollscope's own node; with a program use FB or SQ"


def _place(spec: Spec, parameter: str) -> Path:
    if parameter in spec.levels:
        return ("factors", parameter)
    return ("parameters", parameter) if parameter in spec.parameters.model_fields_set else ("parameters",)
