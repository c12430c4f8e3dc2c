# SPDX-License-Identifier: BSD-3-Clause
"""The hardware prefetchers of each core, which decide how much of a packet's cost is a cache miss."""

from pollscope.collectors.knobs.base import Availability, Knob, Refused
from pollscope.collectors.knobs.msr import access_reason, read_msr, write_msr
from pollscope.collectors.knobs.platforms import Prefetchers as PrefetchersTable
from pollscope.collectors.knobs.platforms import of_host
from pollscope.collectors.knobs.topology import packages
from pollscope.errors import HostError

# Bits of MISC_FEATURE_CONTROL, 1 = disabled (Intel SDM volume 4).
_BITS = {"l2_stream": 0, "l2_adjacent": 1, "dcu_stream": 2, "dcu_ip": 3}
_FIELD = 0b1111


class Prefetchers(Knob):
    """MSR 0x1A4 of each processor ("cpu3"); a value is the set of prefetchers that run."""

    name = "prefetchers"
    summary = "hardware prefetchers that run, per processor"
    values = f"on (all), off (none), or some of {','.join(_BITS)}"
    holder = "hardware"

    def available(self) -> Availability:
        try:
            table = self._table()
        except HostError as error:
            return Availability(error.what)
        if not (cpus := self._cpus()):
            return Availability("the kernel shows no processor topology")
        if reason := access_reason(self.host, cpus[0]):
            return Availability(reason)
        try:
            read_msr(self.host, cpus[0], table.msr)
        except HostError as error:
            return Availability(str(error))
        return Availability()

    def targets(self) -> list[str]:
        return [f"cpu{cpu}" for cpu in self._cpus()]

    def parse(self, value: object) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
        running = {"on": set(_BITS), "off": set[str]()}.get(word)
        if running is None:
            running = {part.strip() for part in word.split(",")}
        if not running <= _BITS.keys():
            raise self.bad_value(value)
        return _name(running)

    def read(self, target: str) -> str:
        return f"{read_msr(self.host, self._cpu(target), self._table().msr):#018x}"

    def show(self, state: str) -> str:
        return _name({name for name, bit in _BITS.items() if not int(state, 16) >> bit & 1})

    def state_for(self, value: str, state: str, target: str) -> str:
        running = {"on": list(_BITS), "off": []}.get(value, value.split(","))
        disabled = sum(1 << bit for name, bit in _BITS.items() if name not in running)
        return f"{int(state, 16) & ~_FIELD | disabled:#018x}"

    def write(self, target: str, state: str) -> None:
        write_msr(self.host, self._cpu(target), self._table().msr, int(state, 16))

    def _table(self) -> PrefetchersTable:
        platform = of_host(self.host)
        if platform is None:
            raise Refused("this processor is in no platform table", self.name)
        if not isinstance(platform.prefetchers, PrefetchersTable):
            raise Refused(f"{platform.name}: {platform.prefetchers.absent}", self.name)
        return platform.prefetchers

    def _cpus(self) -> list[int]:
        return sorted(cpu for cpus in packages(self.host).values() for cpu in cpus)

    def _cpu(self, target: str) -> int:
        return int(target.removeprefix("cpu"))


def _name(running: set[str]) -> str:
    ordered = [name for name in _BITS if name in running]
    if len(ordered) in (0, len(_BITS)):
        return "on" if ordered else "off"
    return ",".join(ordered)
