# SPDX-License-Identifier: BSD-3-Clause
"""The hardware prefetchers of each core, which decide how much of a packet's cost is a cache miss."""

from pollscope.knobs.msr import MsrKnob
from pollscope.knobs.platforms import Absent, Platform, PrefetchersRegister

# Bits of MISC_FEATURE_CONTROL, 1 = disabled (Intel SDM volume 4).
_BITS = {"l2_stream": 0, "l2_adjacent": 1, "dcu_stream": 2, "dcu_ip": 3}
_FIELD = 0b1111


class Prefetchers(MsrKnob[PrefetchersRegister]):
    """MSR 0x1A4 of each processor ("cpu3"); a value is the set of prefetchers that run."""

    name = "prefetchers"
    summary = "hardware prefetchers that run, per processor"
    values = f"on (all), off (none), or some of {','.join(_BITS)}"
    aims = "`cpuN` (all)"
    where = "MSR 0x1A4"

    def targets(self) -> list[str]:
        return [f"cpu{cpu}" for cpu in sorted(cpu for cpus in self.host.packages().values() for cpu in cpus)]

    @classmethod
    def parse(cls, value: object) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
        running = {"on": set(_BITS), "off": set[str]()}.get(word)
        if running is None:
            running = {part.strip() for part in word.split(",")}
        if not running <= _BITS.keys():
            raise cls.bad_value(value)
        return _name(running)

    def show(self, state: str) -> str:
        return _name({name for name, bit in _BITS.items() if not int(state, 16) >> bit & 1})

    def state_for(self, value: str, state: str, target: str) -> str:
        running = {"on": list(_BITS), "off": []}.get(value, value.split(","))
        disabled = sum(1 << bit for name, bit in _BITS.items() if name not in running)
        return f"{int(state, 16) & ~_FIELD | disabled:#018x}"

    def entry(self, platform: Platform) -> PrefetchersRegister | Absent:
        return platform.prefetchers

    def cpu(self, target: str) -> int:
        return int(target.removeprefix("cpu"))


def _name(running: set[str]) -> str:
    ordered = [name for name in _BITS if name in running]
    if len(ordered) in (0, len(_BITS)):
        return "on" if ordered else "off"
    return ",".join(ordered)
