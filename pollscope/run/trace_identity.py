# SPDX-License-Identifier: BSD-3-Clause
"""Check that a run is resumed as it began: testbed's file, machine, kernel, node program, CPUs, traces."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pollscope.base.errors import HostError
from pollscope.store.trial_record import TrialRecord

# Metadata that no knob of a run changes. The command line and the number of hugepages are not among them.
_HOST_METADATA = (
    "hostname",
    "machine_id",
    "cpu_model",
    "cpu_family_model_stepping",
    "cpus",
    "cores",
    "packages",
    "numa_nodes",
    "kernel",
    "hypervisor",
)
_HELLO_METADATA = ("version", "dpdk")
# Of a trace, whatever is made of its sizes at a point's MTU.
_TRACE_METADATA = ("packets", "flows", "duration_ns")
REMEDY = "start a new run; pollscope compare shows the two side by side"


def refuse_another_config(meta: Mapping[str, Any], config: Mapping[str, str], run: str) -> None:
    """Compare the keys of the testbed's file in run.json with the present ones.

    Raises:
        HostError: the file has other values.
    """
    before = meta["testbed"].get("config") or {}
    changed = sorted(key for key in before.keys() & config.keys() if before[key] != config[key])
    if changed:
        what = f"its testbed has changed: {', '.join(changed)} in {meta['testbed']['file']}"
        raise HostError(what, run, f"put the old values back, or {REMEDY}")


def refuse_another_machine(meta: Mapping[str, Any], machine: Mapping[str, Any], run: str) -> None:
    """Compare the measuring machines in run.json with the present ones.

    Raises:
        HostError: another host, kernel or build of the node program.
    """
    _refuse([text for part, now in _machines(machine) for text in _changes(part, _of(meta, part), now)], run)


def refuse_other_nodes(
    meta: Mapping[str, Any], hello: Mapping[str, Any], noise: Sequence[Mapping[str, Any]], run: str
) -> None:
    """Compare the hello of the run's first nodes with that of the present ones.

    Raises:
        HostError: another version, or other CPUs.
    """
    before, found = meta.get("node_hello") or {}, []
    for name in _HELLO_METADATA:
        if name in before and before[name] != hello.get(name):
            found.append(f"the node's {name} was {before[name]}, now {hello.get(name)}")
    cpus = [_cpus(each) for each in (meta.get("noise") or [], noise)]
    if cpus[0] and cpus[0] != cpus[1]:
        found.append(f"the first trial's CPUs were {', '.join(cpus[0])}, now {', '.join(cpus[1])}")
    _refuse(found, run)


class SameTraces:
    """The traces that the trials of a run replayed; a file that is another one by now is refused."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def check(self, record: TrialRecord) -> None:
        """Compare the trace that the generator read with the one of the first trial that replayed it.

        Raises:
            HostError: it was another trace.
        """
        path, now = record.params.get("trace"), _trace_of(record)
        if path is None or now is None:
            return
        trial, before = self._known.setdefault(path, (record.trial, now))
        if before != now:
            raise HostError(
                f"{_trace_text(now)} at trial {record.trial}, and {_trace_text(before)} at trial {trial}",
                f"trace {path}",
                f"bring the first one back, or {REMEDY}",
            )


def _trace_of(record: TrialRecord) -> Mapping[str, Any] | None:
    lcores = ((record.result or {}).get("gen") or {}).get("lcores") or [{}]
    found = lcores[0].get("trace")
    return {name: found.get(name) for name in _TRACE_METADATA} if isinstance(found, Mapping) else None


def _trace_text(metadata: Mapping[str, Any]) -> str:
    return f"had {metadata['packets']} packets of {metadata['flows']} flows in {metadata['duration_ns']} ns"


def _refuse(found: Sequence[str], run: str) -> None:
    if found:
        raise HostError(f"it was begun elsewhere: {'; '.join(found)}", run, REMEDY)


def _machines(machine: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield path of keys and metadata of each machine that measures, without one that only conducts."""
    yield (), machine
    if "generator" in machine:
        yield ("generator",), machine["generator"]
    for name, pair in machine.get("pairs", {}).items():
        yield ("pairs", name), pair
        yield ("pairs", name, "generator"), pair["generator"]


def _of(meta: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        meta = meta.get(key) or {}
    return meta


def _changes(path: Sequence[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    whose = f"{' '.join(path)}: " if path else ""
    hosts = before.get("host") or {}, now.get("host") or {}
    builds = before.get("build") or {}, now.get("build") or {}
    for name in _HOST_METADATA:
        yield from _change(f"{whose}{name}", hosts[0].get(name), hosts[1].get(name))
    for name in builds[1]:
        yield from _change(f"{whose}the node program's {name}", builds[0].get(name), builds[1].get(name))


def _change(what: str, before: Any, now: Any) -> Iterator[str]:
    # A value that was unknown then, or is unknown now, is no difference.
    unknown = any(value is None or (isinstance(value, Mapping) and "absent" in value) for value in (before, now))
    if not unknown and before != now:
        yield f"{what} was {before}, now {now}"


def _cpus(noise: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = ("pair", "role", "cpu")
    return [" ".join(str(each[key]) for key in keys if key in each) for each in noise]
