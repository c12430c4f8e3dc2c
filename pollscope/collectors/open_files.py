# SPDX-License-Identifier: BSD-3-Clause
"""Keep files of /proc and /sys open that are read repeatedly."""

import os

_PIECE_BYTES = 1 << 16


class OpenFiles:
    """Files that stay open between two readings: opening a sysfs file costs five times as much as reading it."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Return the whole content now.

        Raises:
            OSError: it cannot be read, such as a file of a CPU that went offline; the next call opens it again.
        """
        if path not in self._descriptors:
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _whole(self._descriptors[path])
        except OSError:
            os.close(self._descriptors.pop(path))
            raise

    def close(self) -> None:
        """Close all of them."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}


def _whole(descriptor: int) -> bytes:
    content = b""
    while piece := os.pread(descriptor, _PIECE_BYTES, len(content)):  # a read of a /proc file returns about one page
        content += piece
    return content
