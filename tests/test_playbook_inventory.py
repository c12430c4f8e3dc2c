# SPDX-License-Identifier: BSD-3-Clause
"""Check inventories: the examples are valid, and an error is one line with file, line and key."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, pollscope
from hypothesis import given
from hypothesis import strategies as st

from pollscope.base.errors import HostError, UsageError
from pollscope.host import lock
from pollscope.host.lock import HostLock, conductor_lock_path
from pollscope.testbeds import make_testbed
from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.plays import _REMEDIES, _one_line, _result, player, run_play

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "configs/testbeds").glob("inventory-*.yml"))
GOOD = """dut:
  hosts:
    one:
      pollscope_nics: ["0000:17:00.0"]
generator:
  hosts:
    two:
      pollscope_nics: ["0000:17:00.0"]
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_good(path: Path) -> None:
    inventory = load_inventory(path)
    assert inventory.pairs
    assert {pair.dut for pair in inventory.pairs} <= inventory.hosts.keys()


def test_several_pairs() -> None:
    inventory = load_inventory(next(path for path in EXAMPLES if path.stem == "inventory-pairs"))
    assert [(pair.name, pair.dut, pair.generator) for pair in inventory.pairs] == [
        ("first", "dut1.example", "generator1.example"),
        ("second", "dut2.example", "generator2.example"),
    ]
    assert inventory.hosts["dut2.example"]["ansible_port"] == 2222
    assert inventory.hosts["dut2.example"]["iommu_mode"] == "strict"


NIC = '      pollscope_nics: ["0000:17:00.0"]\n'
BAD: list[tuple[str, str, str]] = [
    ("dut:", "duts:", "inventory.yml:1: duts: is not a group of a testbed; did you mean 'dut'?"),
    ("generator:\n  hosts:\n    two:\n" + NIC, "", "inventory.yml: has no group generator"),
    ("  hosts:\n    one:\n" + NIC, "  hosts: {}\n", "names no host"),
    ("    one:", '    "-o ProxyCommand=x":', "is not a host name"),
    ("pollscope_nics", "pollscope_nic", "inventory.yml:4: dut.hosts.one.pollscope_nic: unknown variable; did you mean"),
    ("0000:17:00.0", "17:00.0", "inventory.yml:4: dut.hosts.one.pollscope_nics.0: '17:00.0' does not look like"),
    ('["0000:17:00.0"]', '["0000:17:00.0", "0000:17:00.0"]', "has a NIC twice"),
    ('["0000:17:00.0"]', "[0000:17:00.0]", "inventory.yml:4: 0000:17:00.0 without quotes is a number for Ansible"),
    (NIC, "      ansible_user: me\n", "inventory.yml:3: dut.hosts.one: has no pollscope_nics"),
    (NIC, NIC + "      iommu_mode: pt\n", "dut.hosts.one.iommu_mode: 'pt' is not allowed"),
    (NIC, NIC + "      ansible_port: 0\n", "dut.hosts.one.ansible_port: must be at least 1"),
    (NIC, NIC + "      hugepages_wanted_pages: many\n", "hugepages_wanted_pages: 'many' is not a whole number"),
    (
        NIC,
        NIC + "      cpu_isolation_cpus: 1\n",
        'cpu_isolation_cpus: 1 is a number where a text is wanted; write "1" in',
    ),
    (NIC, NIC + "      pollscope_roles: [vifo]\n", "'vifo' is not a role; did you mean 'vfio'?"),
    (NIC, NIC + "      pollscope_pair: a\n", "pair 'a' has no generator"),
    (NIC, NIC + "    three:\n" + NIC, "pair 'pair' has one already as dut"),
    ("dut:", "dut: [", "not valid YAML"),
    ("  hosts:\n    one:", "  hosts: 5\n    one:", "not valid YAML"),
    ("    one:\n" + NIC, "    one: 5\n", "5 is not a mapping of keys to values"),
]


@pytest.mark.parametrize(("part", "instead", "message"), BAD)
def test_a_bad_inventory_gives_one_line(tmp_path: Path, part: str, instead: str, message: str) -> None:
    path = tmp_path / "inventory.yml"
    assert part in GOOD
    path.write_text(GOOD.replace(part, instead, 1))
    with pytest.raises(UsageError) as caught:
        load_inventory(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_addresses_that_ansible_reads_as_such_need_no_quotes(tmp_path: Path) -> None:
    path, yaml = tmp_path / "inventory.yml", pytest.importorskip("yaml")  # Ansible's
    for written in ("[0000:3b:00.0]  # was 0000:17:00.0", "\n        - '0000:17:00.0'", "[0000:61:00.1]"):
        path.write_text(GOOD.replace('["0000:17:00.0"]', written))
        read = yaml.safe_load(path.read_text())["dut"]["hosts"]["one"]["pollscope_nics"]
        assert load_inventory(path).hosts["one"]["pollscope_nics"] == read


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yml"
    path.write_bytes(b"dut: \xff")
    for load in (load_inventory, lambda path: make_testbed(str(path))):
        with pytest.raises(UsageError, match="cannot be read: not UTF-8 text"):
            load(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yml: cannot be read: No such file"):
        load_inventory(tmp_path / "nowhere.yml")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from(["all", "dut", "generator", "hosts", "vars", "one",
    "pollscope_nics", "pollscope_roles", "iommu_mode"]), inner, max_size=4), max_leaves=12))  # fmt: skip
def test_any_document_is_an_inventory_or_refused(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "inventory.yml"
    path.write_text(json.dumps(document))
    try:
        assert load_inventory(path).pairs
    except UsageError as error:
        line = str(error)
        assert line
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        ("destroy", {}, "there is no play 'destroy' (there are provision"),
        ("iommu", {}, "play iommu: mode is missing (-e mode=VALUE, one of off, passthrough"),
        ("iommu", {"mode": "on"}, "'on' is not a value of mode"),
        ("ddio", {"state": "half"}, "'half' is not a value of state (-e state=VALUE, one of on, off)"),
    ],
)
def test_bad_plays_start_nothing(tmp_path: Path, name: str, variables: dict[str, str], message: str) -> None:
    path = tmp_path / "inventory.yml"
    path.write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        run_play(name, load_inventory(path), variables, log=tmp_path / "log")
    assert message in str(caught.value)
    assert not (tmp_path / "log").exists()


FAKE_ANSIBLE = """#!/bin/sh
printf '%s\\n' "$@" >"$POLLSCOPE_EVENTS.words"
cp "$POLLSCOPE_EVENTS.words" {folder}/words
cat >{folder}/typed
exit {code}
"""


@pytest.fixture
def fake_ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in the place of Ansible that writes its arguments to `words` and its input to `typed`."""
    program = tmp_path / "bin/ansible-playbook"
    program.parent.mkdir()
    program.write_text(FAKE_ANSIBLE.format(folder=tmp_path, code=0))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    (tmp_path / "inventory.yml").write_text(GOOD)
    return tmp_path


def verify(folder: Path, *options: str) -> Done:
    return pollscope("play", "verify", "-i", folder / "inventory.yml", *options, cwd=folder)


def test_the_password_of_sudo_is_asked_for_and_goes_through_a_pipe(
    fake_ansible: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pollscope.cli.play.getpass", lambda _prompt: "to be kept")
    assert verify(fake_ansible, "--ask-become-pass").returncode == 0
    words = (fake_ansible / "words").read_text().splitlines()
    assert words[words.index("--become-password-file") + 1] == "-"
    assert "to be kept" not in words
    assert (fake_ansible / "typed").read_text() == "to be kept"


@pytest.mark.parametrize(("options", "said"), [(["--check"], "would be done"), ([], "done")])
def test_check_mode_reports_no_change_as_done(fake_ansible: Path, options: list[str], said: str) -> None:
    """Ansible's module for a reboot gives no message of its own."""
    event = json.dumps({"event": "changed", "host": "one", "task": "iommu : Reboot", "message": ""})
    program = fake_ansible / "bin/ansible-playbook"
    program.write_text(program.read_text().replace("exit 0", f"echo '{event}' >$POLLSCOPE_EVENTS"))
    done = pollscope("play", "provision", "-i", "inventory.yml", *options, cwd=fake_ansible)
    assert done.stdout.strip() == f"one: iommu : Reboot: {said}"


def test_an_ended_input_instead_of_a_password_is_an_interrupt(
    fake_ansible: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user types Ctrl-D."""

    def ended(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("pollscope.cli.play.getpass", ended)
    done = verify(fake_ansible, "-K")
    assert (done.returncode, done.stderr) == (130, "pollscope: interrupted\n")
    assert not (fake_ansible / "words").exists()


@pytest.mark.parametrize(("words", "lines"), [(["provision"], 2), (["provision", "--check"], 1), (["verify"], 1)])
def test_an_interrupted_play_says_that_its_changes_stay(
    fake_ansible: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], lines: int
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pollscope.cli.play.run_play", interrupted)
    done = pollscope("play", *words, "-i", "inventory.yml", cwd=fake_ansible)
    assert (done.returncode, len(done.stderr.splitlines())) == (130, lines)
    assert ("`pollscope play restore -i inventory.yml` restores all" in done.stderr) == (lines == 2)


def test_without_a_password_nothing_is_typed(fake_ansible: Path) -> None:
    assert verify(fake_ansible).returncode == 0
    assert "--become-password-file" not in (fake_ansible / "words").read_text()
    assert (fake_ansible / "typed").read_text() == ""


def test_variables_and_a_host_are_passed_to_ansible(fake_ansible: Path) -> None:
    inventory = fake_ansible / "inventory.yml"
    words = ("-i", inventory, "-e", "mode=passthrough", "--limit", "one")
    assert pollscope("play", "iommu", *words, cwd=fake_ansible).returncode == 0
    given = (fake_ansible / "words").read_text().splitlines()
    assert given[given.index("-e") + 1] == '{"mode": "passthrough"}'
    assert given[given.index("--limit") + 1] == "one"


def test_a_user_has_one_play_at_a_time_on_a_host(fake_ansible: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second play ends before it connects to a host."""
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(fake_ansible / "state"))
    words = "play", "provision", "-i", fake_ansible / "inventory.yml"
    with HostLock("play restore of other.yml", conductor_lock_path("play-two-22")):
        done = pollscope(*words, cwd=fake_ansible)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "is in use by pid" in done.stderr and "(play restore of other.yml, since" in done.stderr
    assert not (fake_ansible / "words").exists()
    assert pollscope(*words, cwd=fake_ansible).returncode == 0


def test_a_play_whose_pollscope_was_killed_keeps_others_away_until_it_has_ended(
    fake_ansible: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a runner is killed while the play of an IOMMU mode reboots, and the next run restores the mode."""
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(fake_ansible / "state"))
    monkeypatch.setattr(lock, "_DYING_S", 0.0)
    program, goes_on = fake_ansible / "bin/ansible-playbook", fake_ansible / "goes-on"
    program.write_text(f"#!/bin/sh\necho $$ >{goes_on}.new\nmv {goes_on}.new {goes_on}\nexec sleep 600\n")
    inventory, options = load_inventory(fake_ansible / "inventory.yml"), ["--limit", "one"]
    child = os.fork()
    if child == 0:
        run_play("iommu", inventory, {"mode": "passthrough"}, options=options)
        os._exit(0)
    while not goes_on.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        with pytest.raises(HostError, match=r"in use by pid \d+ \(play iommu of .* a program that it started is still"):
            run_play("iommu", inventory, {"mode": "default"}, options=options)
        program.write_text(FAKE_ANSIBLE.format(folder=fake_ansible, code=0))
        run_play("iommu", inventory, {"mode": "passthrough"}, options=["--limit", "two"])
    finally:
        os.kill(int(goes_on.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found"), OSError("No username set")])
def test_a_player_may_have_no_name(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A user in a container may have none. Python 3.11 raises KeyError, 3.13 OSError."""

    def nobody() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", nobody)
    assert player().startswith(f"{os.getuid()}@")


def test_options_in_remedies_exist(fake_ansible: Path) -> None:
    options = {word for _, remedy in _REMEDIES for word in re.findall(r"--[a-z-]+", remedy)}
    assert options
    for option in options:
        assert verify(fake_ansible, option, "--help").returncode == 0


DROPPED = (
    *("HOST_KEY_CHECKING", "SSH_HOST_KEY_CHECKING", "SSH_ARGS", "SSH_COMMON_ARGS", "SSH_EXTRA_ARGS", "SSH_EXECUTABLE"),
    *("SCP_EXTRA_ARGS", "SFTP_EXTRA_ARGS", "SSH_CONTROL_PATH", "SSH_CONTROL_PATH_DIR", "TRANSPORT", "LIBRARY"),
    *("PARAMIKO_HOST_KEY_AUTO_ADD", "ACTION_PLUGINS", "CONNECTION_PLUGINS", "CALLBACK_PLUGINS", "ROLES_PATH"),
    *("MODULE_UTILS", "BECOME_EXE", "BECOME_FLAGS", "COLLECTIONS_PATH", "STRATEGY_PLUGINS", "CONFIG"),
)


def test_variables_of_ansible_that_weaken_a_play_are_dropped(
    fake_ansible: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a variable in the user's environment turns the check of host keys off, or adds options to ssh."""
    (fake_ansible / "bin/ansible-playbook").write_text(f"#!/bin/sh\nenv >{fake_ansible}/environment\n")
    for name in DROPPED:
        monkeypatch.setenv(f"ANSIBLE_{name}", "evil")
    monkeypatch.setenv("ANSIBLE_FORKS", "3")
    assert verify(fake_ansible).returncode == 0
    lines = (fake_ansible / "environment").read_text().splitlines()
    assert [line for line in lines if "evil" in line] == []
    assert "ANSIBLE_FORKS=3" in lines


def test_a_rescued_failure_is_no_failure_of_another_host(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    stats = {"event": "stats", "ok": 1, "changed": 0, "unreachable": 0}
    records: list[dict[str, Any]] = [
        {"event": "failed", "host": "one", "task": "t", "message": "no"},
        {"event": "failed", "host": "two", "task": "t", "message": "bad\nworse"},
        {"event": "failed", "host": "two", "task": "Say why", "message": "bad\nworse"},
        {**stats, "host": "one", "failures": 0},
        {**stats, "host": "two", "failures": 1},
    ]
    with pytest.raises(HostError) as caught:
        _result("provision", 2, records, tmp_path / "log")
    assert str(caught.value) == "two: bad worse"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Task failed: Failed to connect to the host via ssh: Warning: x\r\nu@h: Permission denied (publickey).",
            "u@h: Permission denied (publickey).",
        ),
        ("Failed to connect to the host via ssh: ssh: connect to host h port 1: Connection refused", None),
        ("Module failed: a\n  b", "a b"),
        ("", "failed without a message"),
    ],
)
def test_messages_of_ansible_become_one_line(message: str, line: str | None) -> None:
    assert _one_line(message) == (line or "ssh: connect to host h port 1: Connection refused")
