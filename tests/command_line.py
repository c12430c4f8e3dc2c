# SPDX-License-Identifier: BSD-3-Clause
"""Runs a pollscope command inside the test's process, which saves loading the numerical packages again."""

import io
import os
import signal
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from pollscope.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """Return both outputs."""
        return self.stdout + self.stderr


def pollscope(*arguments: str | Path, cwd: Path) -> Done:
    """Run one command in a folder; only SystemExit may come out of it."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            main([os.fspath(argument) for argument in arguments])
    except SystemExit as end:
        return Done(int(end.code or 0), out.getvalue(), err.getvalue())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    raise AssertionError("main() returned")
