# SPDX-License-Identifier: BSD-3-Clause
"""Provide Debian systems for the tests of this folder."""

from contextlib import AbstractContextManager
from pathlib import Path

import debian
import pytest


@pytest.fixture(scope="session")
def make_system(checkout: Path) -> debian.MakeSystem:
    """Return a context manager that gives a fresh system of a suite with packages; skip the test if none can be made.

    Systems with other packages have a folder of their own.
    """

    def make(suite: str, packages: list[str], folder: str = "") -> AbstractContextManager[debian.System]:
        cache = checkout / ".cache/chroot" / folder
        try:
            base = debian.base_system(suite, packages, cache)
        except debian.NoChroot as reason:
            pytest.skip(str(reason))
        return debian.system(base, cache)

    return make
