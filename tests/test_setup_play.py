# SPDX-License-Identifier: BSD-3-Clause
"""The plays and roles: they parse, their variables are declared and carry the role's name."""

import os
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


@pytest.mark.parametrize("playbook", sorted(path.name for path in PLAYBOOKS.glob("*.yml")))
def test_playbook_parses(checkout: Path, playbook: str) -> None:
    inventory = checkout / "configs/testbeds/inventory.example.yml"
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--syntax-check", "-i", inventory, PLAYBOOKS / playbook],
        env=os.environ | {"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
