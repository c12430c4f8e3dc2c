# SPDX-License-Identifier: BSD-3-Clause
"""Identify the processor, as far as collectors depend on it."""

from dataclasses import dataclass

from pollscope.host.files import cpuinfo


@dataclass(frozen=True)
class Processor:
    """From /proc/cpuinfo; `hypervisor` is the CPU flag that a virtual machine sees."""

    vendor: str
    family: int
    model: int
    name: str
    hypervisor: bool


def read_processor() -> Processor:
    """Read the first processor's entry; missing fields (other architectures) are empty or 0."""
    fields = cpuinfo()
    numbers = {key: int(fields[key]) if fields.get(key, "").isdigit() else 0 for key in ("cpu family", "model")}
    return Processor(
        fields.get("vendor_id", ""),
        numbers["cpu family"],
        numbers["model"],
        fields.get("model name", ""),
        "hypervisor" in fields.get("flags", "").split(),
    )
