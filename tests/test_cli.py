# SPDX-License-Identifier: BSD-3-Clause
"""Test the command line as a user meets it: help, errors of one line, exit codes."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import pollscope
from pydantic_core import SchemaError
from run_helpers import COMMAND, SPEC, Cli

from pollscope.cli import COMMANDS, _Interrupt


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_help_lists_every_command_and_the_exit_codes(cli: Cli) -> None:
    out = cli("--help").stdout
    assert all(f"  {name} " in out for name in COMMANDS)
    assert "130 interrupted" in out
    assert cli().stdout == out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert done.returncode == 0
    assert f"    pollscope {command}" in done.stdout.partition("Examples:")[2]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("first", "unwanted"),
    [
        (
            "from pollscope.cli import build_app; build_app(None)",
            ("pydantic", "numpy", "pandas", "matplotlib", "scipy"),
        ),
        ("import pollscope.cli.plan", ("pandas", "matplotlib", "scipy.stats")),
        ("import pollscope.cli.run", ("matplotlib", "scipy.stats")),
        ("import pollscope.cli.claims", ("matplotlib", "scipy.stats")),
    ],
    ids=["help", "plan", "run", "claims"],
)
def test_a_command_loads_no_heavy_library_that_it_does_not_need(first: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys; {first}; print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not [name for name in unwanted if f"'{name}'" in loaded]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["rnu"], 2, "No such command 'rnu'. Did you mean 'run'?"),
        (["run", "--bogus"], 2, "No such option: --bogus"),
        (["run"], 2, "give specs to run, or --resume RUN"),
        (["run", "S-F99"], 2, "S-F99: is neither a file, a folder, nor a row or name of a spec (did you mean"),
        (["run", "nowhere.yaml"], 2, "nowhere.yaml: there is no such spec"),
        (["run", "--resume", "nowhere"], 2, "there is no such run"),
        (["run", "S-F5", "--resume", "x"], 2, "--resume: a run is resumed without specs"),
        (["run", "S-F5", "--set", "trial.window"], 2, "--set trial.window: is not KEY=VALUE"),
        (["run", "S-F5", "--set", "trial.window=1"], 2, "--set trial.window=1: trial.window: '1' has no unit"),
        (["run", "S-F5", "--set", "trial.windw=1 s"], 2, "trial.windw: unknown key; did you mean 'window'?"),
        (["run", "S-F5", "--set", "name.x=1"], 2, "'x' cannot be set: what it belongs to is not a mapping"),
        (["run", "S-F5", "--testbed", "moon"], 2, "moon: there is no such testbed (known: loopback"),
        (["plan", "."], 2, "the folder holds no spec"),
        (["plan", "SANITY", "--set", "factors.cores=[200]"], 2, "must be at most 128, not 200"),
        (
            ["plan", "SANITY", "--set", "factors.cores=[128]"],
            3,
            "no point is left: 128 polling lcores need as many RX queues",
        ),
        (["history", "S-F99"], 2, "S-F99: is neither a file, a folder, nor a row or name of a spec (did you mean"),
        (["history", "S-F5"], 2, "results/s-f5-polling-tax: holds no run folder (measure with `pollscope run`"),
        (["history", "S-F5", "--results", "there"], 2, "there/s-f5-polling-tax: holds no run folder"),
        (["testbed", "status", "moon"], 2, "moon: there is no such testbed"),
        (["testbed", "sideways"], 2, "No such command 'sideways'"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(cli: Cli, arguments: list[str], code: int, message: str) -> None:
    done = cli(*arguments)
    assert done.returncode == code, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("pollscope: ")
    assert message in line
    assert "\x1b[" not in done.stderr
    assert cli.run_folders() == []


def test_nothing_starts_when_one_of_several_specs_is_bad(cli: Cli) -> None:
    bad = cli.spec(SPEC.replace("10 ms", "10"), "bad.yaml")
    done = cli("run", cli.spec(), bad)
    assert done.returncode == 2
    assert f"{bad}:9: trial.window: '10' has no unit" in done.stderr
    assert cli.run_folders() == []


def test_a_spec_for_another_testbed_is_refused(cli: Cli) -> None:
    done = cli("run", cli.spec(SPEC + "testbeds: [pair]\n"))
    assert done.returncode == 2
    assert "is not meant for a testbed of kind 'loopback' (it names pair" in done.stderr


def test_validate_shows_every_problem_on_a_line_of_its_own(cli: Cli) -> None:
    bad = cli.spec("format: 1\nname: X\nrow: s\ntitle: t\nfactor: {}\n")
    done = cli("validate", bad, "S-F5")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 3
    assert all(line.startswith(f"pollscope: {bad}:") for line in done.stderr.strip().splitlines())
    assert done.stdout.strip().endswith("s-f5-polling-tax.yaml: ok")


@pytest.mark.thorough
def test_a_folder_means_all_its_specs(cli: Cli, checkout: Path) -> None:
    done = cli("validate", checkout / "experiments")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(list((checkout / "experiments").rglob("*.yaml")))


def test_shipped_folders_are_found_outside_a_checkout(cli: Cli) -> None:
    assert cli("validate", "experiments/sanity").returncode == 0


def test_schema_is_json_schema_and_knows_the_keys(cli: Cli) -> None:
    schema = json.loads(cli("schema").stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"name", "factors", "trial"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert "window" in schema["$defs"]["TrialTimes"]["properties"]


def test_plan_shows_order_time_and_what_is_left_out(cli: Cli) -> None:
    done = cli("plan", cli.spec(SPEC), "--set", "factors.cores=[1, 128]")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("load: 0 %, 50 % of the maximum, which 2 saturating trials of each configuration")
    assert lines[2].startswith("12 trials, about ")
    assert lines[3].split() == ["1", "maximum:queues=1,cores=1:0"]
    assert sum(line.startswith("left out") for line in lines) == 4


def test_ctrl_c_ends_with_130(cli: Cli) -> None:
    code = """
import os, signal, time
import pollscope.cli, pollscope.cli.schema
def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
pollscope.cli.schema.schema = interrupted
pollscope.cli.main(["schema"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "pollscope: interrupted"


def test_ctrl_c_while_a_model_is_built_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then pydantic raises an error of its own, with the interrupt in its words."""

    def build(_name: str) -> None:
        raise SchemaError('Error building "model" validator:\n  KeyboardInterrupt: ')

    monkeypatch.setattr(importlib, "import_module", build)
    done = pollscope("plan", "S-F5", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "pollscope: interrupted\n")


def test_signals_that_come_together_are_one_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would cut off the restore that the first one starts; a later one is another interrupt."""
    interrupt, now_s = _Interrupt(), 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGTERM, None)
    interrupt(signal.SIGHUP, None)
    now_s += 0.49
    interrupt(signal.SIGINT, None)
    now_s += 0.02
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["signal", "typer"])
def test_ctrl_c_while_it_starts_is_one_line(tmp_path: Path, module: str) -> None:
    """While the first or a later module is loaded."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from pollscope.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "pollscope: interrupted\n")


def test_ctrl_c_while_python_ends_changes_nothing() -> None:
    code = """
import os, signal
import pollscope.cli
class Last:  # goes when modules are taken down, after Python gave up its own handlers
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)
last = Last()
pollscope.cli.main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_colour_only_on_a_terminal(cli: Cli) -> None:
    import pty

    def first_error(environment: dict[str, str]) -> bytes:
        parent, child = pty.openpty()
        subprocess.run([*COMMAND, "rnu"], stderr=child, env=environment, check=False)
        os.close(child)
        try:
            return os.read(parent, 4096)
        finally:
            os.close(parent)

    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    assert b"\x1b[31m" in first_error({**plain, "TERM": "xterm"})
    assert b"\x1b[" not in first_error({**plain, "TERM": "xterm", "NO_COLOR": "1"})


def test_version(cli: Cli) -> None:
    from pollscope import __version__

    assert cli("--version").stdout == f"pollscope {__version__}\n"


def test_the_arithmetic_of_a_papers_own_table_needs_no_run(cli: Cli) -> None:
    done = cli("explain", "--paper", "intrahost")
    assert done.returncode == 0
    assert "reads under way, 2 cores: 96.4, printed 96 (-0.4%)" in done.stdout
    refused = cli("claims", "--paper", "intrahost")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "`pollscope explain --paper` needs none" in refused.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pollscope coll", {"collect"}),
        ("pollscope collect kernel-", {"kernel-load", "kernel-log"}),
        ("pollscope knob get nmi", {"nmi_watchdog"}),
        ("pollscope plan S-F17", {"S-F17a", "S-F17b"}),
        ("pollscope claims --paper so", {"socc19"}),
    ],
)
def test_a_shell_completes_commands_and_names(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, wanted: set[str]
) -> None:
    monkeypatch.setenv("_POLLSCOPE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert set(cli().stdout.split()) == wanted


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "pollscope", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "pollscope")


def test_validate_shows_an_unknown_key_and_what_depends_on_other_keys(cli: Cli) -> None:
    """One kind of problem does not hide the other."""
    spec = SPEC.replace("format: 1\n", "format: 1\ncolour: red\n") + "zip: [[cores, burst]]\n"
    done = cli("validate", cli.spec(spec))
    assert done.returncode == 2
    assert "colour: unknown key" in done.stderr
    assert "zip.0: 'cores' is not a factor of this spec" in done.stderr


def test_validate_warns_of_a_figure_that_could_not_be_drawn(cli: Cli) -> None:
    swept = (
        "format: 1\nname: x\ntitle: t\nparameters: {load_pps: 0}\n"
        "factors: {frame: [64 B, 128 B], burst: [8, 32], queues: [1, 2]}\n"
    )
    done = cli("validate", cli.spec(swept + "show: {x: burst, y: [rx_pps], by: frame}\n"))
    assert done.returncode == 0
    assert "show[0]: queues has several levels and is neither x, by nor at" in done.stderr
    assert "(by: [frame, queues], or at: {queues: 1})" in done.stderr
    for fixed in ("by: [frame, queues]", "by: frame, at: {queues: 1}"):
        assert cli("validate", cli.spec(swept + f"show: {{x: burst, y: [rx_pps], {fixed}}}\n")).stderr == ""
