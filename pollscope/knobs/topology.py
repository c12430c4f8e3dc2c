# SPDX-License-Identifier: BSD-3-Clause
"""Which processors are online, and in which package."""

from pollscope.knobs.host import KnobHost


def packages(host: KnobHost) -> dict[int, list[int]]:
    """Package number -> its online processors, both ascending (an offline processor has no topology folder)."""
    found: dict[int, list[int]] = {}
    for path in host.cpu_dir.glob("cpu[0-9]*/topology/physical_package_id"):
        try:
            package = int(path.read_text())
        except (OSError, ValueError):  # went offline meanwhile
            continue
        found.setdefault(package, []).append(int(path.parents[1].name.removeprefix("cpu")))
    return {package: sorted(cpus) for package, cpus in sorted(found.items())}
