# SPDX-License-Identifier: BSD-3-Clause
"""Attack with a stranger's run folder: reading or resuming it must not write outside it, run code, or hang."""

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic_run as synthetic
from command_line import pollscope

from pollscope.base.errors import HostError, UsageError
from pollscope.base.paths import cache_folder, is_shipped, kept_folder
from pollscope.base.replacing import written
from pollscope.cli.run_steps import next_steps
from pollscope.host.files import write_through
from pollscope.run.run import resume_run
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run, resume_command
from pollscope.store.writer import RunWriter
from pollscope.testbeds import make_testbed

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic.write_run(tmp_path / "foreign", [synthetic.trial()], status="interrupted")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("keys of the victim\n", encoding="utf-8")
    return file


WRITTEN = (
    ".reserve",
    "run.json.pollscope-new",
    "host_states.jsonl",
    "trials.jsonl",
    "node.log",
    "samples",
    "results.parquet",
)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("kind", ["link", "hard link", "FIFO"])
def test_resume_writes_through_no_link_or_fifo(run: Path, victim: Path, name: str, kind: str) -> None:
    (run / name).unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(run / name)
    else:
        (Path.symlink_to if kind == "link" else Path.hardlink_to)(run / name, victim)
    before = victim.read_bytes(), victim.stat().st_mtime_ns
    said = "neither a file nor a folder" if kind == "FIFO" else "link"
    with pytest.raises(UsageError, match=rf"{name}: .*{said}"), RunWriter.resume(run) as writer:
        writer.update(title="x")
    assert (victim.read_bytes(), victim.stat().st_mtime_ns) == before


@needs_root
@pytest.mark.parametrize("name", [".", "trials.jsonl", "collectors"])
def test_resume_refuses_what_belongs_to_another_user(run: Path, name: str) -> None:
    (run / "collectors").mkdir()
    os.chown(run / name, NOBODY, NOBODY)
    with pytest.raises(UsageError, match="belongs to"), RunWriter.resume(run):
        pass


def test_resume_refuses_a_folder_into_which_every_user_may_write(run: Path) -> None:
    run.chmod(0o777)
    with pytest.raises(UsageError, match="every user may write"), RunWriter.resume(run):
        pass


def test_resume_follows_no_link_that_comes_after_the_check(run: Path, victim: Path) -> None:
    with RunWriter.resume(run) as writer:
        (run / "run.json.pollscope-new").symlink_to(victim)
        writer.update(title="x")
        (run / "trials.jsonl").unlink()
        (run / "trials.jsonl").symlink_to(victim)
        with pytest.raises(HostError, match=r"trials\.jsonl: cannot be written: is a link"):
            writer.append({"trial": "a"})
    assert victim.read_text(encoding="utf-8") == "keys of the victim\n"
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["title"] == "x"


def test_resume_asks_before_it_uses_a_stored_testbed(tmp_path: Path, run: Path) -> None:
    """The file's `command` would be a program chosen by an attacker."""
    testbed = tmp_path / "lab.yaml"
    testbed.write_text(json.dumps({"kind": "loopback"}), encoding="utf-8")
    stored = {"name": "lab", "kind": "loopback", "file": str(testbed)}
    synthetic.write_run(run, [synthetic.trial()], status="interrupted", warnings=[], maxima={}, testbed=stored)
    said: list[str] = []
    with pytest.raises(UsageError, match=rf"testbed.file: names {testbed}.*--testbed {testbed}"):
        resume_run(run, said.append)
    done = pollscope("run", "--resume", run, "--testbed", tmp_path / "other.yaml", cwd=tmp_path)
    assert (done.returncode, "testbed.file: names" in done.stderr) == (2, True)
    # The one that the user names himself is used: the next thing that is wrong is the spec.
    assert "testbed.file" not in pollscope("run", "--resume", run, "--testbed", testbed, cwd=tmp_path).stderr


@pytest.mark.parametrize("name", ["run.json", "trials.jsonl", "host_states.jsonl"])
@pytest.mark.parametrize("kind", ["link", "FIFO", "device"])
def test_reading_opens_only_plain_files(run: Path, name: str, kind: str) -> None:
    (run / name).unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero" if kind == "device" else "/etc/hostname")
    with pytest.raises(UsageError, match=f"{name}: cannot be read: is"):
        read_run(run)


@pytest.mark.parametrize("owner", [pytest.param(NOBODY, marks=needs_root), os.geteuid()])
def test_reading_stores_no_table_where_another_user_may_write(run: Path, owner: int) -> None:
    os.chown(run, owner, -1)
    run.chmod(0o777 if owner == os.geteuid() else 0o755)
    assert len(current_table(read_run(run))) == 1
    assert not (run / "results.parquet").exists()


def test_a_table_is_stored_through_no_link(run: Path, victim: Path) -> None:
    """The old name of the temporary file was `.PID.results.parquet`: a stranger makes links for every PID."""
    for name in (f".{os.getpid()}.results.parquet", "results.parquet"):
        (run / name).symlink_to(victim)
    current_table(read_run(run))
    assert victim.read_text(encoding="utf-8") == "keys of the victim\n"
    assert not (run / "results.parquet").is_symlink()


def test_a_file_that_a_command_writes_follows_no_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / f".{os.getpid()}.report.html").symlink_to(victim)
    with written(tmp_path / "report.html") as new:
        new.write_text("page", encoding="utf-8")
    (tmp_path / "note.pollscope-new").symlink_to(victim)
    write_through(tmp_path / "note", "text")
    assert victim.read_text(encoding="utf-8") == "keys of the victim\n"
    assert (tmp_path / "note").read_text(encoding="utf-8") == "text"
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_file_in_the_current_folder_does_not_replace_a_testbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`loopback` is the default: whoever can put a file into the folder chose hosts and programs."""
    for name in ("loopback", "model-skylake", "pair"):
        (tmp_path / name).write_text(json.dumps({"kind": "pair", "dut": {"host": "evil"}}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert is_shipped(make_testbed("loopback").file) and is_shipped(make_testbed("model-skylake").file)
    with pytest.raises(UsageError, match=r"pair: there is no such testbed .*\./pair is a file here"):
        make_testbed("pair")
    with pytest.raises(UsageError, match=r"^\.?/?loopback"):
        make_testbed("./loopback")


@pytest.mark.parametrize("name", ["run.json", "trials.jsonl"])
@pytest.mark.parametrize(
    "text",
    ["[" * 100_000 + "]" * 100_000, '{"format": 1, "x": NaN}', '{"format": 1, "x": -Infinity}'],
    ids=["nested too deeply", "NaN", "infinity"],
)
def test_text_that_is_not_json_is_refused(run: Path, name: str, text: str) -> None:
    (run / name).write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=f"{name}.* is not JSON"):
        read_run(run)


@pytest.mark.parametrize("name", ["run.json", "trials.jsonl", "host_states.jsonl"])
def test_a_file_with_holes_does_not_fill_the_memory(run: Path, name: str) -> None:
    (run / name).touch()
    os.truncate(run / name, 1 << 43)
    with pytest.raises(UsageError, match=f"{name}: cannot be read: is larger than half of the memory"):
        read_run(run)


@pytest.mark.parametrize("command", [("claims",), ("query", "SELECT row FROM trials")])
def test_a_table_whose_metadata_is_nested_too_deeply_is_derived_again(run: Path, command: tuple[str, ...]) -> None:
    table = pa.table({"row": ["S-F5"]}).replace_schema_metadata({"PANDAS_ATTRS": "[" * 100_000 + "]" * 100_000})
    pq.write_table(table, run / "results.parquet")
    os.utime(run / "results.parquet", (1e10, 1e10))
    done = pollscope(*command, str(run), cwd=run.parent)
    assert done.returncode == 0, done.stderr


def test_a_small_table_with_very_many_rows_is_not_read(run: Path) -> None:
    """A run of equal values takes a few bytes in a file and their full size in the memory."""
    rows = pa.table({"row": pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int8()), ["S-F5"])})
    with pq.ParquetWriter(run / "results.parquet", rows.schema) as writer:
        for _ in range(150):
            writer.write_table(rows)
    os.utime(run / "results.parquet", (1e10, 1e10))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory_bytes() + (1 << 30), before[1]))
    try:
        assert len(current_table(read_run(run))) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _memory_bytes() -> int:
    """Return the address space that this process has now (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_a_command_that_is_printed_quotes_the_folder(run: Path) -> None:
    folder = run.rename(run.with_name("$(touch owned)"))
    assert resume_command(folder).endswith(f"--resume '{folder}'")
    assert f"pollscope report '{folder}' " in next_steps(folder)


def test_a_run_whose_keys_have_other_types_is_refused_in_one_line(run: Path) -> None:
    for change, said in (
        ({"row": 5}, "row: "),
        ({"testbed": "x"}, "testbed: "),
        ({"testbed": {"name": 5}}, "testbed.name: "),
        ({"plan": "x"}, "plan: "),
        ({"overrides": {"quick": 1}}, "overrides.quick: "),
        ({"units": {"rx_pps": 7}}, "units.rx_pps: "),
    ):
        synthetic.write_run(run, [synthetic.trial()], **change)
        with pytest.raises(UsageError, match=f"run.json: {said}"):
            read_run(run)


def test_a_copy_without_links_can_be_resumed(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy")
    RunWriter.resume(tmp_path / "copy").close()


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": [{"cpus": [0], "round_trips": 32, "cycles": [9]}], "cores": []},
        {"lines": [{"cpus": [0, 1], "round_trips": 32, "cycles": []}], "cores": []},
        {"lines": [{"cpus": [0, 1], "round_trips": 0, "cycles": [9]}], "cores": []},
    ],
    ids=["one CPU", "no batch", "no round trip"],
)
def test_a_host_state_check_that_measured_nothing_is_refused(run: Path, damage: dict[str, object]) -> None:
    check = {**synthetic.host_check(0), "hosts": [damage]}
    synthetic.write_run(run, [synthetic.trial()], [check])
    with pytest.raises(UsageError, match=r"hosts\[0\]\.lines\[0\]"):
        current_table(read_run(run))


@needs_root
@pytest.mark.parametrize("kind", ["owner", "mode", "link"])
def test_root_restores_nothing_from_a_journal_that_another_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: Path, kind: str
) -> None:
    """The knob's file is `sys/devices/system/cpu/cpufreq/TARGET/scaling_governor`, and the target leads elsewhere."""
    policies = tmp_path / "root/sys/devices/system/cpu/cpufreq"
    policies.mkdir(parents=True)
    victim = victim.rename(tmp_path / "scaling_governor")
    journal = tmp_path / "root/state/knobs/run.journal"
    journal.parent.mkdir(parents=True)
    header = {"journal": 1, "what": "", "pollscope": "", "pid": 1, "start_ticks": 1, "boot_id": "", "at_utc": ""}
    target = os.path.relpath(tmp_path, policies)
    change = {"event": "set", "entry": 1, "knob": "governor", "target": target, "old": "of the stranger", "new": "x"}
    journal.write_text(f"{json.dumps(header)}\n{json.dumps(change)}\n", encoding="utf-8")
    if kind == "owner":
        os.chown(journal, NOBODY, NOBODY)
    elif kind == "mode":
        journal.chmod(0o666)
    else:
        journal.symlink_to(journal.rename(tmp_path / "elsewhere"))
    done = pollscope("knob", "--root", str(tmp_path / "root"), "restore", cwd=tmp_path)
    assert victim.read_text(encoding="utf-8") == "keys of the victim\n"
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr


@needs_root
@pytest.mark.parametrize("kind", ["owner", "mode"])
@pytest.mark.parametrize(("variable", "named"), [("XDG_CACHE_HOME", cache_folder), ("XDG_STATE_HOME", kept_folder)])
def test_a_cache_that_another_user_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, named: Callable[[], Path], kind: str
) -> None:
    """Plays and programs in it are started, and a shell of `su` keeps the variables of the user who began it."""
    monkeypatch.setattr("pollscope.base.paths.INSTALLED", True)
    place = tmp_path / "theirs"
    place.mkdir()
    monkeypatch.setenv(variable, str(place))
    assert named() == place / "pollscope"
    os.chown(place, *((NOBODY, NOBODY) if kind == "owner" else (0, 0)))
    place.chmod(0o755 if kind == "owner" else 0o777)
    with pytest.raises(HostError, match=f"another user can write to this folder.*unset {variable}"):
        named()
