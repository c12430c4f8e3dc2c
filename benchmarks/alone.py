# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program that measures while nothing else of pollscope does: `alone.py PROGRAM...` (make bench).

It waits for a run, for tests that measure and for another benchmark, and says for which. The program has a state folder
of its own, so that what it starts itself is not refused.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pollscope.base.errors import PollscopeError
from pollscope.host.lock import STATE_VARIABLE, HostLock


def main() -> int:
    command = sys.argv[1:]
    try:
        with HostLock(f"benchmark {Path(command[0]).name}").wait(_say), tempfile.TemporaryDirectory() as state:
            return subprocess.run(command, env={**os.environ, STATE_VARIABLE: state}, check=False).returncode
    except PollscopeError as error:
        _say(str(error))
        return int(error.exit_code)


def _say(text: str) -> None:
    print(f"pollscope: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
