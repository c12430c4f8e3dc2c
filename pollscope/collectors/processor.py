# SPDX-License-Identifier: BSD-3-Clause
"""Which processor this is, as far as collectors depend on it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Processor:
    """From /proc/cpuinfo; `hypervisor` is the CPU flag that a virtual machine sees."""

    vendor: str
    family: int
    model: int
    name: str
    hypervisor: bool


def read_processor() -> Processor:
    """Reads the first processor's entry; what is not there (other architectures) is empty or 0."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    numbers = {key: int(fields[key]) if fields.get(key, "").isdigit() else 0 for key in ("cpu family", "model")}
    return Processor(
        fields.get("vendor_id", ""),
        numbers["cpu family"],
        numbers["model"],
        fields.get("model name", ""),
        "hypervisor" in fields.get("flags", "").split(),
    )
