# SPDX-License-Identifier: BSD-3-Clause
"""Check the keys of a spec against each other."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from itertools import combinations, product
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pollscope.base.document import Path
from pollscope.base.errors import UsageError
from pollscope.base.knob_values import KNOB_PREFIX, parse_setting
from pollscope.base.names import COLLECTORS, NOT_ALL_ANSWERED, QUANTITIES, did_you_mean, load
from pollscope.base.units import DIMENSIONS, human_number
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec import expressions
from pollscope.spec.arguments import EAL, placeholders
from pollscope.spec.model import LOADS, ROW_PATTERN, Factors, Maximum, Parameters, Spec, knob_levels
from pollscope.spec.point_checks import contradictions
from pollscope.spec.points import number_of_points
from pollscope.spec.predicates import LOAD, NAME_PATTERN, OwnClaim

Found = Iterator[tuple[Path, str]]

# Beyond, a plan alone takes more than 4 GB and minutes (docs/reference-spec.md, many points).
_MOST_TRIALS = 1_000_000


def cross_checks(spec: Spec) -> list[tuple[Path, str]]:
    """Return all contradictions in a spec whose single keys are valid: path of keys, and what is wrong."""
    # The other checks read the levels of knobs, which only good ones have.
    found = list(_knob_values(spec)) or [problem for check in _CHECKS for problem in check(spec)]
    # Points can only be made of a spec whose factors, zips and constraints are good.
    found = found or list(_size(spec))
    return found or [(_place(spec, name), what) for name, what in contradictions(spec)]


def _size(spec: Spec) -> Found:
    points, repeats = number_of_points(spec), spec.repeats.at_least
    if points * repeats > _MOST_TRIALS:
        yield (
            ("factors",),
            f"{points:,} points, each {repeats} times, are too many for one run (at most {_MOST_TRIALS:,} trials); "
            "give fewer levels, or one run for each part of them (docs/reference-spec.md, many points)",
        )


def _place(spec: Spec, parameter: str) -> Path:
    """Return the path of a parameter, or of the section parameters if it has its default."""
    if parameter in spec.levels:
        return ("factors", parameter)
    return ("parameters", parameter) if parameter in spec.parameters.model_fields_set else ("parameters",)


def _values(spec: Spec, parameter: str) -> tuple[Any, ...]:
    return spec.levels.get(parameter, (getattr(spec.parameters, parameter),))


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


def _programs(spec: Spec) -> Found:
    names, others = _values(spec, "program"), [kind for kind in spec.testbeds if kind != "loopback"]
    if others and _values(spec, "node") != (None,):
        yield _place(spec, "node"), f"another build runs on loopback only, not on {others[0]}"
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
    if others:
        yield ("testbeds",), f"a program under dut runs on loopback only, not on {others[0]}"
    yield from _unused(spec)


def _arguments(path: Path, arguments: tuple[str, ...]) -> Found:
    if arguments[1:].count(EAL) != 1:
        yield path, f"needs {EAL} once, as an argument behind the program: pollscope puts EAL's options there"
    for argument in arguments:
        for name, repeats in placeholders(argument):
            if name not in _NAMED:
                yield path, f"'{argument}': '{name}' is not a parameter{did_you_mean(name, _NAMED)}"
            elif repeats and name not in _COUNTS:
                yield path, f"'{argument}': a text is repeated for a number such as queues, not for {name}"


def _unused(spec: Spec) -> Found:
    named = {name for each in spec.dut.values() for argument in each for name, _ in placeholders(argument)}
    for name in [*spec.parameters.model_fields_set, *spec.levels]:
        if name in Parameters.model_fields and name not in _USED | named:
            what = f"no program under dut uses it: put {{{name}}} into its arguments, or remove it"
            yield _place(spec, name), what
    for shape in _values(spec, "shape"):
        if shape not in _SHAPES:
            yield _place(spec, "shape"), f"{shape} needs the polls of pollscope's own node; with a program use FB or SQ"


def _fixed_and_swept(spec: Spec) -> Found:
    for name in spec.levels:
        where = "knobs" if name.startswith(KNOB_PREFIX) else "parameters"
        fixed = spec.knobs if where == "knobs" else spec.parameters.model_fields_set
        if name.removeprefix(KNOB_PREFIX) in fixed:
            yield ("factors", name), f"'{name}' is also fixed under {where}; a name is either swept or fixed"


def _repeated_levels(spec: Spec) -> Found:
    for name, levels in spec.levels.items():
        twice = sorted({str(level) for level in levels if levels.count(level) > 1})
        if twice and not any(name in group for group in spec.zip):
            yield ("factors", name), f"the level {twice[0]} is listed twice"


def _loads(spec: Spec) -> Found:
    fixed = [name for name in LOADS if getattr(spec.parameters, name) is not None]
    swept = [name for name in LOADS if name in spec.levels]
    if not fixed and not swept:
        allowed = ", ".join(LOADS)
        yield (), f"no offered load: exactly one of {allowed} is a parameter or a factor (load_pps: 0 is no load)"
    for name in (fixed + swept)[1:]:
        path: Path = ("factors" if name in swept else "parameters", name)
        yield path, f"'{name}' and '{(fixed + swept)[0]}' both set the offered load; give one of them"


def _feed(spec: Spec) -> Found:
    without_generator = [feed for feed in ("infinite", "none") if feed in _values(spec, "feed")]
    if without_generator and not spec.parameters.saturate:
        offers = {"infinite": "as much as the DUT takes", "none": "no packet"}[without_generator[0]]
        what = f"feed: {without_generator[0]} offers {offers}, so it needs `saturate: true` in parameters"
        yield _place(spec, "feed"), what


# Keys of `maximum` that both methods read.
_OF_BOTH_METHODS = {"method", "repeats", "window_ns", "common_to"}


def _maximum(spec: Spec) -> Found:
    maximum = spec.maximum
    for name in maximum.common_to:
        if name not in spec.levels or name in LOADS:
            what = (
                "takes factors of the spec other than the load"
                if name in LOADS
                else f"'{name}' is not a factor of the spec"
            )
            yield ("maximum", "common_to"), what
    if maximum.method != "mlrsearch":
        for name in maximum.model_fields_set - _OF_BOTH_METHODS:
            yield ("maximum", Maximum.model_fields[name].alias or name), "is used by `method: mlrsearch` only"
        return
    if spec.parameters.load_of_max is None and "load_of_max" not in spec.levels:
        what = "finds what load_of_max refers to; give `load_of_max: 100 %` to measure at the rate that it finds"
        yield ("maximum", "method"), f"mlrsearch {what}"
    if len(set(maximum.loss_ratios)) < len(maximum.loss_ratios):
        yield ("maximum", "loss_ratios"), "a loss ratio is listed twice"
    window_ns = maximum.window_ns or spec.trial.window_ns
    if maximum.duration_sum_ns is not None and maximum.duration_sum_ns < window_ns:
        yield ("maximum", "duration_sum"), "is shorter than one window"
    yield from _loss_is_seen(spec)


def _loss_is_seen(spec: Spec) -> Found:
    """Check that a search can count losses: the generator must receive all packets."""
    if False in _values(spec, "generator_receives"):
        what = "mlrsearch needs `generator_receives: true`: what does not come back is lost"
        yield _place(spec, "generator_receives"), what
    if silent := NOT_ALL_ANSWERED.intersection(_values(spec, "workload")):
        what = f"mlrsearch needs a workload that sends all packets back, not '{sorted(silent)[0]}'"
        yield _place(spec, "workload"), what


def _dut_core(spec: Spec) -> Found:
    without_dut = set(_values(spec, "dut_core")) != {"dut"}
    if without_dut and (spec.parameters.load_of_max is not None or "load_of_max" in spec.levels):
        what = "without the DUT there is no maximum that load_of_max could be a share of"
        yield _place(spec, "dut_core"), what


def _no_factors(path: Path, names: Iterable[str], swept: Collection[str]) -> Found:
    for name in names:
        if name not in swept:
            yield path, f"'{name}' is not a factor of this spec{did_you_mean(name, list(swept))}"


def _zip_groups(spec: Spec) -> Found:
    seen: set[str] = set()
    for index, group in enumerate(spec.zip):
        unknown = [name for name in group if name not in spec.levels]
        if unknown:
            yield from _no_factors(("zip", index), unknown[:1], spec.levels)
        elif len({len(spec.levels[name]) for name in group}) > 1:
            counts = ", ".join(f"{name} has {len(spec.levels[name])}" for name in group)
            yield ("zip", index), f"zipped factors have equally many levels: {counts}"
        if doubled := seen & set(group) or {name for name in group if group.count(name) > 1}:
            yield ("zip", index), f"'{sorted(doubled)[0]}' is zipped twice"
        seen |= set(group)


def _constraints(spec: Spec) -> Found:
    known = [*Parameters.model_fields, *(name for name in spec.levels if name.startswith(KNOB_PREFIX))]
    for index, constraint in enumerate(spec.constraints):
        path: Path = ("constraints", index, "drop")
        try:
            expression = expressions.parse(constraint.drop)
            unknown = sorted(expression.names - set(known))
            for name in unknown:
                what = "not a factor here" if name.startswith(KNOB_PREFIX) else "not a parameter"
                yield path, f"'{name}' is {what}{did_you_mean(name, known)}"
            if not unknown:
                _try_all(expression, spec)
        except ValueError as error:
            yield path, str(error)


def _try_all(expression: expressions.Expression, spec: Spec) -> None:
    """Evaluate with every combination of the levels that the expression reads, so that no point fails later."""
    names = sorted(expression.names)
    fixed = spec.parameters.model_dump(mode="json")
    for combination in product(*(spec.levels.get(name) or (fixed[name],) for name in names)):
        expression(dict(zip(names, combination, strict=True)))


def _metrics(spec: Spec) -> Found:
    known = sorted(metric_dictionary().metrics)
    named: list[tuple[Path, str]] = []
    for index, claim in enumerate(spec.claims):
        named.append((("claims", index, "metric"), claim.metric))
        beside = getattr(claim.predicate, "beside", None)
        named += [(("claims", index, "predicate", "beside"), beside)] if beside is not None else []
    named += [(("show", index, "y"), name) for index, show in enumerate(spec.show) for name in show.y]
    if spec.repeats.narrow is not None:
        named.append((("repeats", "until", "metric"), spec.repeats.narrow.metric))
    if spec.baseline is not None:
        named.append((("baseline", "metric"), spec.baseline.metric))
    for path, name in named:
        if name not in known:
            close = get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "docs/reference-metrics.md lists them"
            yield path, f"'{name}' is not a metric; {hint}"


def _claims(spec: Spec) -> Found:
    seen: set[str] = set()
    for index, claim in enumerate(spec.claims):
        path: Path = ("claims", index)
        if claim.id in seen:
            yield (*path, "id"), f"the claim '{claim.id}' is listed twice"
        seen.add(claim.id)
        yield from _claimed_factors(spec, claim, path)


def _claimed_factors(spec: Spec, claim: OwnClaim, path: Path) -> Found:
    loads = {name for name in LOADS if name in spec.levels}
    swept = [*spec.levels, *([LOAD] if loads else [])]
    read = (getattr(claim.predicate, key, None) for key in ("factor", "across"))
    yield from _no_factors((*path, "predicate"), (name for name in read if name is not None), swept)
    known = [*swept, *Parameters.model_fields]
    for name in claim.where:
        if name not in known:
            yield (*path, "where"), f"'{name}' is neither a factor nor a parameter{did_you_mean(name, known)}"


def _show(spec: Spec) -> Found:
    for index, show in enumerate(spec.show):
        path: Path = ("show", index)
        for key, names in {"x": (show.x,), "by": show.by, "at": tuple(show.at)}.items():
            yield from _no_factors((*path, key), names, spec.levels)
        if show.x in (*show.by, *show.at):
            yield (*path, "x"), f"'{show.x}' is along the x axis, so it is not under by or at"


def _order(spec: Spec) -> Found:
    swept = [name for name in spec.levels if not name.startswith(KNOB_PREFIX)]
    yield from _no_factors(("order", "compare"), spec.order.compared, swept)


def _baseline(spec: Spec) -> Found:
    if spec.baseline is None:
        return
    path: Path = ("baseline", "point")
    missing = [name for name in spec.levels if name not in spec.baseline.point]
    if missing:
        yield path, f"gives no level for the factor '{missing[0]}'"
    for name, value in spec.baseline.point.items():
        if name not in spec.levels:
            yield from _no_factors((*path, name), [name], spec.levels)
            continue
        try:
            read_level(spec, name, value)
        except ValueError as error:
            yield (*path, name), str(error)


def _knob_values(spec: Spec) -> Found:
    for name, value in spec.knobs.items():
        yield from _knob_value(("knobs", name), name, value)
    for factor, levels in spec.factors.knobs.items():
        for index, level in enumerate(levels):
            yield from _knob_value(("factors", factor, index), factor.removeprefix(KNOB_PREFIX), level)


def _knob_value(path: Path, key: str, value: object) -> Found:
    try:
        parse_setting(key, value)
    except UsageError as error:
        yield path, f"{error.what}{f' ({error.remedy})' if error.remedy else ''}"


def _collectors(spec: Spec) -> Found:
    seen: set[str] = set()
    for index, use in enumerate(spec.collectors):
        if use.name in QUANTITIES and (use.replay is not None or use.rotate):
            what = f"'{use.name}' is a quantity, whose collector the host decides: no replay, and turns by themselves"
            yield ("collectors", index), what
        elif use.name not in (*COLLECTORS, *QUANTITIES):
            what = f"there is no collector '{use.name}'"
            what += did_you_mean(use.name, [*COLLECTORS, *QUANTITIES])
            yield ("collectors", index, "name"), what
        if use.name in seen:
            yield ("collectors", index, "name"), f"the collector '{use.name}' is listed twice"
        seen.add(use.name)
    yield from _uncore_owners(spec)
    turns = [use.name for use in spec.collectors if use.rotate]
    if len(turns) == 1:
        yield ("collectors",), f"'{turns[0]}' has nothing to rotate with; name two, or leave rotate out"


def _uncore_owners(spec: Spec) -> Found:
    """Yield collectors that would overwrite each other's uncore counters; those that rotate never run at once."""
    live = [each for each in enumerate(spec.collectors) if each[1].replay is None and each[1].name in COLLECTORS]
    owners = [each for each in live if load(COLLECTORS, each[1].name).owns_uncore] if len(live) > 1 else []
    for (_, first), (index, second) in combinations(owners, 2):
        if set(first.ends) & set(second.ends) and not (first.rotate and second.rotate):
            yield (
                ("collectors", index),
                f"'{first.name}' and '{second.name}' need the same uncore counters and would overwrite each other; "
                f"rotate them over the repeats: collectors: {{rotate: [{first.name}, {second.name}]}}",
            )


def read_level(spec: Spec, name: str, value: object) -> Any:
    """Read a single level of a factor of this spec like the factor's own levels.

    Raises:
        ValueError: the value is not a level of that parameter or knob.
    """
    if name.startswith(KNOB_PREFIX):
        return _read_knob_level(spec, name, value)
    try:
        levels = TypeAdapter(Factors).validate_python({name: [value]})
    except ValidationError as error:
        raise ValueError(plain_message(error.errors()[0])) from error
    return getattr(levels, name)[0]


def _read_knob_level(spec: Spec, name: str, value: object) -> int | str:
    try:
        return knob_levels(name, (*spec.levels[name], value))[-1]
    except UsageError as error:
        raise ValueError(f"{error.what} ({error.remedy})") from error


# Removed words and their successors.
_GONE = {"transition": "sampled"}
# Patterns in words.
_PATTERNS = {
    NAME_PATTERN: "a name of lower case, digits and dashes, as bursts-2",
    ROW_PATTERN: "a row as S-F5 or H-F3a",
}


def plain_message(error: Mapping[str, Any]) -> str:
    """Return the message of a validation error in this program's words, with the allowed values."""
    context, given = error.get("ctx", {}), error.get("input")
    match error["type"]:
        case "literal_error":
            allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
            successor = _GONE.get(str(given))
            if successor in allowed:
                return f"{given!r} is gone; use {successor!r}"
            return f"{given!r} is not allowed{did_you_mean(str(given), allowed)}"
        case "value_error":
            return str(context["error"])
        case "int_type" | "int_from_float":
            return f"{given!r} is not a whole number"
        case "bool_type":
            return f"{given!r} is not true or false"
        case "string_type" if isinstance(given, int | float) and not isinstance(given, bool):
            return f'{given!r} is a number where a text is wanted; write "{given}" in quotes'
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            wanted = f"is not {_PATTERNS[pattern]}" if pattern in _PATTERNS else f"does not look like {pattern}"
            return f"{given!r} {wanted}"
        case "greater_than_equal" | "less_than_equal" | "greater_than" | "less_than":
            words = {"ge": "at least", "le": "at most", "gt": "above", "lt": "below"}
            bounds = (f"must be {words[key]} {_like(given, value)}" for key, value in context.items())
            return f"{' and '.join(bounds)}, not {given!r}"
        case "missing":
            return "is missing"
    return _shape_message(error)


def _like(given: object, bound: float) -> str:
    """Return a bound in the unit of the given value: `0.001 s` beside `0 s`."""
    unit = str(given).strip().lstrip("+-0123456789.eE").strip() if isinstance(given, str) else ""
    factors = [each.factors[unit] for each in DIMENSIONS if unit in each.factors]
    return f"{human_number(float(bound / factors[0]), 6)} {unit}" if factors else f"{Decimal(str(bound)).normalize():f}"


def _shape_message(error: Mapping[str, Any]) -> str:
    """Return the message for a value of the wrong type."""
    context, given = error.get("ctx", {}), error.get("input")
    if error["type"] == "union_tag_invalid":
        kinds = str(context["expected_tags"]).replace("'", "").split(", ")
        return f"there is no kind {context['tag']!r}{did_you_mean(str(context['tag']), kinds)}"
    if given is None:
        return "no value is given; write one after the key, or omit the key"
    if error["type"] in ("model_type", "dict_type"):
        return f"{given!r} is not a mapping of keys to values"
    return f"{given!r}: {str(error['msg']).lower()}"


_CHECKS: tuple[Callable[[Spec], Found], ...] = (
    _fixed_and_swept,
    _repeated_levels,
    _programs,
    _loads,
    _feed,
    _maximum,
    _dut_core,
    _zip_groups,
    _constraints,
    _metrics,
    _claims,
    _show,
    _order,
    _baseline,
    _collectors,
)
