# SPDX-License-Identifier: BSD-3-Clause
"""The keys of run.json and their types (store-format.md): a run folder may be damaged or untrusted."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pollscope import __version__
from pollscope.base.clock import utc_now
from pollscope.base.errors import UsageError
from pollscope.metrics import RULES
from pollscope.metrics.dictionary import metric_dictionary

_Facts = dict[str, Any]
_Knobs = dict[str, dict[str, str]] | None


class _MetaPart(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Testbed(_MetaPart):
    name: str
    kind: str = ""
    file: str = ""
    shared_tsc: bool | None = None
    config: dict[str, str] = {}


class _Overrides(_MetaPart):
    quick: bool
    set: list[str]


class _LeftOut(_MetaPart):
    point: str
    reason: str
    factors: _Facts = {}
    pair: str = ""


class _Port(_MetaPart):
    name: str = ""
    link_bps: int | float | None = None


class _Hello(_MetaPart):
    version: str = ""
    dpdk: str = ""
    tsc_hz: int | float | None = None
    ports: list[_Port] = []
    absent: dict[str, str] = {}


class _Until(_MetaPart):
    at_least: int | None = None


class _Repeats(_MetaPart):
    count: int | None = None
    until: _Until | str | None = None


class _Baseline(_MetaPart):
    metric: str
    drift: float


class _Spec(_MetaPart):
    parameters: _Facts = {}
    factors: dict[str, list[Any]] = {}
    zip: list[list[str]] = []
    show: list[_Facts] = []
    claims: list[_Facts] = []
    repeats: _Repeats | None = None
    baseline: _Baseline | None = None
    noise: _Facts | None = None
    must: str | None = None


class _Meta(_MetaPart):
    format: int
    run_id: str
    spec_name: str
    row: str | None
    testbed: _Testbed
    pollscope: str = ""
    rules: int = 0
    rows: list[str] = []
    paper: str | None = None
    title: str | None = None
    spec_text: str = ""
    spec: _Spec
    overrides: _Overrides = _Overrides(quick=False, set=[])
    seed: int = 0
    plan: list[str] = []
    left_out: list[_LeftOut] = []
    host: _Facts = {}
    build: _Facts = {}
    generator: _Facts = {}
    program: _Facts = {}
    pairs: dict[str, _Facts] = {}
    node_hello: _Hello | None = None
    noise: list[_Facts] | None = None
    maxima: dict[str, _Facts] = {}
    warnings: list[str] = []
    knobs_before: _Knobs = None
    knobs_after: _Knobs = None
    collectors: dict[str, _Facts] = {}
    units: dict[str, str] = {}
    started_utc: str | None = None
    finished_utc: str | None = None
    status: str = ""
    reason: str | None = None


# A run cannot be completed without these.
_RESUMED = ("spec_text", "overrides", "plan", "left_out", "host", "build", "warnings", "maxima", "pollscope")


def new_meta(**own: Any) -> dict[str, Any]:
    """Return run.json of a run that begins now.

    Args:
        own: its keys beside those that are alike, or empty, for all runs: at least run_id, spec_name, spec and testbed.
    """
    empty: dict[str, Any] = {"pollscope": __version__, "rules": RULES, "seed": 0, "spec_text": "", "maxima": {}}
    empty |= dict.fromkeys(("row", "paper", "title", "node_hello", "knobs_after", "finished_utc", "reason"))
    empty |= {name: [] for name in ("rows", "plan", "left_out", "noise", "warnings")}
    empty |= {"overrides": {"quick": False, "set": []}, "started_utc": utc_now(), "status": "running"}
    empty["units"] = {name: metric.unit for name, metric in metric_dictionary().metrics.items()}
    return empty | own


def check_meta(meta: object, place: str) -> None:
    """Check the keys of run.json.

    Raises:
        UsageError: a key is missing or has another type.
    """
    try:
        _Meta.model_validate(meta)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        what = f"has no '{key}'" if first["type"] == "missing" else f"{key}: {first['msg']}"
        raise UsageError(what, place) from None


def check_resumable(meta: dict[str, Any], place: str) -> None:
    """Check that run.json has all keys that completing the run needs, and that the run is not thinned.

    Raises:
        UsageError: a key is missing, or parts of the trials.
    """
    if meta.get("thinned"):
        raise UsageError("is thinned: parts of its trials were removed, so the run cannot be resumed", place)
    missing = [key for key in _RESUMED if key not in meta]
    if "file" not in meta["testbed"]:
        missing.append("testbed.file")
    if missing:
        raise UsageError(f"has no '{missing[0]}', so the run cannot be resumed", place)
