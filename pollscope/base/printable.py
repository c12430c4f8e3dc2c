# SPDX-License-Identifier: BSD-3-Clause
"""Prevent text from hosts, runs and specs from controlling the terminal: show escape sequences as characters."""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

# Bold, dim, italic, underline and the six colours, which rich and typer write. They cannot hide text.
_STYLE = r"\x1b\[(?:[0-4]|3[1-6])?(?:;(?:[0-4]|3[1-6]))*m"
# Control characters except tab and line feed, 8-bit controls, and the characters that reorder a line (Unicode TR 9).
_UNSAFE = re.compile(rf"({_STYLE})|[\x00-\x08\x0b-\x1f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text in which Python escapes replace each character that could control a terminal."""
    return _UNSAFE.sub(lambda found: found[1] or found[0].encode("unicode_escape").decode(), text)


class PrintableStream:
    """A stream that writes printable text to another stream, `unfiltered`."""

    def __init__(self, stream: IO[str]) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        """Write the text and return its length."""
        self.unfiltered.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes would bypass the filter
            raise AttributeError(name)
        return getattr(self.unfiltered, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Filter standard output and standard error."""
    with (
        contextlib.redirect_stdout(PrintableStream(sys.stdout)),
        contextlib.redirect_stderr(PrintableStream(sys.stderr)),
    ):
        yield
