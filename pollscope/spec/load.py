# SPDX-License-Identifier: BSD-3-Clause
"""From a path, a row id or a folder to checked specs; every error names file, line and key."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, get_args

from pydantic import ValidationError

from pollscope.base import document as documents
from pollscope.base.document import Document
from pollscope.base.errors import UsageError
from pollscope.base.fields import StrictModel
from pollscope.base.names import did_you_mean
from pollscope.spec.checks import cross_checks, plain_message
from pollscope.spec.model import Parameters, Spec
from pollscope.spec.quick import left_out, shortened


class SpecError(UsageError):
    """A spec that cannot be used; `problems` holds every problem as its own one-line error."""

    def __init__(self, problems: Sequence[UsageError]) -> None:
        first, others = problems[0], len(problems) - 1
        more = f"and {others} more: pollscope validate shows all" if others else first.remedy
        super().__init__(first.what, first.where, more)
        self.problems = list(problems)


@dataclass(frozen=True)
class Overrides:
    """The command line's changes to a spec: `--quick` and any number of `--set KEY=VALUE`."""

    quick: bool = False
    settings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form for run.json."""
        return {"quick": self.quick, "set": list(self.settings)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Overrides":
        """Read the form of run.json."""
        return cls(bool(stored["quick"]), tuple(stored["set"]))


@dataclass(frozen=True)
class LoadedSpec:
    """A checked spec with the text that it came from, and what `--quick` left out of it."""

    spec: Spec
    text: str
    name: str
    overrides: Overrides = field(default_factory=Overrides)
    left_out: tuple[str, ...] = ()


def load_file(path: FilePath, overrides: Overrides | None = None) -> LoadedSpec:
    """Read and check one spec file.

    Raises:
        SpecError: with all problems found.
        UsageError: the file cannot be read or is not YAML.
    """
    return load_text(documents.read_text(path), str(path), overrides)


def load_text(text: str, name: str, overrides: Overrides | None = None) -> LoadedSpec:
    """Do as `load_file` with text that is already read (a resumed run reads it from run.json)."""
    overrides = overrides or Overrides()
    document = documents.parse(text, name)
    whole = None
    if overrides.quick:
        whole = _check(document)  # so that an error in `quick` itself is reported where it stands
        quick = document.data["quick"] if whole.quick is not None else shortened(document, whole)
        document = documents.with_quick(document, quick)
    for setting in overrides.settings:
        document = documents.with_setting(document, setting)
    spec = _check(document)
    return LoadedSpec(spec, text, name, overrides, () if whole is None else tuple(left_out(whole, spec)))


def _check(document: Document) -> Spec:
    try:
        spec = Spec.model_validate(document.data)
    except ValidationError as error:
        found = error.errors()
        # A list may be too short only because its bad items were removed; that is no second error.
        deeper = {each["loc"][: len(each["loc"]) - depth] for each in found for depth in range(1, len(each["loc"]))}
        shown = [each for each in found if not (each["type"] == "too_short" and each["loc"] in deeper)]
        hidden = _behind(document, found)
        raise SpecError([*(_key_error(document, each) for each in shown), *hidden]) from error
    problems = cross_checks(spec)
    if problems:
        raise SpecError([_at(document, document.locate(path), what) for path, what in problems])
    return spec


def _behind(document: Document, found: Sequence[Any]) -> list[UsageError]:
    """Return what cross checks find in the sections that have no error of their own."""
    wrong = {each["loc"][0] for each in found if each["loc"]}
    if any(not each["loc"] or each["type"] == "missing" for each in found):
        return []
    try:
        spec = Spec.model_validate({key: value for key, value in document.data.items() if key not in wrong})
    except (ValidationError, AttributeError):
        return []
    return [
        _at(document, document.locate(path), what)
        for path, what in cross_checks(spec)
        if path and path[0] not in wrong and path[0] in document.data
    ]


def _key_error(document: Document, error: Mapping[str, Any]) -> UsageError:
    location = tuple(error["loc"])
    path = document.locate(location)
    if error["type"] == "extra_forbidden":
        if location[:-1] == () and location[-1] in Parameters.model_fields:
            what = f"is not a key by itself; parameters.{location[-1]} fixes it, factors.{location[-1]} sweeps it"
            return _at(document, path, what)
        allowed = _allowed_keys(location[:-1])
        return _at(document, path, f"unknown key{did_you_mean(str(path[-1]), allowed)}")
    if error["type"] == "missing":
        return _at(document, path, f"the key '{location[-1]}' is missing")
    return _at(document, path, plain_message(error))


def _at(document: Document, path: documents.Path, what: str) -> UsageError:
    key = ".".join(str(part) for part in path)
    return UsageError(what, f"{document.place(path)}: {key}" if key else document.place(path))


def _allowed_keys(location: Sequence[str | int]) -> list[str]:
    """Return the model of the value at a place; if it may have several kinds, the place names the kind."""
    models: list[type[StrictModel]] = [Spec]
    for part in location:
        here = [info for name, info in models[0].model_fields.items() if part in (name, info.alias)]
        inside = [kind for info in here for kind in _models_in(info.annotation)]
        models = inside or [kind for kind in models if _is_called(kind, part)] or models
    return [info.alias or name for name, info in models[0].model_fields.items()]


def _is_called(model: type[StrictModel], part: str | int) -> bool:
    return "kind" in model.model_fields and part in get_args(model.model_fields["kind"].annotation)


def _models_in(annotation: Any) -> Iterator[type[StrictModel]]:
    if isinstance(annotation, type) and issubclass(annotation, StrictModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
