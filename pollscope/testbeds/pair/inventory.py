# SPDX-License-Identifier: BSD-3-Clause
"""Inventories of the playbooks: hosts, how to reach them, and their NICs (docs/two-servers.md)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model
from ruamel.yaml import YAML

from pollscope.base import document as documents
from pollscope.base.errors import UsageError
from pollscope.base.fields import StrictModel
from pollscope.base.names import did_you_mean
from pollscope.base.paths import carried
from pollscope.spec.checks import plain_message

_GROUPS = ("dut", "generator")
_PCI = r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
# YAML 1.1, float: [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*
_NUMBER_OF_SIXTIES = re.compile(r"(?<![\"'\w:])\d{4}:[0-5]\d:[0-5]\d\.[0-7](?![\"'\w])")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TYPES: dict[str, Any] = {"str": str, "path": str, "int": int, "float": float, "bool": bool, "dict": dict[str, Any]}
_LISTS: dict[str, Any] = {"str": list[str], "dict": list[dict[str, Any]]}


class _Variables(StrictModel):
    """Hold the variables of every host besides those of the roles."""

    ansible_host: str | None = None
    ansible_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    ansible_user: str | None = None
    ansible_connection: Literal["ssh", "local"] | None = None
    ansible_ssh_private_key_file: str | None = None
    ansible_ssh_common_args: str | None = None
    ansible_python_interpreter: str | None = None
    ansible_become: bool | None = None
    ansible_become_method: str | None = None
    ansible_become_user: str | None = None
    ansible_become_exe: str | None = None
    pollscope_nics: list[Annotated[str, Field(pattern=_PCI)]] | None = None
    pollscope_pair: str | None = None
    pollscope_roles: list[str] | None = None


@dataclass(frozen=True)
class Pair:
    """A DUT and its generator, by their names in the inventory; one host may be both."""

    name: str
    dut: str
    generator: str


@dataclass(frozen=True)
class Inventory:
    """A checked inventory.

    Attributes:
        path: the file.
        hosts: name -> variables, those of its groups included.
        pairs: in the order of the DUTs.
    """

    path: Path
    hosts: Mapping[str, Mapping[str, Any]]
    pairs: tuple[Pair, ...]


def load_inventory(path: Path) -> Inventory:
    """Read and check an inventory.

    Raises:
        UsageError: with file, line and key.
    """
    document = documents.parse(documents.read_text(path), str(path))
    _require_quotes(document)
    groups = dict(_groups(document))
    hosts: dict[str, dict[str, Any]] = {}
    for group in _GROUPS:
        for name, own in groups[group].items():
            hosts.setdefault(name, {}).update(own)
    _require_nics(document, groups, hosts)
    return Inventory(path, hosts, tuple(_pairs(document, groups)))


def _require_quotes(document: documents.Document) -> None:
    """Refuse unquoted addresses that Ansible's YAML 1.1 reads as numbers to the base of 60."""
    for number, line in enumerate(document.text.splitlines(), 1):
        if found := _NUMBER_OF_SIXTIES.search(line.partition("#")[0]):
            what = f"{found[0]} without quotes is a number for Ansible"
            raise UsageError(what, f"{document.name}:{number}", f'write "{found[0]}"')


def _groups(document: documents.Document) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Return each of the two groups with its hosts and their variables."""
    for key in document.data:
        if key not in (*_GROUPS, "all"):
            raise _bad(document, (key,), f"is not a group of a testbed{did_you_mean(str(key), [*_GROUPS, 'all'])}")
    common = _mapping(document, ("all", "vars"))
    _check_variables(document, ("all", "vars"), common)
    for group in _GROUPS:
        if group not in document.data:
            raise UsageError(f"has no group {group}", document.name, "a testbed has the groups dut and generator")
        shared = _mapping(document, (group, "vars"))
        _check_variables(document, (group, "vars"), shared)
        hosts = _mapping(document, (group, "hosts"))
        if not hosts:
            raise _bad(document, (group, "hosts"), "names no host")
        found = {}
        for name in hosts:
            if not _NAME.fullmatch(str(name)):
                raise _bad(document, (group, "hosts", name), "is not a host name")
            own = _mapping(document, (group, "hosts", name))
            _check_variables(document, (group, "hosts", name), own)
            found[str(name)] = {**common, **shared, **own}
        yield group, found


def _mapping(document: documents.Document, path: documents.Path) -> dict[str, Any]:
    """Return the mapping at a path; empty if there is none."""
    node: Any = document.data
    for part in path:
        node = node.get(part) if isinstance(node, dict) else node
        if node is None:
            return {}
        if not isinstance(node, dict):
            raise _bad(document, path, f"{node!r} is not a mapping of keys to values")
    return dict(node)


def _check_variables(document: documents.Document, path: documents.Path, variables: Mapping[str, Any]) -> None:
    model = _variables_model()
    for key in variables:
        if key not in model.model_fields:
            raise _bad(document, (*path, key), f"unknown variable{did_you_mean(str(key), sorted(model.model_fields))}")
    # Only values without Jinja can be checked here; Ansible checks the rest.
    plain = {key: value for key, value in variables.items() if not (isinstance(value, str) and "{{" in value)}
    try:
        model.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        raise _bad(document, document.locate((*path, *first["loc"])), plain_message(first)) from error
    for role in variables.get("pollscope_roles") or ():
        if role not in roles():
            raise _bad(
                document, (*path, "pollscope_roles"), f"{role!r} is not a role{did_you_mean(role, sorted(roles()))}"
            )


def _require_nics(
    document: documents.Document, groups: Mapping[str, Mapping[str, Any]], hosts: Mapping[str, Mapping[str, Any]]
) -> None:
    for group in _GROUPS:
        for name in groups[group]:
            nics = hosts[name].get("pollscope_nics")
            if not nics and hosts[name].get("ansible_connection") != "local":
                raise _bad(document, (group, "hosts", name), "has no pollscope_nics: the PCI addresses of its NICs")
            if nics and len(set(nics)) < len(nics):
                raise _bad(document, (group, "hosts", name), "has a NIC twice in pollscope_nics")


def _pairs(document: documents.Document, groups: Mapping[str, Mapping[str, Any]]) -> Iterator[Pair]:
    sides: dict[str, dict[str, str]] = {group: {} for group in _GROUPS}
    for group in _GROUPS:
        for name, variables in groups[group].items():
            pair = variables.get("pollscope_pair") or "pair"
            if pair in sides[group]:
                other = sides[group][pair]
                what = f"pair {pair!r} has {other} already as {group}: give each pair a name with pollscope_pair"
                raise _bad(document, (group, "hosts", name), what)
            sides[group][pair] = name
    for alone in sorted(sides["dut"].keys() ^ sides["generator"].keys()):
        group = "dut" if alone in sides["dut"] else "generator"
        other = "generator" if group == "dut" else "dut"
        raise _bad(document, (group, "hosts", sides[group][alone]), f"pair {alone!r} has no {other}")
    for pair, dut in sides["dut"].items():
        yield Pair(pair, dut, sides["generator"][pair])


def _bad(document: documents.Document, path: documents.Path, what: str) -> UsageError:
    return UsageError(what, f"{document.place(path)}: {'.'.join(map(str, path))}")


@cache
def roles() -> Mapping[str, Mapping[str, Any]]:
    """Return role -> its options, as its meta/argument_specs.yml declares them."""
    files = sorted(carried("playbooks/roles").glob("*/meta/argument_specs.yml"))
    reader = YAML(typ="safe")
    return {path.parent.parent.name: reader.load(path)["argument_specs"]["main"]["options"] for path in files}


@cache
def _variables_model() -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for options in roles().values():
        for name, option in options.items():
            fields[name] = (_annotation(option) | None, None)
    return create_model("Variables", __base__=_Variables, **fields)


def _annotation(option: Mapping[str, Any]) -> Any:
    if "choices" in option:
        # On and off are booleans in Ansible's YAML 1.1, which converts them back.
        words = tuple(option["choices"])
        return Literal[(*words, *((True, False) if {"on", "off"} & set(words) else ()))]
    if option["type"] == "list":
        return _LISTS[option["elements"]]
    return _TYPES[option["type"]]
