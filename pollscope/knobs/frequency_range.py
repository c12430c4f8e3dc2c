# SPDX-License-Identifier: BSD-3-Clause
"""Knobs that are a lower and an upper limit of a clock, each a file in kHz."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from pollscope.knobs.base import FileKnob, in_order
from pollscope.knobs.host import read_text, write_text


class FrequencyRange(FileKnob):
    """A value is the lower and the upper limit in kHz, "1200000-2400000", or one number that fixes the clock.

    The state is the content of both files with a NUL between them.

    Attributes:
        files: names of the lower and of the upper limit's file.
    """

    values = "LOW-HIGH or one frequency, in kHz (1200000-2400000)"
    files: ClassVar[tuple[str, str]]

    @abstractmethod
    def folder(self) -> Path:
        """What holds a folder of the two files for each target."""

    def file(self, target: str) -> Path:
        return self.folder() / target / self.files[0]

    def targets(self) -> list[str]:
        return in_order(path.parent.name for path in self.folder().glob(f"*/{self.files[0]}"))

    @classmethod
    def parse(cls, value: object) -> str:
        match = re.fullmatch(r"\s*(\d{5,8})(?:\s*-\s*(\d{5,8}))?\s*", str(value))
        if not match:
            raise cls.bad_value(value)
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise cls.bad_value(value)
        return f"{low}-{high}"

    def read(self, target: str) -> str:
        return "\0".join(read_text(self.folder() / target / name) for name in self.files)

    def show(self, state: str) -> str:
        return "-".join(part.strip() for part in state.split("\0"))

    def state_for(self, value: str, state: str, target: str) -> str:
        return "\0".join(f"{limit}\n" for limit in value.split("-"))

    def write(self, target: str, state: str) -> None:
        """Writes the limit first that moves away from the other one, so that low never stands above high."""
        wanted = dict(zip(self.files, state.split("\0"), strict=True))
        present_high = int(read_text(self.folder() / target / self.files[1]))
        rising = int(wanted[self.files[0]]) > present_high
        for name in reversed(self.files) if rising else self.files:
            write_text(self.folder() / target / name, wanted[name])
