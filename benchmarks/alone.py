# SPDX-License-Identifier: BSD-3-Clause
"""Run a program that measures while nothing else of pollscope does: `alone.py PROGRAM...` (make bench).

Waits for a run, for tests that measure and for another benchmark, and says for which. The program gets a state folder
of its own, so that the runs it starts are not refused.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pollscope.base.errors import PollscopeError
from pollscope.host.lock import STATE_VARIABLE, HostLock


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM...")
    command = parser.parse_args().command
    if not command:
        parser.error("PROGRAM is missing")
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
