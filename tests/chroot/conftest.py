# SPDX-License-Identifier: BSD-3-Clause
"""Provide Debian systems for the tests of this folder."""

from contextlib import AbstractContextManager
from pathlib import Path

import debian
import pytest


@pytest.fixture(scope="session")
def make_system(checkout: Path) -> debian.MakeSystem:
    """Return a context manager `(suite, packages)` that gives a fresh system; skip the test if none can be made."""
    cache = checkout / ".cache/chroot"

    def make(suite: str, packages: list[str]) -> AbstractContextManager[debian.System]:
        try:
            base = debian.base_system(suite, packages, cache)
        except debian.NoChroot as reason:
            pytest.skip(str(reason))
        return debian.system(base, cache)

    return make
