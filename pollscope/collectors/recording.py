# SPDX-License-Identifier: BSD-3-Clause
"""Write and read raw recordings: the output of a source, byte for byte, with time stamps.

`NAME.raw` holds the bytes; `NAME.pace` holds the time of each piece. Its first line is JSON (`format`, `source`,
`kind`); then follows one line per piece, `<offset> <t_ns> <label>`. A `stream` is one text that grew; the labels of its
empty pieces describe the host (`metadata`). `snapshots` are whole texts; the label names the file, interface or
request. Nothing is parsed while a trial runs, so parsing does not disturb the measured host and a broken line harms no
measurement.
"""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pollscope.base.errors import UsageError
from pollscope.collectors.parsing import Origin, Problems
from pollscope.collectors.sample import Reading

FORMAT = 1
# Limit per collector and trial; a tool that prints endlessly must not fill the disk of the run.
MOST_BYTES = 512 << 20
_RecordingKind = Literal["stream", "snapshots"]
Parser = Callable[[Iterator[str], Origin], Iterator[Reading]]


class Piece(NamedTuple):
    """The data of one moment."""

    t_ns: int
    label: str
    data: bytes


class Recorder:
    """Writes a recording; every piece is stamped with the run's monotonic clock (CLOCK_MONOTONIC) as it comes.

    It ends at MOST_BYTES; later output is dropped.

    Attributes:
        failure: why the recording is incomplete; empty if it is complete.
    """

    def __init__(self, folder: Path, source: str, kind: _RecordingKind) -> None:
        self.path, self.failure = folder / f"{source}.raw", ""
        self._raw = self.path.open("wb")
        self._pace = self.path.with_suffix(".pace").open("w", encoding="utf-8")
        self._pace.write(json.dumps({"format": FORMAT, "source": source, "kind": kind}) + "\n")
        self._offset, self._lock = 0, threading.Lock()
        self.last_ns = 0

    def write(self, data: bytes, label: str = "") -> None:
        """Add a piece; after `close`, and when the disk is full, it is dropped."""
        with self._lock, self._noting_failure():
            if self._raw.closed:
                return
            self.last_ns = time.monotonic_ns()
            if self._offset + len(data) > MOST_BYTES:
                limit = f"{MOST_BYTES >> 20} MiB"
                self.failure = f"the recording was ended at {limit}: a longer interval, or a shorter window"
                return
            self._pace.write(f"{self._offset} {self.last_ns} {label}\n")
            self._raw.write(data)
            self._offset += len(data)

    @property
    def size_bytes(self) -> int:
        return self._offset

    def close(self) -> None:
        with self._lock:
            for file in (self._raw, self._pace):
                with self._noting_failure():
                    file.close()

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = f"the recording cannot be written: {error.strerror}"


@dataclass(frozen=True)
class Recording:
    """A recording on disk."""

    path: Path
    source: str
    kind: _RecordingKind

    @classmethod
    def open(cls, path: Path) -> "Recording":
        """Open `NAME.raw` by its pace file.

        Raises:
            UsageError: there is no pace file, or it is of another format.
        """
        pace = path.with_suffix(".pace")
        try:
            with pace.open(encoding="utf-8") as file:
                head = json.loads(file.readline())
            if head["format"] != FORMAT or head["kind"] not in ("stream", "snapshots"):
                raise UsageError(f"format {head['format']!r} is not known", f"{pace}:1", "record again")
            return cls(path, head["source"], head["kind"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"no pace of a recording: {error}", str(pace), "record with: pollscope collect NAME"
            ) from None

    def pieces(self) -> Iterator[Piece]:
        """Return the pieces in order. A piece that is incomplete on the disk is omitted."""
        with self.path.with_suffix(".pace").open(encoding="utf-8") as pace, self.path.open("rb") as raw:
            next(pace)
            before: tuple[int, int, str] | None = None
            for line in pace:
                offset, t_ns, label = self._index(line)
                if before is not None:
                    yield Piece(before[1], before[2], raw.read(offset - before[0]))
                before = offset, t_ns, label
            if before is not None:
                yield Piece(before[1], before[2], raw.read())

    def metadata(self) -> list[str]:
        """Return the lines about the host that recorded a stream."""
        return [piece.label for piece in self.pieces() if not piece.data] if self.kind == "stream" else []

    def _index(self, line: str) -> tuple[int, int, str]:
        offset, _, rest = line.rstrip("\n").partition(" ")
        t_ns, _, label = rest.partition(" ")
        if not (offset.isdigit() and t_ns.isdigit()):
            raise UsageError(
                f"broken line in the pace: {line[:40]!r}", str(self.path.with_suffix(".pace")), "record again"
            )
        return int(offset), int(t_ns), label

    def readings(self, parser: Parser, problems: Problems) -> Iterator[Reading]:
        """Parse the recording; every reading has the time at which its text came."""
        if self.kind == "stream":
            yield from _parse_stream(self, parser, problems)
        else:
            yield from _parse_snapshots(self, parser, problems)


def _parse_stream(recording: Recording, parser: Parser, problems: Problems) -> Iterator[Reading]:
    now = [0]

    def lines() -> Iterator[str]:
        rest = b""
        for piece in recording.pieces():
            now[0] = piece.t_ns
            *whole, rest = (rest + piece.data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace") + "\n"
        if rest:
            yield rest.decode(errors="replace")

    yield from parser(lines(), Origin(recording.path.name, lambda: now[0], problems=problems))


def _parse_snapshots(recording: Recording, parser: Parser, problems: Problems) -> Iterator[Reading]:
    for piece in recording.pieces():
        name = f"{recording.path.name}[{piece.label}]"
        origin = Origin(name, lambda t_ns=piece.t_ns: t_ns, label=piece.label, problems=problems)  # type: ignore[misc]
        # StringIO cuts at newlines only, as the tools do; splitlines also at form feeds and the like
        yield from parser(iter(io.StringIO(piece.data.decode(errors="replace"))), origin)
