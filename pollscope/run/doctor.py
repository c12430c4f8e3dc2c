# SPDX-License-Identifier: BSD-3-Clause
"""Examine what this host can measure, what it cannot, and why. Change nothing."""

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError
from pollscope.base.paths import BUILD_COMMAND, INSTALLED, data_folder, node_program
from pollscope.base.units import human_size
from pollscope.collectors.registry import probe_all
from pollscope.host import cpus as processors
from pollscope.host.files import SYS, read_text
from pollscope.host.memory import hugepages, meminfo_bytes
from pollscope.host.metadata import cache_bytes, cpu_flags, host_metadata
from pollscope.host.pmu import pmu_absence
from pollscope.host.real_time import real_time_refusal
from pollscope.host.topology import nics
from pollscope.knobs import KnobHost, KnobSession, knobs_of
from pollscope.plan.plan import impossible
from pollscope.spec import Overrides, Spec, lcores, load_file
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point, all_points, dropped
from pollscope.testbeds import make_testbed
from pollscope.testbeds.loopback import LoopbackTestbed

# With less memory, the node and its mempools leave too little for the rest of the host.
_MEMORY_WANTED_BYTES = 3 << 30
# The node's self-test tries every mode at several packet rates, many times each.
SELFTEST_LIMIT_S = 120.0
# A spec that names no more than one core anywhere need not be loaded.
_CORES = re.compile(r"cores: +(?:[\[{]|[2-9]|1\d)")


@dataclass(frozen=True)
class Check:
    """One line of the doctor.

    Attributes:
        topic: headline under which it is shown.
        name: the feature.
        state: `yes` it works; `no` it does not; `note` it works, but it affects the results.
        text: the finding; for `no` also the reason and the remedy.
    """

    topic: str
    name: str
    state: str
    text: str


def examine() -> list[Check]:
    """Run all checks and return their findings in display order."""
    return [finding for look in _LOOKS for finding in look()]


def run_selftest() -> list[dict[str, Any]]:
    """Return the rows of the node's `selftest` reply.

    Raises:
        HostError: the node does not start, or the host is in use.
        TrialError: the node hung or refused.
    """
    testbed = make_testbed("loopback")
    assert isinstance(testbed, LoopbackTestbed), "BUG: configs/testbeds/loopback.yaml is of another kind"
    testbed.check()
    params = Parameters(load_pps=0)
    with KnobSession("doctor --self-test"), tempfile.TemporaryDirectory() as folder:
        session = testbed.open(params, Path(folder) / "node.log")
        try:
            session.configure(params)
            return session.selftest(SELFTEST_LIMIT_S)
        finally:
            session.close()


def to_json(findings: list[Check]) -> dict[str, Any]:
    """Return findings, host metadata and topology for `doctor --json`."""
    topology = [nic.to_json() for nic in nics()]
    return {"findings": [asdict(each) for each in findings], "host": host_metadata(), "nics": topology}


def can_measure(findings: list[Check]) -> bool:
    """Return whether the loopback testbed works here."""
    needed = [each for each in findings if each.topic == "loopback testbed"]
    return all(each.state != "no" for each in needed)


# The most important missing features, gravest first: finding, and its consequence.
_MISSED = (
    ("hugepages", "hugepages, so TLB misses raise every cost (make run reserves them)"),
    ("PMU", "a PMU, so IPC and cache misses are absent"),
    ("isolated CPUs", "isolated CPUs, so trials will be disturbed"),
    ("virtualisation", "bare metal, so ratios are more reliable than absolute values"),
    ("NIC", "a NIC, so PCIe, DDIO and line rate have no part in it"),
)


def answer(findings: list[Check]) -> str:
    """Return one line: whether this host can measure, and the most important missing feature."""
    broken = [each for each in findings if each.topic == "loopback testbed" and each.state == "no"]
    if broken:
        return f"This host cannot measure yet: {broken[0].name}: {broken[0].text}"
    # A knob may have the same name as a feature: a settable knob does not mean that the feature exists.
    states = {each.name: each.state for each in findings if each.topic != "knobs"}
    missed = next((text for name, text in _MISSED if states.get(name) in ("no", "note")), "")
    return f"This host can measure (`pollscope run S-F5 --quick`). Missing most: {missed or 'nothing'}."


def _loopback() -> Iterator[Check]:
    topic = "loopback testbed"
    cpus, usable = processors.online_cpus(), processors.allowed_cpus()
    cores = processors.most_dut_cores(usable)
    enough = f"{len(usable)} of {len(cpus)} CPUs usable: 1 generator and up to {cores} DUT cores"
    yield Check(topic, "cores", "yes" if cores else "no", enough if cores else f"{len(usable)} CPU usable, 2 needed")
    try:
        yield Check(topic, "pollscope-node", "yes", str(node_program()))
    except HostError as error:
        yield Check(topic, "pollscope-node", "no", str(error))
    yield _tsc()
    yield from _memory(topic)
    refused = real_time_refusal()
    text = (
        f"SCHED_FIFO: {refused}; points with generator_sleep (C-RIVALS --quick) are left out (CAP_SYS_NICE allows it)"
    )
    yield Check(topic, "real-time priority", "note" if refused else "yes", text if refused else "SCHED_FIFO is allowed")


def rows_with_several_cores() -> Iterator[Check]:
    """Yield the shipped rows of `loopback` with a point for three CPUs or more: which points can be measured here."""
    for path in sorted(data_folder("experiments").glob("*/*.yaml")):
        if _CORES.search(path.read_text(encoding="utf-8")) is None:
            continue
        spec = load_file(path).spec
        points = _points(spec)
        if "loopback" in spec.testbeds and spec.all_rows and max(map(_needed, points), default=0) > 2:
            yield _row(path, ", ".join(spec.all_rows), points)


def _points(spec: Spec) -> list[Point]:
    return [point for point in all_points(spec) if not (dropped(spec, point) or impossible(point.params))]


def _needed(point: Point) -> int:
    """Return the number of CPUs of a point."""
    params: Parameters = point.params
    return lcores.dut_lcores(params) + lcores.generator_spins(params) + lcores.spinning_beside(params)


def _row(path: Path, row: str, points: list[Point]) -> Check:
    here, roomy = make_testbed("loopback"), make_testbed("loopback")
    roomy.plan_for(max(len(processors.allowed_cpus()), *map(_needed, points)))
    left_out = [point for point in points if here.refusal(point) is not None]
    hosted = len(points) - len(left_out)
    texts = [f"{hosted} of {len(points)} points" if left_out else f"all {len(points)} points"]
    if not hosted:
        quick = _points(load_file(path, Overrides(quick=True)).spec)
        hosted = sum(here.refusal(point) is None for point in quick)
        texts[0] += f" ({hosted} of {len(quick)} with --quick)" if hosted else ""
    refusals = [roomy.refusal(point) for point in left_out]
    reasons = Counter(refusals)
    if few := reasons.pop(None, 0):
        most = max(_needed(point) for point, refusal in zip(left_out, refusals, strict=True) if refusal is None)
        texts.append(f"{few} need up to {most} CPUs")
    texts += [f"{count}: {reason}" for reason, count in reasons.most_common(2)]
    state = "yes" if not left_out else "note" if hosted else "no"
    return Check("rows with several cores", row, state, "; ".join(texts))


def _tsc() -> Check:
    flags = cpu_flags()
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if not flags[flag]]
    source = read_text(SYS / "devices/system/clocksource/clocksource0/current_clocksource")
    if missing:
        return Check("loopback testbed", "TSC", "no", f"the processor lacks {', '.join(missing)}: cycles are not time")
    return Check("loopback testbed", "TSC", "yes", f"constant and nonstop; the kernel's clock is {source}")


def _memory(topic: str) -> Iterator[Check]:
    total = meminfo_bytes("MemTotal") or 0
    state = "yes" if total >= _MEMORY_WANTED_BYTES else "note"
    yield Check(topic, "memory", state, f"{human_size(total)}; points that need more than is free are left out")
    pages = [each for each in hugepages() if each.total]
    if not pages:
        text = "none reserved: ordinary memory is used, and TLB misses raise every cost (make run reserves them)"
        yield Check(topic, "hugepages", "note", text)
    for each in pages:
        size = human_size(each.page_bytes)
        yield Check(topic, "hugepages", "yes" if each.free else "note", f"{each.free} of {each.total} x {size} free")
    thp = host_metadata()["thp"]
    yield Check(topic, "transparent hugepages", "yes", str(thp))


def _processor() -> Iterator[Check]:
    topic, metadata = "processor", host_metadata()
    yield Check(topic, "model", "yes", f"{metadata['cpu_model']}, {metadata['cores']} cores, {metadata['cpus']} CPUs")
    yield Check(topic, "SMT", "note" if metadata["smt"] else "yes", _smt_text(metadata))
    yield Check(topic, "NUMA", "yes", f"{metadata['numa_nodes']} node(s), {metadata['packages']} package(s)")
    caches = ", ".join(f"{name} {human_size(size)}" for name, size in cache_bytes().items())
    yield Check(topic, "caches", "yes" if caches else "no", caches or "sysfs shows none")
    yield user_mode_wait(metadata["cpu_flags"])


def user_mode_wait(flags: Mapping[str, bool]) -> Check:
    """Check for instructions that wait for a write (`idle: umwait`, `notification: monitor` and `monitor-multi`)."""
    topic, name = "processor", "user-mode wait"
    if flags["waitpkg"]:
        several = "" if flags["rtm"] else "; no rtm: notification monitor-multi is absent"
        return Check(topic, name, "yes", f"umwait and tpause can be used{several}")
    lacks = "no waitpkg: idle umwait and notification monitor-multi are absent"
    if flags["mwaitx"]:
        text = f"{lacks}; mwaitx: monitor works, but DPDK before 25.11 ignores its time-out"
        return Check(topic, name, "note", text)
    return Check(topic, name, "no", f"{lacks}, and so is monitor")


def _smt_text(metadata: dict[str, Any]) -> str:
    if metadata["smt"]:
        return "on: lcores get a physical core of their own as long as there are enough"
    if metadata["hypervisor"] != "none":
        return "none shown; under a hypervisor CPUs may still be threads of one core"
    return "off"


def _disturbance() -> Iterator[Check]:
    topic, metadata = "what disturbs measurements", host_metadata()
    virtual = metadata["hypervisor"] != "none"
    text = f"{metadata['hypervisor']}: cores can be taken away without a trace; trust ratios more than absolute values"
    yield Check(topic, "virtualisation", "note" if virtual else "yes", text if virtual else "bare metal")
    isolated = metadata["isolated_cpus"]
    text = f"CPUs {isolated}" if isolated != "none" else "none: the kernel and other programs share the measuring cores"
    yield Check(topic, "isolated CPUs", "yes" if isolated != "none" else "note", text)
    for name in ("governor", "turbo"):
        fact = metadata[name]
        if isinstance(fact, dict):
            yield Check(topic, name, "no", f"not shown, because {fact['absent']}")
        else:
            yield Check(topic, name, "yes", str(fact))


def _counters() -> Iterator[Check]:
    topic = "counters"
    absence = pmu_absence()
    text = (
        "instructions, cycles and cache events can be counted"
        if absence is None
        else f"IPC and misses absent: {absence}"
    )
    yield Check(topic, "PMU", "yes" if absence is None else "no", text)
    yield _device(topic, "MSR", Path("/dev/cpu/0/msr"), "modprobe msr, as root")
    for name, availability in probe_all().items():
        yield Check(topic, name, "yes" if availability.available else "no", availability.reason)


def _devices() -> Iterator[Check]:
    topic = "devices"
    groups = list((SYS / "kernel/iommu_groups").glob("*"))
    text = f"on, {len(groups)} groups" if groups else "off or absent: no IOMMU groups in sysfs"
    yield Check(topic, "IOMMU", "yes" if groups else "no", text)
    yield _device(topic, "VFIO", Path("/dev/vfio/vfio"), "modprobe vfio-pci; needs an IOMMU")
    for nic in nics():
        where = f"root port {nic.root_port or 'none (root bus)'}"
        near = f"NUMA {'unknown' if nic.numa_node is None else nic.numa_node}, CPUs {nic.cpus}"
        name = "/".join([nic.address, *nic.interfaces])
        yield Check(
            topic, name, "yes", f"{nic.driver or 'no driver'}, {nic.link or 'no link shown'} -> {where} -> {near}"
        )
    if not nics():
        yield Check(topic, "NIC", "no", "no network controller on PCI")


def _device(topic: str, name: str, path: Path, remedy: str) -> Check:
    if not path.exists():
        return Check(topic, name, "no", f"{path} is not there ({remedy})")
    if not os.access(path, os.R_OK):
        return Check(topic, name, "no", f"{path} cannot be read by this user (run as root)")
    return Check(topic, name, "yes", str(path))


def _software() -> Iterator[Check]:
    topic = "software"
    version = _dpdk_version()
    remedy = "pollscope build lists the needed packages" if INSTALLED else "make build installs the needed packages"
    text = version or f"pkg-config does not find libdpdk, which only a build needs ({remedy})"
    yield Check(topic, "DPDK", "yes" if version else "no", text)
    try:
        driver = node_program().parent / "librte_net_crossover.so"
        found = driver.is_file()
        text = str(driver) if found else f"{driver} is not built ({BUILD_COMMAND}); the node has the driver linked in"
        yield Check(topic, "net_crossover plug-in", "yes" if found else "note", text)
    except HostError as error:
        yield Check(topic, "net_crossover plug-in", "no", str(error))


def _dpdk_version() -> str | None:
    tool = shutil.which("pkg-config")
    if tool is None:
        return None
    done = subprocess.run([tool, "--modversion", "libdpdk"], capture_output=True, text=True, check=False, timeout=10)
    return done.stdout.strip() or None


def _knobs() -> Iterator[Check]:
    for name, knob in knobs_of(KnobHost()).items():
        availability = knob.available()
        yield Check("knobs", name, "yes" if availability else "no", availability.reason or "can be set and restored")


_LOOKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _loopback,
    rows_with_several_cores,
    _processor,
    _disturbance,
    _counters,
    _devices,
    _knobs,
    _software,
)
