# SPDX-License-Identifier: BSD-3-Clause
"""The plays and roles: they parse, their variables are declared and carry the role's name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

PLAYBOOKS = Path(__file__).resolve().parent.parent / "playbooks"
ROLES = sorted(path.name for path in (PLAYBOOKS / "roles").iterdir())


def load(path: Path) -> object:
    return YAML(typ="safe").load(path)


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_declared_and_prefixed(role: str) -> None:
    defaults = load(PLAYBOOKS / "roles" / role / "defaults/main.yml")
    specs = load(PLAYBOOKS / "roles" / role / "meta/argument_specs.yml")
    assert isinstance(defaults, dict)
    assert isinstance(specs, dict)
    assert defaults.keys() == specs["argument_specs"]["main"]["options"].keys()
    assert all(name.startswith(f"{role}_") for name in defaults)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_a_state_and_a_revert(role: str) -> None:
    specs = load(PLAYBOOKS / "roles" / role / "meta/argument_specs.yml")
    assert isinstance(specs, dict)
    state = specs["argument_specs"]["main"]["options"][f"{role}_state"]
    assert state["choices"] == ["present", "absent", "verified"]
    revert = load(PLAYBOOKS / "roles" / role / "tasks/revert.yml")
    assert isinstance(revert, list)
    assert revert[0]["vars"] == {f"{role}_state": "absent"}


def test_plays_name_every_role_in_both_directions() -> None:
    names = load(PLAYBOOKS / "vars/roles.yml")
    assert isinstance(names, dict)
    only_local = {"test_tools", "vm_tools"}
    for key in ("all_roles", "revert_order"):
        assert set(re.findall(r"'([a-z_]{3,})'", names[key])) - {"generator"} == set(ROLES) - only_local


@pytest.mark.parametrize("playbook", sorted(path.name for path in PLAYBOOKS.glob("*.yml")))
def test_playbook_parses(checkout: Path, playbook: str) -> None:
    inventory = checkout / "configs/testbeds/inventory-loopback.yml"
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--syntax-check", "-i", inventory, PLAYBOOKS / playbook],
        env=os.environ | {"ANSIBLE_CONFIG": str(checkout / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
