# SPDX-License-Identifier: BSD-3-Clause
"""Test a laptop with only Python and SSH: the wheel in a virtual environment of its own, without compiler and DPDK.

Its dependencies are those of this environment, by their folder; all else is as `pip install` leaves it.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pytest
from pair_hosts import SPEC, pair_config, written
from ssh_host import running_sshd
from test_playbook_ssh import make_archive
from test_setup_packaging import files_in_git

from pollscope.store.run_folder import read_run

pytestmark = pytest.mark.timeout(600)
# The tools of a bare system, and OpenSSH. No compiler.
TOOLS = """sh env ls cat chmod cp mv rm ln mkdir rmdir mktemp dirname readlink tar gzip sed sort head tail grep find
id uname ssh sftp sha256sum getent prlimit paste tr"""
CHECKOUT_SDK = Path(__file__).resolve().parent.parent / ".cache/driver-sdk"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
# One process for all: imports take longer than these commands.
EACH = """
from pollscope.cli import main
for command in (
    "--version",
    "schema",
    "validate S-F5",
    "plan S-F5 --testbed model --quick",
    "testbed example pair",
    "claims run",
    "report run --out report.html",
):
    try:
        main(command.split())
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""
COMPILERS = ("cc", "gcc", "meson", "ninja", "pkg-config")


@dataclass(frozen=True)
class Laptop:
    """One user on it."""

    folder: Path
    venv: Path

    @property
    def package(self) -> Path:
        return next(self.venv.glob("lib/python3.*/site-packages"))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder / "home"),
            "PATH": f"{self.venv / 'bin'}:{self.folder / 'tools'}",
            "POLLSCOPE_STATE_DIR": str(self.folder / "state"),
            "LC_ALL": "C.UTF-8",
            "MPLCONFIGDIR": matplotlib.get_cachedir(),  # with its list of fonts, which takes long to make
        }

    def start(self, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one command; it never ends with a traceback."""
        code = "from pollscope.cli import main; main()"
        done = subprocess.run(
            [self.venv / "bin/python", "-c", code, *words],
            cwd=self.folder / "home",
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def python(self, code: str) -> str:
        """Return what some lines of Python print."""
        command = [str(self.venv / "bin/python"), "-c", code]
        home = self.folder / "home"
        done = subprocess.run(command, cwd=home, env=self.environment, capture_output=True, text=True, check=True)
        return str(done.stdout).strip()

    def does(self, *words: str | Path) -> str:
        done = self.start(*words)
        assert done.returncode == 0, f"{words}\n{(done.stdout + done.stderr)[-3000:]}"
        return done.stdout

    def refuses(self, *words: str | Path) -> str:
        """Check for exit code 3 and one line."""
        done = self.start(*words)
        lines = [line for line in done.stderr.splitlines() if line.startswith("pollscope: ")]
        assert (done.returncode, len(lines)) == (3, 1), done.stderr
        return lines[0]

    def installed(self) -> dict[str, int]:
        """Return everything that the installation wrote, with its times."""
        files = (path for path in self.package.rglob("*") if "__pycache__" not in path.parts)
        return {str(path): path.stat().st_mtime_ns for path in files if path.is_file()}


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout, in a copy without git: a build writes beside its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "copy").mkdir()
    names = [name for name in files_in_git(checkout) if not name.startswith("tests/")]
    subprocess.run(["cp", "-a", "--parents", *names, folder / "copy"], cwd=checkout, check=True)
    build = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), str(folder / "copy")]
    subprocess.run([*PIP, *build], check=True)
    return next(folder.glob("pollscope-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with the wheel."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next(venv.glob("lib/python3.*/site-packages"))
    # Only the folder: files of an editable installation beside the packages are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True)
    playbook = venv / "bin/ansible-playbook"
    playbook.write_text(f"#!{venv}/bin/python\nfrom ansible.cli.playbook import main\nmain()\n")
    playbook.chmod(0o755)
    return venv


@pytest.fixture
def laptop(installed: Path, tmp_path: Path) -> Laptop:
    (tmp_path / "home").mkdir()
    (tmp_path / "tools").mkdir()
    for name in TOOLS.split():
        (tmp_path / "tools" / name).symlink_to(str(shutil.which(name)))
    assert not any(shutil.which(name, path=str(tmp_path / "tools")) for name in COMPILERS)
    return Laptop(tmp_path, installed)


def test_it_holds_every_file_of_the_package(checkout: Path, wheel: Path) -> None:
    tops = {"pollscope/": "", "experiments/": "pollscope/", "configs/": "pollscope/", "data/": "pollscope/"}
    tops |= dict.fromkeys(("apps/", "playbooks/", "ansible.cfg", "requirements.lock"), "pollscope/sources/")
    names = [name for name in files_in_git(checkout) if not name.startswith("data/runs/whole/")]
    wanted = {place + name for name in names for top, place in tops.items() if name.startswith(top)}
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_commands_without_programs_work(laptop: Laptop, checkout: Path) -> None:
    before = laptop.installed()
    shutil.copytree(checkout / "data/runs/s-f5-polling-tax", laptop.folder / "home/run")
    assert laptop.python("import pollscope; print(pollscope.__file__)").startswith(str(laptop.package))
    said = laptop.python(EACH)
    assert "s-f5-polling-tax.yaml: ok" in said
    assert "queues=8" in said
    assert "\n# SPDX" in said
    assert (laptop.folder / "home/report.html").is_file()
    assert "inventory-intel" in laptop.start("testbed", "example", "inventory").stderr
    assert laptop.installed() == before


VM_PLACES = """
from pollscope.testbeds.vm.image import Recipe
from pollscope.testbeds.vm.testbed import images_folder, vm_folder
recipe = Recipe("trixie", images_folder())
print(vm_folder(), recipe.system.parent, recipe.disk.parent)
"""


@pytest.mark.thorough
def test_machines_and_their_images_are_kept_in_the_users_folders(laptop: Laptop) -> None:
    before, home = laptop.installed(), laptop.folder / "home"
    machines, images = home / ".local/state/pollscope/vm", home / ".cache/pollscope/vm"
    assert laptop.python(VM_PLACES) == f"{machines} {images} {images}"
    laptop.start("testbed", "status", "vm-pair")
    said = laptop.refuses("testbed", "up", "vm-pair")
    assert "site-packages" not in said
    assert laptop.installed() == before


@pytest.mark.thorough
def test_commands_that_need_a_program_name_the_command_that_builds_it(laptop: Laptop) -> None:
    place = laptop.folder / "home/.cache/pollscope/builds"
    said = laptop.refuses("run", "S-F5", "--quick")
    assert said.startswith(f"pollscope: {place}/")
    assert said.endswith("pollscope-node is not built (pollscope build)")
    for command in (["doctor"], ["testbed", "check"]):
        done = laptop.start(*command)
        assert done.returncode == 3
        assert "(pollscope build)" in " ".join(done.stdout.split())
    said = laptop.refuses("build")
    assert "there is no cc, no meson, no ninja, no pkg-config (apt-get install gcc " in said
    assert not place.exists()


@pytest.mark.thorough
def test_plays_make_a_host_ready_and_restore_it(laptop: Laptop, tmp_path: Path) -> None:
    before = laptop.installed()
    host_folder = tmp_path / "host"
    host_folder.mkdir()
    make_archive(tmp_path / "release.tar.gz")
    with running_sshd(host_folder, {"POLLSCOPE_STATE_DIR": str(tmp_path / "plays")}) as sshd:
        host = sshd.ansible()
        variables = {
            "pollscope_nics": ["0000:17:00.0"],
            "pollscope_roles": ["pollscope_apps"],
            "pollscope_apps_archive": str(tmp_path / "release.tar.gz"),
            "pollscope_apps_prefix": str(tmp_path / "opt"),
        }
        groups = {"all": {"vars": variables}, "dut": {"hosts": {"here": host}}, "generator": {"hosts": {"here": host}}}
        inventory = written(tmp_path / "hosts.yml", groups)
        assert "here: " in laptop.does("play", "provision", "-i", inventory)
        assert (tmp_path / "opt/current/bin/pollscope-node").is_file()
        laptop.does("play", "restore", "-i", inventory)
    assert not (tmp_path / "opt").exists()
    home = laptop.folder / "home"
    assert (home / ".local/state/pollscope/plays/provision.log").stat().st_size > 0
    (tree,) = (home / ".cache/pollscope/sources").iterdir()
    assert (tree / "pollscope/base/paths.py").is_file() and os.access(tree / "playbooks/build-release", os.X_OK)
    assert laptop.installed() == before


@pytest.mark.thorough
def test_a_pair_is_measured_without_any_program_here(laptop: Laptop, tmp_path: Path) -> None:
    before = laptop.installed()
    (tmp_path / "host").mkdir()
    (laptop.folder / "home/spec.yaml").write_text(SPEC)
    with running_sshd(tmp_path / "host") as sshd:
        config = pair_config(sshd, tmp_path / "hosts")
        for role in ("dut", "generator"):
            config[role]["pollscope"] = None  # the wheel of this checkout, which has the same version
        testbed = written(tmp_path / "lab.yaml", config)
        done = laptop.start("testbed", "check", testbed, "--json")
        rows = {(row["host"], row["what"]): row["state"] for row in json.loads(done.stdout)}
        assert rows["dut", "login"] == rows["dut", "node program"] == "yes"
        assert "pair-ends" in laptop.does("plan", "spec.yaml", "--testbed", testbed)
        laptop.does("run", "spec.yaml", "--testbed", testbed)
    (folder,) = (laptop.folder / "home/results/pair-ends").iterdir()
    run = read_run(folder)
    assert run.meta["status"] == "complete" and [trial["status"] for trial in run.trials] == ["ok", "ok"]
    laptop.does("report", "latest", "--out", "report.html")
    assert laptop.installed() == before


# Replaces the compilation; the sources are packed by the real program.
STAND_IN = """#!/bin/sh
here=$(dirname "$0")
[ "$1" != --sources ] || exec "$here/as-it-is" "$@"
[ "${DRIVER:-}" = none ] && [ -f "$here/../apps/meson.build" ] && [ -f "$here/../pollscope/base/paths.py" ] || exit 9
[ -z "${LACKS:-}" ] || { echo "build-release: the programs cannot be built: no DPDK" >&2; exit 3; }
mkdir -p bin && cp /bin/true bin/pollscope && cp /bin/true bin/pollscope-node && tar -czf "$1" bin
"""


@pytest.mark.thorough
def test_programs_are_built_on_the_hosts_of_a_pair(laptop: Laptop, tmp_path: Path) -> None:
    tree = laptop.python("from pollscope.base.source_tree import source_tree; print(source_tree())")
    script = Path(tree) / "playbooks/build-release"
    script.rename(script.with_name("as-it-is"))
    script.write_text(STAND_IN)
    script.chmod(0o755)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    there = tmp_path / "there"
    with running_sshd(tmp_path / "first", {"XDG_CACHE_HOME": str(there)}) as sshd:
        testbed = written(tmp_path / "lab.yaml", pair_config(sshd, tmp_path / "hosts"))
        shown = laptop.does("build", testbed)
        (release,) = (there / "pollscope/releases").iterdir()
        line = f"{{program: {release}/bin/pollscope-node, pollscope: {release}/bin/pollscope}}"
        assert shown.splitlines() == [f"dut: {line}", f"generator: {line}"]
        (release / "mark").touch()
        assert laptop.does("build", testbed) == shown
        assert (release / "mark").exists(), "it was built a second time"
    with running_sshd(tmp_path / "second", {"XDG_CACHE_HOME": str(tmp_path / "other"), "LACKS": "yes"}) as sshd:
        testbed = written(tmp_path / "lab.yaml", pair_config(sshd, tmp_path / "hosts"))
        assert laptop.refuses("build", testbed).startswith("pollscope: dut: the programs cannot be built: no DPDK (")
        assert list((tmp_path / "other/pollscope/releases").iterdir()) == []
        sshd.stop()
        assert "(pollscope testbed check)" in laptop.refuses("build", testbed)
    begun = [
        path for path in Path("/var/tmp").glob("pollscope-build.*") if path.stat().st_mtime > script.stat().st_mtime
    ]
    assert begun == []


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_programs_are_built_here_from_what_the_wheel_carries(laptop: Laptop) -> None:
    """For real; skipped where this checkout could not be built, either."""
    if not all(shutil.which(name) for name in COMPILERS) or not CHECKOUT_SDK.is_dir():
        pytest.skip("no compiler, or no headers of the driver SDK (make build)")
    before = laptop.installed()
    path = f"{laptop.venv / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "DPDK_DRIVER_SDK": str(CHECKOUT_SDK), "CCACHE_DIR": os.environ["CCACHE_DIR"]}
    first = laptop.start("build", **environment)
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.strip())
    assert folder.parent == laptop.folder / "home/.cache/pollscope/builds"
    node = folder / "pollscope-node"
    made = node.stat().st_mtime_ns
    assert laptop.start("build", **environment).stdout == first.stdout
    assert node.stat().st_mtime_ns == made, "what is built is not built again"
    # Without a compiler on PATH it is found, and starts.
    assert laptop.python("from pollscope.base.paths import node_program; print(node_program())") == str(node)
    hello = subprocess.run(
        [node, "--lcores", "0@0", "--no-pci", "--no-huge", "-m", "64", "--file-prefix", f"wheel{os.getpid()}"],
        input='{"cmd": "quit"}\n',
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(hello.stdout.splitlines()[0])["tsc_hz"] > 0
    assert laptop.installed() == before
