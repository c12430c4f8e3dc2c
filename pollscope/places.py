# SPDX-License-Identifier: BSD-3-Clause
"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
from pathlib import Path

from pollscope.errors import HostError

NODE_VARIABLE = "POLLSCOPE_NODE"
_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """`experiments`, `configs` or `data`: beside the package in a checkout, inside it in a wheel."""
    return (_PACKAGE / name).resolve()


def node_program() -> Path:
    """The built `pollscope-node`: $POLLSCOPE_NODE, or build/pollscope-node of the checkout.

    Raises:
        HostError: it is not there or cannot be executed.
    """
    named = os.environ.get(NODE_VARIABLE)
    path = Path(named) if named else _PACKAGE.parent / "build" / "pollscope-node"
    if not os.access(path, os.X_OK) or not path.is_file():
        remedy = f"{NODE_VARIABLE} names another one" if named else "make build"
        raise HostError("pollscope-node is not built", str(path), remedy)
    return path.resolve()
