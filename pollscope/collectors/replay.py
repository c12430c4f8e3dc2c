# SPDX-License-Identifier: BSD-3-Clause
"""A collector fed from a recording instead of the host, at the recorded pace.

It records again what it replays, with present times: run, store, plausibility rules and figures work without the
hardware. A recording has its pace beside it (`NAME.pace`); a bare output of a tool is cut at its repeated header, or
line by line.
"""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from pollscope.base.errors import UsageError
from pollscope.collectors.interface import Collector, CollectorOutcome, ProbeResult, Status
from pollscope.collectors.parsing import Problems
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.recording import Piece, Recorder, Recording
from pollscope.collectors.sample import Reading

_PATIENCE_S = 5.0


class Replay(Collector):
    """Stands in for `replayed`: same name, same parser, bytes from `path`."""

    def __init__(self, replayed: Collector, path: Path) -> None:
        self.name, self.summary = replayed.name, f"replay of {path.name}"
        self._replayed, self._path = replayed, path
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._started_ns = 0

    def probe(self) -> ProbeResult:
        return ProbeResult(self._path.is_file(), str(self._path) if self._path.is_file() else f"no file {self._path}")

    def start(self, folder: Path, interval_ns: int) -> None:
        kind = "snapshots" if isinstance(self._replayed, PollingCollector) else "stream"
        pieces = _list_pieces(self._path, kind, interval_ns)
        if self._path.parent.resolve() == folder.resolve() and self._path.name == f"{self.name}.raw":
            raise UsageError("a recording cannot be replayed onto itself", str(self._path), "choose another folder")
        self._recorder = Recorder(folder, self.name, "snapshots" if kind == "snapshots" else "stream")
        self._started_ns = time.monotonic_ns()
        self._thread = threading.Thread(target=self._play, args=(pieces,), name=f"replay-{self.name}", daemon=True)
        self._thread.start()

    def _play(self, pieces: Iterator[Piece]) -> None:
        assert self._recorder is not None
        first_ns: int | None = None
        for piece in pieces:
            first_ns = piece.t_ns if first_ns is None else first_ns
            due_ns = self._started_ns + piece.t_ns - first_ns
            if self._over.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
                return
            self._recorder.write(piece.data, piece.label)

    def stop(self) -> CollectorOutcome:
        assert self._recorder is not None, "BUG: not started"
        assert self._thread is not None, "BUG: not started"
        self._over.set()
        self._thread.join(_PATIENCE_S)
        self._recorder.close()
        said, now_ns = f"replayed from {self._path}", time.monotonic_ns()
        return CollectorOutcome(self.name, Status.OK, said, None, self._started_ns, now_ns, self._recorder.path)

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        return self._replayed.parse_recording(recording, problems)


def _list_pieces(path: Path, kind: str, interval_ns: int) -> Iterator[Piece]:
    """Return the pieces of a recording, or of a bare output spaced by `interval_ns`.

    Raises:
        UsageError: the file cannot be read.
    """
    if path.with_suffix(".pace").exists():
        return Recording.open(path).pieces()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror}", str(path)) from None
    if kind == "snapshots":
        return iter([Piece(0, path.stem, data)])
    return (Piece(index * interval_ns, "", part) for index, part in enumerate(_cut(data)))


def _cut(data: bytes) -> Iterator[bytes]:
    """Cut the output at each repetition of its first repeated line (a header); without one, at each line."""
    lines = data.splitlines(keepends=True)
    repeated = next((line for line in lines[:50] if len(line.strip()) > 8 and lines.count(line) > 1), None)
    if repeated is None:
        yield from lines
        return
    starts = [index for index, line in enumerate(lines) if line == repeated]
    for start, end in pairwise([0, *starts[1:], len(lines)]):
        yield b"".join(lines[start:end])
