# SPDX-License-Identifier: BSD-3-Clause
"""Runs `pollscope` as a user does, against the fake node or the real one, with a host lock of its own."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from command_line import Done, pollscope

from pollscope.store.run_folder import RunFolder, read_run

FAKE_NODE = Path(__file__).parent / "fake_node.py"
COMMAND = [sys.executable, "-c", "from pollscope.cli import main; main()"]
SPEC = """\
format: 1
name: faults
row: S-F5
title: t
parameters: {generator_receives: false}
factors:
  queues: [1, 2]
  load_of_max: [0 %, 50 %]
trial: {warmup: 0 ms, window: 10 ms, drain: 0 ms}
repeats: {count: 2}
maximum: {repeats: 2}
order: {randomise: false}
"""


@dataclass
class Cli:
    """A command line in a folder of its own.

    Attributes:
        folder: working directory; run folders are made in `folder/results`.
        node: the node program.
        faults: what the fake node does wrong (see fake_node.py).
        inside: command with which `start` starts a command in another place.
    """

    folder: Path
    node: Path = FAKE_NODE
    faults: dict[str, Any] | None = None
    inside: Sequence[str] = ()

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "POLLSCOPE_NODE": str(self.node),
            "POLLSCOPE_STATE_DIR": str(self.folder / "state"),
            "FAKE_NODE": json.dumps(self.faults or {}),
            "FAKE_NODE_LOG": str(self.folder / "nodes"),
            "COLUMNS": "200",
        }
        return {**os.environ, **own}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        words = [*self.inside, *COMMAND, *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, text=True, stdout=pipe, stderr=pipe)

    def __call__(self, *arguments: str | Path) -> Done:
        """Run a command to its end inside the test's process."""
        with patch.dict(os.environ, self.environment):
            done = pollscope(*arguments, cwd=self.folder)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def ends(self, code: int, *arguments: str | Path) -> Done:
        """Run a command that has to end with this exit code."""
        done = self(*arguments)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def ran(self, *arguments: str | Path) -> RunFolder:
        """Run or resume the only run here, which has to be complete then."""
        self.ends(0, "run", *arguments)
        run = self.only_run()
        assert_complete(run)
        return run

    def resumed(self) -> RunFolder:
        """Complete the only run, with a node that does nothing wrong."""
        self.faults = None
        return self.ran("--resume", self.run_folders()[0])

    def spec(self, text: str = SPEC, name: str = "spec.yaml") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def run_folders(self) -> list[Path]:
        return sorted((self.folder / "results").glob("*/*"))

    def only_run(self) -> RunFolder:
        folders = self.run_folders()
        assert len(folders) == 1, folders
        return read_run(folders[0])

    def nodes_alive(self) -> list[int]:
        started = [int(line) for line in (self.folder / "nodes").read_text().split()]
        return [pid for pid in started if Path(f"/proc/{pid}").exists()]


def last_attempts(run: RunFolder) -> dict[str, dict[str, Any]]:
    return {trial["trial"]: trial for trial in run.trials}


def assert_complete(run: RunFolder) -> None:
    """Check that every planned trial is there exactly once as data, and nothing else is."""
    assert run.meta["status"] == "complete"
    good = Counter(trial["trial"] for trial in run.trials if trial["status"] != "failed")
    assert good == Counter(run.meta["plan"])
