# SPDX-License-Identifier: BSD-3-Clause
"""The probe plug-in in DPDK's driver folder, from which EAL loads it into every program that starts."""

import hashlib
import re
import shutil
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.base.paths import BUILD_COMMAND, build_folder
from pollscope.knobs.base import Availability, Knob, Refused, parse_choice
from pollscope.knobs.host import writable_reason

PLUGIN = "librte_pollscope_probe.so"
_ON, _OFF, _OTHER = "on", "off", "another file of that name"
# The plug-in holds the name of the EAL library of its DPDK series.
_SERIES = re.compile(rb"librte_eal\.so\.(\d+)")
_DRIVER_FOLDERS = ("lib/*/dpdk/pmds-*", "lib/dpdk/pmds-*", "lib64/dpdk/pmds-*", "local/lib*/**/dpdk/pmds-*")


class ProbePlugin(Knob):
    """A copy of the built plug-in in each driver folder of its DPDK series.

    A state is the SHA-256 of the file, or empty where there is none. It is a copy, because EAL loads it as the user of
    each program: a link into a build folder would let the owner of that folder run code there. Another file of that
    name is left unchanged.
    """

    name = "probe"
    summary = "probe plug-in in DPDK's driver folder, for programs that start later"
    values = "on or off"
    aims = "driver folders of the plug-in's DPDK series (all)"
    where = "`librte_pollscope_probe.so` in EAL's driver folder"
    holder = "disk"

    def available(self) -> Availability:
        if self._built is None:
            return Availability(f"{PLUGIN} is not built ({BUILD_COMMAND})")
        if self._series is None:
            return Availability(f"{PLUGIN} does not name its DPDK series ({BUILD_COMMAND})")
        folders = self.targets()
        if not folders:
            return Availability(
                f"no driver folder of the plug-in's DPDK series ({self._series}) is below {self.host.usr}"
            )
        return Availability(writable_reason(Path(folders[0])))

    def targets(self) -> list[str]:
        found = sorted({path for pattern in _DRIVER_FOLDERS for path in self.host.usr.glob(pattern) if path.is_dir()})
        series = self._series
        return [
            str(path) for path in found if series is None or path.name.removeprefix("pmds-").split(".")[0] == series
        ]

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, value, (_ON, _OFF))

    def read(self, target: str) -> str:
        try:
            return _digest(self._file(target))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise HostError(f"cannot be read: {error.strerror}", str(self._file(target))) from error

    def show(self, state: str) -> str:
        if not state:
            return _OFF
        return _ON if self._built is None or state == self._built else _OTHER

    def state_for(self, value: str, state: str, target: str) -> str:
        if value == _OFF:
            return ""
        if self._built is None:
            raise Refused(f"{PLUGIN} is not built", self.name, BUILD_COMMAND)
        if self.show(state) == _OTHER:
            what = "another file of that name is there, for instance the plug-in of an earlier build"
            raise Refused(what, str(self._file(target)), "pollscope probe remove, or delete it")
        return self._built

    def write(self, target: str, state: str) -> None:
        file = self._file(target)
        if not state:
            file.unlink(missing_ok=True)
            return
        if state != self._built:
            raise HostError("the plug-in that was there is not the built one, so it cannot be put back", str(file))
        # EAL loads every file that ends in .so, so an incomplete copy has another suffix.
        new = file.with_name(f".{PLUGIN}.new")
        try:
            shutil.copyfile(self._plugin, new)
            new.chmod(0o644)
            new.replace(file)
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def _file(self, target: str) -> Path:
        return Path(target) / PLUGIN

    @property
    def _plugin(self) -> Path:
        return build_folder() / PLUGIN

    @cached_property
    def _built(self) -> str | None:
        """Return the digest of the built plug-in; None if there is none."""
        try:
            return _digest(self._plugin)
        except OSError:
            return None

    @cached_property
    def _series(self) -> str | None:
        if self._built is None:
            return None
        found = _SERIES.search(self._plugin.read_bytes())
        return found[1].decode() if found else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
