# SPDX-License-Identifier: BSD-3-Clause
"""Build a host from plain files: a Skylake-like machine with a root port, a two-port NIC, and all that knobs set."""

import time
from collections.abc import Callable
from pathlib import Path

from command_line import Done

from pollscope.knobs import KnobHost

PORT = "0000:16:00.0"
NIC = "0000:17:00.0"
NIC2 = "0000:17:00.1"
PERFCTRLSTS_0 = 0x180
IIO_LLC_WAYS = 0xC8B
PREFETCH = 0x1A4
PORT_EXPRESS, NIC_EXPRESS = 0x90, 0xA0
REGISTER_RESET = 0x00183091
SKYLAKE, ICELAKE = 85, 106
EMULATED_PORT = "1b36:000c"  # QEMU's pcie-root-port

# The fixture `knob`: runs `pollscope knob` on the tree.
Command = Callable[..., Done]


def wait_until(there: Callable[[], object], limit_s: float = 150.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class Tree:
    """Build the files under `root` and read them without any code under test."""

    def __init__(self, root: Path, model: int = SKYLAKE, port_id: str = "8086:2030") -> None:
        self.root, self.host = root, KnobHost.at(root)
        self._pci(port_id)
        self._cpus(model)
        self._kernel()

    def write(self, path: str, content: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def config(self, address: str) -> Path:
        return (self.root / "sys/bus/pci/devices" / address).resolve() / "config"

    def register(self, address: str, offset: int, size: int = 4) -> int:
        return int.from_bytes(self.config(address).read_bytes()[offset : offset + size], "little")

    def poke(self, address: str, offset: int, value: int, size: int = 4) -> None:
        with self.config(address).open("r+b") as file:
            file.seek(offset)
            file.write(value.to_bytes(size, "little"))

    def msr(self, cpu: int, register: int) -> int:
        return int.from_bytes(self._msr(cpu).read_bytes()[register : register + 8], "little")

    def poke_msr(self, cpu: int, register: int, value: int) -> None:
        with self._msr(cpu).open("r+b") as file:
            file.seek(register)
            file.write(value.to_bytes(8, "little"))

    def picture(self) -> dict[str, bytes]:
        """Return every byte of every file of the host (without the journal and the lock)."""
        files = (path for top in ("sys", "proc", "dev") for path in (self.root / top).rglob("*"))
        return {str(p.relative_to(self.root)): p.read_bytes() for p in files if p.is_file() and not p.is_symlink()}

    def _msr(self, cpu: int) -> Path:
        return self.root / f"dev/cpu/{cpu}/msr"

    def _pci(self, port_id: str) -> None:
        bus = "sys/devices/pci0000:16"
        self._device(f"{bus}/{PORT}", port_id, "0x060400", PORT_EXPRESS)
        self._device(f"{bus}/{PORT}/{NIC}", "8086:158b", "0x020000", NIC_EXPRESS)
        self._device(f"{bus}/{PORT}/{NIC2}", "8086:158b", "0x020000", NIC_EXPRESS)
        # Extended capabilities: AER at 0x100, ACS at 0x148, then the end.
        self.poke(PORT, 0x100, 0x148 << 20 | 1 << 16 | 0x0001)
        self.poke(PORT, 0x148, 0x000 << 20 | 1 << 16 | 0x000D)
        self.poke(PORT, PERFCTRLSTS_0, REGISTER_RESET)
        interface = self.root / "sys/class/net/ens1f0"
        interface.mkdir(parents=True)
        (interface / "device").symlink_to(self.root / bus / PORT / NIC)

    def _device(self, folder: str, identity: str, pci_class: str, express: int) -> None:
        vendor, device = (int(part, 16) for part in identity.split(":"))
        self.write(f"{folder}/vendor", f"{vendor:#06x}\n")
        self.write(f"{folder}/device", f"{device:#06x}\n")
        self.write(f"{folder}/class", f"{pci_class}\n")
        self.write(f"{folder}/irq", "0\n")
        self.write(f"{folder}/resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 7)
        content = bytearray(4096)
        content[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
        content[0x06] = 0x10  # Status: there is a capability list
        content[0x34] = express
        content[express : express + 2] = bytes([0x10, 0])
        content[express + 0x08 : express + 0x0A] = (2 << 12 | 1 << 5).to_bytes(2, "little")  # MRRS 512, MPS 256
        content[express + 0x0C : express + 0x10] = (3 << 10 | 16 << 4 | 3).to_bytes(
            4, "little"
        )  # L0s and L1, x16 gen 3
        content[express + 0x10 : express + 0x12] = (1 << 6 | 2).to_bytes(2, "little")  # common clock, L1 on
        (self.root / folder / "config").write_bytes(content)
        link = self.root / "sys/bus/pci/devices" / Path(folder).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / folder)

    def _cpus(self, model: int) -> None:
        stanza = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {}\nmodel name\t: test\n\n"
        self.write("proc/cpuinfo", stanza.format(model) * 4)
        cpu = "sys/devices/system/cpu"
        self.write(f"{cpu}/online", "0-3\n")
        self.write(f"{cpu}/smt/control", "on\n")
        self.write(f"{cpu}/intel_pstate/no_turbo", "0\n")
        for number in range(4):
            self.write(f"{cpu}/cpu{number}/topology/physical_package_id", f"{number // 2}\n")
            self.write(f"{cpu}/cpu{number}/cache/index3/ways_of_associativity", "11\n")
            self.write(f"{cpu}/cpufreq/policy{number}/scaling_governor", "powersave\n")
            self.write(f"{cpu}/cpufreq/policy{number}/scaling_available_governors", "performance powersave\n")
            policy = f"{cpu}/cpufreq/policy{number}"
            self.write(f"{policy}/energy_performance_preference", "balance_performance\n")
            offered = "default performance balance_power power\n"
            self.write(f"{policy}/energy_performance_available_preferences", offered)
            for limit, khz in (("min", 800000), ("max", 3700000)):
                self.write(f"{policy}/scaling_{limit}_freq", f"{khz}\n")
                self.write(f"{policy}/cpuinfo_{limit}_freq", f"{khz}\n")
            self.write(f"{cpu}/cpu{number}/power/energy_perf_bias", "6\n")
            self.write(f"dev/cpu/{number}/msr", "")
            self._msr(number).write_bytes(bytes(0x1000))
            self.poke_msr(number, IIO_LLC_WAYS, 0x600)
            self.poke_msr(number, PREFETCH, 0x20)  # a bit that no knob knows
        for package in range(2):
            die = f"{cpu}/intel_uncore_frequency/package_{package:02}_die_00"
            self.write(f"{die}/min_freq_khz", "1200000\n")
            self.write(f"{die}/max_freq_khz", "2400000\n")

    def _kernel(self) -> None:
        self.write("proc/sys/kernel/numa_balancing", "1\n")
        self.write("proc/sys/kernel/nmi_watchdog", "1\n")
        self.write("proc/sys/kernel/random/boot_id", "0b7f3c52-0000-4000-8000-000000000001\n")
        self.write("proc/irq/42/smp_affinity_list", "0-3\n")
        self.write("proc/irq/43/smp_affinity_list", "0-3\n")
        self.write(f"sys/devices/pci0000:16/{PORT}/{NIC}/msi_irqs/42", "msix\n")
        for node in range(2):
            self.write(f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
            self.write(f"sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
        self.write("sys/kernel/iommu_groups/1/type", "DMA-FQ\n")
        self.write("sys/class/iommu/dmar0/intel-iommu/version", "1:0\n")
