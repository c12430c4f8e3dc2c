# SPDX-License-Identifier: BSD-3-Clause
"""Read the platform tables (configs/platforms/registers-*.yaml): the registers of each processor generation."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder
from pollscope.host.files import cpuinfo
from pollscope.knobs.host import KnobHost

_PortId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]


class _PlatformTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Absent(_PlatformTable):
    """The platform has no such switch, or no known one; `absent` says why."""

    absent: str


class DdioBit(_PlatformTable):
    """A bit of a root port's configuration space: 1 means that DMA writes allocate in the LLC.

    `emulated` describes an emulated port, which stores the bit without any effect; empty for hardware.
    """

    register_offset: int = Field(ge=0x100, lt=0x1000, multiple_of=4)
    bit: int = Field(ge=0, lt=32)
    emulated: str = ""
    source: str

    @property
    def byte(self) -> int:
        """Return the offset of the byte that holds the bit; only this byte is written."""
        return self.register_offset + self.bit // 8

    @property
    def mask(self) -> int:
        """Return the bit in that byte."""
        return 1 << self.bit % 8


class WaysRegister(_PlatformTable):
    """A package-wide MSR whose lowest `ways` bits choose the LLC ways."""

    msr: int = Field(ge=0)
    ways: int = Field(ge=2, le=20)
    source: str


class PrefetchersRegister(_PlatformTable):
    """An MSR whose bits 0 to 3 disable the prefetchers of a core."""

    msr: int = Field(ge=0)
    source: str


class CpuId(_PlatformTable):
    """A processor family, as /proc/cpuinfo names it; without models, all of them."""

    family: int
    models: tuple[int, ...] = ()


class Platform(_PlatformTable):
    """Hold one processor generation."""

    format: Literal[1]
    name: str
    vendor: str
    cpus: list[CpuId]
    root_ports: list[_PortId] = []
    ddio: DdioBit | Absent
    ddio_ways: WaysRegister | Absent
    prefetchers: PrefetchersRegister | Absent

    def has_cpu(self, vendor: str, family: int, model: int) -> bool:
        """Return whether a processor is of this generation."""
        return vendor == self.vendor and any(
            family == cpu.family and (not cpu.models or model in cpu.models) for cpu in self.cpus
        )


@cache
def platforms() -> tuple[Platform, ...]:
    """Return all platform tables.

    Raises:
        UsageError: a table is broken (file and key in the message).
    """
    folder = data_folder("configs") / "platforms"
    return tuple(load(path) for path in sorted(folder.glob("registers-*.yaml")))


def load(path: Path) -> Platform:
    """Read one platform table.

    Raises:
        UsageError: it is broken (file and key in the message).
    """
    try:
        return Platform.model_validate(YAML(typ="safe").load(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(first["msg"], f"{path}: {'.'.join(map(str, first['loc']))}") from error
    except (YAMLError, OSError) as error:
        raise UsageError(f"not a platform table: {' '.join(str(error).split())}", str(path)) from error


def of_root_port(identity: str) -> Platform | None:
    """Return the platform that has a root port with this vendor:device."""
    return next((platform for platform in platforms() if identity in platform.root_ports), None)


def of_host(host: KnobHost) -> Platform | None:
    """Return the platform of a host's processor."""
    fields = cpuinfo(host.proc)
    try:
        vendor, family, model = fields["vendor_id"], int(fields["cpu family"]), int(fields["model"])
    except (KeyError, ValueError):
        return None
    return next((platform for platform in platforms() if platform.has_cpu(vendor, family, model)), None)
