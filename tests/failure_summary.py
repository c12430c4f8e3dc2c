# SPDX-License-Identifier: BSD-3-Clause
"""What of a long output a failed test shows: where all of it is, and the lines that say what failed."""

import re
from pathlib import Path

# Of pytest's short summary and its last line, and of make.
TELLING = re.compile(r"^(FAILED |ERROR |make(\[\d+\])?: \*\*\*|=+ .*(passed|failed|error).* =+$)")
END_LINES = 20


def failure_summary(shown: str, log: Path) -> str:
    """Writes the whole output to `log`; returns its path, the lines that say what failed, and the last ones."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(shown)
    lines = shown.splitlines()
    telling = [line for line in lines if TELLING.match(line)]
    return "\n".join([f"all of it: {log}", *telling, "it ended with:", *lines[-END_LINES:]])
