# SPDX-License-Identifier: BSD-3-Clause
"""Check that plays and roles parse, and that variables are declared and begin with the name of the role."""

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

PLAYBOOKS = Path(__file__).resolve().parent.parent / "playbooks"
ROLES = sorted(path.name for path in (PLAYBOOKS / "roles").iterdir())


def load(path: Path) -> Any:
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
def test_every_role_has_a_state(role: str) -> None:
    specs = load(PLAYBOOKS / "roles" / role / "meta/argument_specs.yml")
    assert isinstance(specs, dict)
    state = specs["argument_specs"]["main"]["options"][f"{role}_state"]
    assert state["choices"] == ["present", "absent", "verified"]


def test_plays_set_and_restore_every_role() -> None:
    names = load(PLAYBOOKS / "vars/roles.yml")
    assert isinstance(names, dict)
    only_local = {"test_tools", "vm_tools"}
    for key in ("all_roles", "restore_order"):
        assert set(re.findall(r"'([a-z_]{3,})'", names[key])) - {"generator"} == set(ROLES) - only_local


@pytest.mark.parametrize("role", ROLES)
def test_the_name_of_a_journal_begins_with_its_role(role: str) -> None:
    """library/pollscope_journals.py relies on it."""
    tasks = "".join(path.read_text() for path in (PLAYBOOKS / "roles" / role / "tasks").glob("*.yml"))
    names = re.findall(r"^ +journal: (.*)$", tasks, re.MULTILINE)
    assert all(name.partition("-")[0] == role for name in names), names


DEFAULT = "as the role ships"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("found", "most", "wanted"), [("4\n", DEFAULT, "2"), ("4\n", 1, "1"), ("1\n", 2, "1"), ("-1\n", "2", "-1")]
)
def test_users_keep_the_permission_to_count_or_get_the_least_needed(
    checkout: Path, found: str, most: object, wanted: str
) -> None:
    """With 2 they count events of their own programs (kernel documentation, admin-guide/perf-security)."""
    most = load(PLAYBOOKS / "roles/perf/defaults/main.yml")["perf_event_paranoid"] if most == DEFAULT else most
    (task,) = (each for each in load(PLAYBOOKS / "roles/perf/tasks/main.yml") if each["name"] == "Let users count")
    variables = {"perf_event_paranoid": most, "perf_found": {"content": b64encode(found.encode()).decode()}}
    words = ["-m", "ansible.builtin.debug", "-a", f"msg={task['pollscope_state']['items'][0]['value']}"]
    program = Path(sys.executable).with_name("ansible")
    done = subprocess.run(
        [program, "localhost", "-c", "local", *words, "-e", json.dumps(variables)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"msg: '{wanted}'" in done.stdout


def test_packages_that_were_installed_last_are_removed_first() -> None:
    """Packages of a role may need those of an earlier role."""
    names = load(PLAYBOOKS / "vars/roles.yml")
    assert isinstance(names, dict)
    forward, back = (re.findall(r"'([a-z_]{3,})'", names[key]) for key in ("all_roles", "restore_order"))
    brings = [role for role in forward if "pollscope_packages" in role_tasks(role)]
    assert [role for role in back if role in brings] == brings[::-1]


def role_tasks(role: str) -> str:
    path = PLAYBOOKS / "roles" / role / "tasks/main.yml"
    return path.read_text() if path.exists() else ""  # `generator` is a group


def test_no_loop_loses_its_order() -> None:
    """Ansible turns lists into sets for these filters, but the order of roles matters."""
    pattern = re.compile(r" *loop: .*\| *(intersect|difference|union|symmetric_difference|unique)\(")
    lines = [(path, line) for path in sorted(PLAYBOOKS.rglob("*.yml")) for line in path.read_text().splitlines()]
    assert lines
    assert [each for each in lines if pattern.match(each[1])] == []


def test_playbooks_parse(checkout: Path) -> None:
    inventory, playbooks = checkout / "configs/testbeds/inventory-loopback.yml", sorted(PLAYBOOKS.glob("*.yml"))
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--syntax-check", "-i", inventory, *playbooks],
        env=os.environ | {"ANSIBLE_CONFIG": str(checkout / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^playbook: (.*)$", done.stdout, re.MULTILINE) == list(map(str, playbooks))


def test_driver_headers_are_fetched_for_a_checkout_only() -> None:
    """Their folder is on this machine. On another host nothing reads it, and the user may not write it."""
    assert load(PLAYBOOKS / "roles/dpdk/defaults/main.yml")["dpdk_fetch_driver_sdk"] is False
    (play,) = load(PLAYBOOKS / "local.yml")
    assert (play["hosts"], play["connection"]) == ("localhost", "local")
    wanting = {role["role"] for role in play["roles"] if role.get("vars", {}).get("dpdk_fetch_driver_sdk")}
    assert wanting == {"dpdk"}
