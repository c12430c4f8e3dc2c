# SPDX-License-Identifier: BSD-3-Clause
"""Give mutated and hostile run folders to the commands that read or resume a run.

    python tests/fuzz/fuzz_runs.py --seconds N [--seed S] [--rounds N]

Each round changes a small run folder at random (its texts, its JSON values, the bytes of its table; links, FIFOs and
folders in place of its files) and gives it to one command. A finding is an exception that leaves the command, an exit
code that is not documented, a command that takes more than 60 s, a program that is started, or a write outside the run
folder and the folder of the output. Print the number of rounds per command and how many were refused; end with 1 and
keep the folder when there is a finding.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import synthetic_run as synthetic  # (path set above)
from command_line import Done, pollscope
from mutations import ODD_JSON, SPICE, edit_node, mutate

from pollscope.base.errors import HostError
from pollscope.host.lock import STATE_VARIABLE
from pollscope.run.execution import Execution
from pollscope.testbeds.loopback import LoopbackTestbed

CHECKOUT = Path(__file__).resolve().parent.parent.parent
RECORDED = sorted(path.parent for path in (CHECKOUT / "data" / "runs").glob("*/run.json"))
LIMIT_S = 60
KEPT_LINES = 3
COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "RUN", "--out", "OUT/page.html"),
    "claims": ("claims", "RUN", "--all"),
    "figures": ("figures", "RUN", "--out", "OUT/figures"),
    "explain": ("explain", "RUN"),
    "query": ("query", "FROM trials", "RUN"),
    "history": ("history", "RUN"),
    "resume": ("run", "--resume", "RUN"),
}
DEEP = "[" * 3000 + "]" * 3000
HUGE = (10**400, -(10**30), 2**63, 1e308, -1e308, 5e-324, "<script>alert(1)</script>", "\x1b]0;x\x07", "../" * 9 + "x")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


# They describe this host and this checkout in run.json.
PROGRAMS = ("lscpu", "git", "ethtool")


class Hang(Exception):
    """A command took too long."""


class Watch:
    """An audit hook (PEP 578) that notes programs that are started and writes outside the allowed folders."""

    def __init__(self) -> None:
        self.allowed: list[str] = []
        self.seen: list[str] = []
        self.active = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pty.spawn"):
            if Path(os.fsdecode(arguments[0])).name not in PROGRAMS:
                self.seen.append(f"{event}: {arguments[:2]!r}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            self._written(event, arguments[0])
        elif event in ("os.rename", "os.link", "os.symlink"):
            self._written(event, arguments[1])
        elif event in ("os.remove", "os.mkdir", "os.rmdir"):
            self._written(event, arguments[0], arguments[-1])
        elif event in ("os.chmod", "os.chown", "os.truncate", "shutil.rmtree"):
            self._written(event, arguments[0])

    def _written(self, event: str, path: object, beside: int = -1) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            # A link in the last place is replaced or removed, not followed: its folder decides.
            named = Path(f"/proc/self/fd/{beside}" if beside >= 0 else "", os.fsdecode(path))
            place = str(named.resolve() if event == "open" else named.parent.resolve() / named.name)
            if not place.startswith(tuple(self.allowed)):
                self.seen.append(f"{event}: {place}")


def make_seeds(folder: Path) -> list[Path]:
    """Write small run folders to start from: synthetic ones, and recorded ones cut to a few trials."""
    trials = [synthetic.trial(f"t{r}{q}", f"queues={q}", r, {"queues": q}) for r in range(3) for q in (1, 2)]
    checks = [synthetic.host_check(number) for number in range(2)]
    seeds = [synthetic.write_run(folder / "synthetic", trials, checks)]
    for run in RECORDED:
        copy = folder / run.name
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("*.parquet"))
        for file in copy.glob("*.jsonl"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            file.write_text("".join(lines[:KEPT_LINES]), encoding="utf-8")
        meta = json.loads((copy / "run.json").read_text(encoding="utf-8"))
        meta["status"] = "interrupted"
        meta["testbed"]["file"] = str(CHECKOUT / "configs/testbeds/loopback.yaml")
        (copy / "run.json").write_text(json.dumps(meta), encoding="utf-8")
        seeds.append(copy)
    for words in COMMANDS.values():  # stores tables in the seeds, and starts helpers of libraries before the watch
        for seed in seeds if words[0] == "query" else seeds[:1]:
            pollscope(*(word.replace("RUN", str(seed)).replace("OUT", str(folder)) for word in words), cwd=folder)
    return seeds


def _pick(source: random.Random, run: Path, pattern: str) -> Path:
    """Choose a file that no edit before this one has replaced."""
    return source.choice(sorted(path for path in run.glob(pattern) if path.is_file() and not path.is_symlink()))


def _edit_texts(source: random.Random, run: Path, _victim: Path) -> None:
    file = _pick(source, run, "*.json*")
    text = file.read_text(encoding="utf-8")
    file.write_text(mutate(source, text, [text]), encoding="utf-8")


def _edit_values(source: random.Random, run: Path, _victim: Path) -> None:
    file = _pick(source, run, "*.json*")
    lines = file.read_text(encoding="utf-8").splitlines() if file.suffix == ".jsonl" else [file.read_text("utf-8")]
    for _ in range(source.randint(1, 4)):
        number = source.randrange(len(lines))
        try:
            document = json.loads(lines[number])
        except (ValueError, RecursionError):
            continue
        edit_node(source, document, (*ODD_JSON, *HUGE, *SPICE))
        lines[number] = json.dumps(document)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _edit_bytes(source: random.Random, run: Path, _victim: Path) -> None:
    """Change the table and make it the newest file, so that it is read."""
    table = _pick(source, run, "results.parquet")
    content = bytearray(table.read_bytes())
    for _ in range(source.randint(1, 20)):
        content[source.randrange(len(content))] = source.randrange(256)
    table.write_bytes(content[: source.choice([len(content), len(content), source.randrange(len(content))])])
    later = time.time_ns() + 10**12
    os.utime(table, ns=(later, later))


def _plant(source: random.Random, run: Path, victim: Path) -> None:
    """Put something else in the place of a file, or of a temporary file whose name can be foretold."""
    others = (".reserve", "run.json.pollscope-new", "node.log", "report.html", "samples", "collectors", "figures")
    place = run / source.choice((*sorted(path.name for path in run.iterdir()), *others))
    target = source.choice([victim, Path("/dev/zero"), Path("/etc/passwd"), run.parent / "nothing"])
    place.unlink(missing_ok=True)
    kind = source.choice(["link", "link", "hard link", "FIFO", "folder", "deep", "empty"])
    if kind == "link":
        place.symlink_to(target)
    elif kind == "hard link":
        place.hardlink_to(victim)
    elif kind == "FIFO":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.write_text(DEEP if kind == "deep" else "", encoding="utf-8")


EDITS: tuple[Callable[[random.Random, Path, Path], None], ...] = (
    *(_edit_values,) * 4,
    _edit_texts,
    _edit_bytes,
    _plant,
    _plant,
)


class Fuzzer:
    """Rounds in one folder.

    Args:
        folder: for the runs and their outputs.
        seed: of the random choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.source = folder, random.Random(seed)
        self.count, self.refused = Counter[str](), 0
        (folder / "seeds").mkdir()
        self.seeds = make_seeds(folder / "seeds")
        self.victim = folder / "victim"
        self.victim.write_text("of the victim\n", encoding="utf-8")
        self.watch = Watch()

    def round(self) -> str:
        """Make one round; return the finding, or an empty text."""
        run, out = self.folder / "run", self.folder / "out"
        for old in (run, out):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.source.choice(self.seeds), run)
        out.mkdir()
        for _ in range(self.source.choice((1, 1, 1, 2, 3))):
            try:
                self.source.choice(EDITS)(self.source, run, self.victim)
            except (OSError, ValueError, IndexError):  # an earlier edit removed the value that this one changes
                continue
        before = self.victim.read_bytes(), self.victim.stat().st_mtime_ns
        name = self.source.choice(list(COMMANDS))
        words = [word.replace("RUN", str(run)).replace("OUT", str(out)) for word in COMMANDS[name]]
        self.watch.allowed = [str(run), str(out), str(self.folder / "temporary"), "/dev/null", "/dev/shm"]
        self.watch.seen = []
        finding = self._finding(words)
        if not finding and (self.victim.read_bytes(), self.victim.stat().st_mtime_ns) != before:
            finding = "the victim's file was changed"
        if not finding and self.watch.seen:
            finding = "; ".join(self.watch.seen[:3])
        self.count[name] += 1
        return f"{' '.join(words)}: {finding}" if finding else ""

    def _finding(self, words: list[str]) -> str:
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        self.watch.active = True
        try:
            done = pollscope(*words, cwd=self.folder)
        except Hang:
            return f"longer than {LIMIT_S} s"
        except BaseException:  # any exception that leaves a command is a finding
            return traceback.format_exc()
        finally:
            self.watch.active = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        return self._wrong_with(done)

    def _wrong_with(self, done: Done) -> str:
        if done.returncode not in (0, 1, 2, 3):
            return f"exit code {done.returncode}: {done.stderr}"
        self.refused += done.returncode > 1
        if "Traceback" in done.stderr:
            return done.stderr
        if "\x1b]" in done.stdout + done.stderr:
            return "an escape sequence reaches the terminal"
        return ""


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def _no_trial(_execution: Execution) -> None:
    raise HostError("no trial is made here")


def fuzz(seconds: float, seed: int, rounds: int | None = None) -> tuple[Fuzzer, str]:
    """Make rounds until the seconds are over, or this number; return the fuzzer and its first finding."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-runs-"))
    (folder / "temporary").mkdir()
    signal.signal(signal.SIGALRM, _too_long)
    environment = {STATE_VARIABLE: str(folder / "temporary"), "MPLCONFIGDIR": str(folder / "temporary")}
    with (
        patch.dict(os.environ, environment),
        patch.object(tempfile, "tempdir", str(folder / "temporary")),
        patch.object(Execution, "execute", _no_trial),
        patch.object(LoopbackTestbed, "check", lambda _testbed: None),
    ):
        fuzzer, finding, end = Fuzzer(folder, seed), "", time.monotonic() + seconds
        while not finding and (fuzzer.count.total() < rounds if rounds else time.monotonic() < end):
            finding = fuzzer.round()
    if finding:
        finding = f"{finding}\n(seed {seed}; the run is in {folder}/run)"
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return fuzzer, finding


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=5.0, help="for all commands together")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--rounds", type=int, help="number of rounds to make instead")
    given = arguments.parse_args()
    print(f"seed {given.seed}", flush=True)
    fuzzer, finding = fuzz(given.seconds, given.seed, given.rounds)
    each = ", ".join(f"{name} {number}" for name, number in sorted(fuzzer.count.items()))
    print(f"{fuzzer.count.total()} rounds, {fuzzer.refused} refused: {each}")
    if finding:
        print(finding, file=sys.stderr)
    return int(bool(finding))


if __name__ == "__main__":
    sys.exit(main())
