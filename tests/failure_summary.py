# SPDX-License-Identifier: BSD-3-Clause
"""Shorten a long output for a failed test."""

import re
from pathlib import Path

# Lines of pytest's short summary, its last line, and errors of make.
FAILURE = re.compile(r"^(FAILED |ERROR |make(\[\d+\])?: \*\*\*|=+ .*(passed|failed|error).* =+$)")
END_LINES = 20


def failure_summary(shown: str, log: Path) -> str:
    """Write the whole output to `log`; return its path, the lines that say what failed, and the last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(shown)
    lines = shown.splitlines()
    failures = [line for line in lines if FAILURE.match(line)]
    return "\n".join([f"the whole output: {log}", *failures, "it ended with:", *lines[-END_LINES:]])
