# SPDX-License-Identifier: BSD-3-Clause
"""Where the project's own files are, in a checkout and in an installed wheel."""

import os
from pathlib import Path

from pollscope.base.errors import HostError

NODE_VARIABLE = "POLLSCOPE_NODE"
CORUNNER_VARIABLE = "POLLSCOPE_CORUNNER"
TCP_PATH_VARIABLE = "POLLSCOPE_TCP_PATH"
PACKAGE = Path(__file__).resolve().parent.parent
# A checkout, or an archive of one: what is built and what only deploys stands beside the package.
CHECKOUT = PACKAGE.parent


def data_folder(name: str) -> Path:
    """`experiments`, `configs` or `data`: inside the package in a wheel (see setup.py), else beside it."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else CHECKOUT / name


def of_checkout(name: str) -> Path:
    """What a wheel does not have: a file or folder beside the package in a checkout.

    Raises:
        HostError: it is not there.
    """
    path = CHECKOUT / name
    if not path.exists():
        raise HostError(f"an installed wheel has no {name}", str(path), "use a checkout of pollscope")
    return path


def node_program() -> Path:
    """The built `pollscope-node`: $POLLSCOPE_NODE, or build/pollscope-node of the checkout.

    Raises:
        HostError: it is not there or cannot be executed.
    """
    return _program("pollscope-node", NODE_VARIABLE)


def corunner_program() -> Path:
    """The built `pollscope-corunner`: $POLLSCOPE_CORUNNER, or build/pollscope-corunner of the checkout.

    Raises:
        HostError: it is not there or cannot be executed.
    """
    return _program("pollscope-corunner", CORUNNER_VARIABLE)


def tcp_path_program() -> Path:
    """The built `tcp-path`, which forwards TCP flows: $POLLSCOPE_TCP_PATH, or build/tcp-path of the checkout.

    Raises:
        HostError: it is not there or cannot be executed.
    """
    return _program("tcp-path", TCP_PATH_VARIABLE)


def _program(name: str, variable: str) -> Path:
    named = os.environ.get(variable)
    path = Path(named) if named else CHECKOUT / "build" / name
    if not os.access(path, os.X_OK) or not path.is_file():
        if named:
            raise HostError(f"{name} is not built", str(path), f"{variable} names another one")
        if not (CHECKOUT / "apps").is_dir():
            remedy = f"measure from a checkout after make build, or name a built one in {variable}"
            raise HostError(f"{name} is not built, for an installed wheel has no sources", str(PACKAGE), remedy)
        raise HostError(f"{name} is not built", str(path), "make build")
    return path.resolve()
