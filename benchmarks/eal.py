# SPDX-License-Identifier: BSD-3-Clause
"""Start DPDK programs of the build folder, with file prefixes whose folders do not stay behind."""

import atexit
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError
from pollscope.base.paths import node_program
from pollscope.host.eal_folders import new_file_prefix, remove_folder, remove_stale_folders
from pollscope.host.memory import hugepages
from pollscope.node.client import NodeClient

LIMIT_S = 60.0


def file_prefix() -> list[str]:
    """Return EAL's arguments for a prefix of its own.

    The folder of the prefix is removed when this process exits. What killed benchmarks left is removed now.
    """
    remove_stale_folders()
    prefix = new_file_prefix()
    atexit.register(remove_folder, prefix)
    return ["--file-prefix", prefix]


def memory(hugepages_mib: int, plain_mib: int) -> list[str]:
    """Return EAL's arguments for memory: hugepages where enough are free, otherwise plain memory."""
    huge = any(pages.free_bytes >= hugepages_mib << 20 for pages in hugepages())
    return ["--in-memory"] if huge else ["--no-huge", "--no-shconf", "-m", str(plain_mib)]


def require_hugepages(mib: int) -> None:
    """Check that this much memory is free in hugepages.

    Raises:
        HostError: it is not.
    """
    if sum(pages.free_bytes for pages in hugepages()) < mib << 20:
        raise HostError(f"needs {mib} MiB of free hugepages", "/proc/meminfo", "make build")


def built(name: str, what: str = "helper") -> str:
    """Return the path of a file of the build folder.

    Raises:
        HostError: it is not built.
    """
    path = node_program().with_name(name)
    if not path.is_file():
        raise HostError(f"the {what} is not built", str(path), "make build")
    return str(path)


def plug_in(name: str) -> list[str]:
    """Return EAL's arguments for a plug-in of the build folder."""
    return ["-d", built(name, "plug-in")]


def start_node(
    lcores: str, vdevs: Sequence[str], arguments: Sequence[str], log: Path, program: str = "pollscope-node"
) -> NodeClient:
    """Start a pollscope-node on virtual ports."""
    command = [str(node_program().with_name(program)), "--lcores", lcores, "--main-lcore", "0", "--no-pci"]
    command += [*file_prefix(), *arguments, *(word for vdev in vdevs for word in ("--vdev", vdev))]
    client = NodeClient(command, log)
    client.wait_hello()
    return client


def trial(
    client: NodeClient, rate: Mapping[str, Any], once_begun: Callable[[], object] = lambda: None, /, **times_ns: int
) -> dict[str, Any]:
    """Run one trial and return its result; call `once_begun` when it has begun."""
    client.request("start", LIMIT_S, trial="bench", rate=rate, **times_ns)
    once_begun()
    client.wait_trial("bench", LIMIT_S)
    return client.request("read", LIMIT_S)
