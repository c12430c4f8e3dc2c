# SPDX-License-Identifier: BSD-3-Clause
"""Give DPDK programs file prefixes whose folders do not stay behind."""

import atexit

from pollscope.host.eal_folders import new_file_prefix, remove_folder, remove_stale_folders


def file_prefix() -> list[str]:
    """Return EAL's arguments for a prefix of its own.

    The folder of the prefix is removed when this process exits. What killed benchmarks left is removed now.
    """
    remove_stale_folders()
    prefix = new_file_prefix()
    atexit.register(remove_folder, prefix)
    return ["--file-prefix", prefix]
