# SPDX-License-Identifier: BSD-3-Clause
"""Run trials on two nodes on two hosts: the DUT and the generator.

Each host has its own clock. The DUT starts first and runs until the generator has drained, so that it misses no packet.
Each node cuts its window by its own clock, so the DUT's window begins earlier by the delay of the generator's start. If
that delay is shorter than the warm-up, traffic covers the DUT's whole window. So short warm-ups are lengthened, and the
times of the start requests are checked.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pollscope.base.errors import TrialError
from pollscope.base.names import RECEIVE_NOTHING
from pollscope.base.units import human_number
from pollscope.host.corunner_placement import CorunnerCpus, has_corunners
from pollscope.node.client import NodeClient, NodeFailed, NodeLost, NodeRefused
from pollscope.node.clocks import clock_warnings
from pollscope.node.requests import Wiring, configure_request
from pollscope.spec.model import Parameters
from pollscope.testbeds.collecting import Options
from pollscope.testbeds.pair.activity import PairWatch
from pollscope.testbeds.pair.config import AtStart, PairConfig
from pollscope.testbeds.pair.other_generator import OtherGenerator
from pollscope.testbeds.pair.placement import DutCorunners
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.ssh import LOST_STATUS
from pollscope.testbeds.session import TrialRequest

# Both hosts may use one port name, so records add the host.
DUT, GENERATOR = "dut/", "gen/"
CONFIGURE_LIMIT_S = CALIBRATE_LIMIT_S = 60.0
REQUEST_LIMIT_S = 20.0
# A real wire is quiet within milliseconds. QEMU keeps up to 10 000 frames between two emulated machines (net/queue.c).
QUIET_LIMIT_S, TAKE_NS = 60.0, 500_000_000
# Ports negotiate for seconds after their start, and again after the start of the other end.
LINK_LIMIT_S, LINK_LOOK_S = 30.0, 0.1
# Delay of a trial's end after which a node counts as hung.
GRACE_S = 30.0
# Two start requests over SSH take milliseconds; on emulated machines of a busy host they took up to 0.2 s.
LEAST_WARMUP_NS, LEAST_WARMUP_EMULATED_NS = 500_000_000, 1_500_000_000
_STRESS_NG_EMULATED_NS = 15_000_000_000
_LATE_STARTS = 2  # the next start may be later than all before
# Times at which the DUT's polls are counted, as shares of the warm-up.
_QUEUE_POLLS_LOOKS = (0.4, 0.8)
EMULATED = "the machines are emulated: times, rates and caches are the emulator's and no measure of any hardware"


def wiring(config: PairConfig, params: Parameters, polling: Sequence[int]) -> Wiring:
    """Return the lcores and ports of a pair as in records; `polling`: the DUT's lcores, workers before dispatchers."""
    dut, generator = config.dut.ports, config.generator.ports
    return Wiring(
        generator_lcores=range(1, config.generator_lcores + 1),
        dut_lcores=polling[: params.cores],
        dispatcher_lcores=polling[params.cores :],
        gen_tx=GENERATOR + generator.tx,
        dut_rx=DUT + dut.rx,
        dut_tx=DUT + dut.tx,
        gen_rx=GENERATOR + generator.rx,
    )


def split_request(request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the `configure` request of a single node into those of DUT and generator, without the target.

    A DUT that only sends has no generator; the other node then only keeps its ports up.
    """
    ports = request["ports"]
    mine = {side: [_own(port) for port in ports if port["name"].startswith(side)] for side in (DUT, GENERATOR)}
    generator = {key: value for key, value in _own(request.get("gen", {})).items() if key != "target_port"}
    other: dict[str, Any] = {"gen": generator} if generator else {}
    return {"ports": mine[DUT], "dut": _own(request["dut"])}, {"ports": mine[GENERATOR], **other}


def _own(part: Mapping[str, Any]) -> dict[str, Any]:
    ports = ("name", "rx_port", "tx_port", "target_port")
    return {key: value.partition("/")[2] if key in ports and value else value for key, value in part.items()}


def _merge_results(dut: Mapping[str, Any], generator: Mapping[str, Any], skew_ns: int) -> dict[str, Any]:
    """Return one result: the DUT's, with the generator's part and its ports.

    `skew_ns`: largest possible delay of the generator's start after the DUT's.
    """
    ports = {
        side + name: port for side, each in ((DUT, dut), (GENERATOR, generator)) for name, port in each["ports"].items()
    }
    return {
        **dut,
        "gen": {**generator["gen"], "window": generator["window"]},
        "ports": ports,
        "clocks": {"shared": False, "start_skew_at_most_ns": skew_ns},
    }


def _packets(result: Mapping[str, Any], counter: str) -> int:
    """Return the sum of a counter over all ports of a result."""
    return sum(port["stats"][counter] for port in result["ports"].values())


class PairSession:
    """The nodes of DUT and generator.

    Args:
        config: of the pair.
        dut: the DUT's node, which has said hello.
        generator: the generator's node, which has said hello.
        hosts: agents on both hosts, for collectors and for the activity of other programs.
        corunners: programs beside the DUT.
        options: of collectors of this host that observe virtual machines; empty for real hosts.
    """

    measuring_cpus: tuple[int, ...] = ()  # no lcore runs on this host

    def __init__(
        self,
        config: PairConfig,
        dut: NodeClient,
        generator: NodeClient | OtherGenerator,
        hosts: Sequence[RemoteHost],
        corunners: DutCorunners,
        options: Options,
        at_start: AtStart,
    ) -> None:
        self._config, self._dut, self._generator, self._at_start = config, dut, generator, at_start
        self.hosts, self._corunners, self.collector_options = hosts, corunners, options
        self._configured: dict[str, Any] = {}
        self._latest_start_ns = 0
        self._has_left = False

    @property
    def hello(self) -> dict[str, Any]:
        """Return the DUT node's hello, with the generator's under `generator`."""
        return {**self._dut.hello, "generator": self._generator.hello}

    @property
    def _emulated(self) -> bool:
        return self._config.dut.emulated or self._config.generator.emulated

    @property
    def metadata(self) -> list[str]:
        metadata = [EMULATED] if self._emulated else []
        metadata.append(
            "generator and DUT have clocks of their own: latencies are round trips, read by the generator alone"
        )
        for role, client in (("DUT", self._dut), ("generator", self._generator)):
            if not client.hello["hugepages"]:
                metadata.append(f"the {role} has no hugepages: costs per packet are higher than with them")
            metadata += clock_warnings(client.hello, f"{role}: ")
        return metadata

    def corunner_cpus(self, params: Parameters) -> CorunnerCpus:
        return self._corunners.place(params)

    def open_corunner(self, log: Path) -> NodeClient:
        return self._corunners.start(log)

    def suits(self, params: Parameters) -> bool:
        """Return whether these nodes were started for this configuration and both connections exist."""
        return AtStart.of(params) == self._at_start and self._dut.alive and self._generator.alive

    def watch(self) -> Callable[[], dict[str, Any]]:
        polling = {"dut": len(self._config.dut.cpus), "generator": self._config.generator_lcores}
        nodes: dict[str, NodeClient | OtherGenerator] = {"dut": self._dut, "generator": self._generator}
        return PairWatch(self.hosts, {name: (nodes[name].hello["pid"], polling[name]) for name in nodes}).record

    def configure(self, params: Parameters) -> dict[str, Any]:
        """Configure the DUT, then the generator for the DUT's port; return the combined request."""
        if not has_corunners(params):
            self._corunners.leave()
        polling = self._corunners.placement.lcores(params)
        request = configure_request(params, wiring(self._config, params, polling))
        if request != self._configured:
            self._configured = {}
            self._configure(request)
            self._configured = request
        return request

    def _configure(self, request: Mapping[str, Any]) -> None:
        dut, generator = split_request(request)
        with self._telling("DUT"):
            target = self._dut.request("configure", CONFIGURE_LIMIT_S, **dut).get("target", {})
        if "gen" in generator and "absent" in target:
            raise TrialError(
                f"flows cannot be placed on the RX queues of {self._config.dut.ports.rx}: {target['absent']}"
            )
        if "gen" in generator:
            generator["gen"]["target"] = target
        with self._telling("generator"):
            self._generator.request("configure", CONFIGURE_LIMIT_S, **generator)
        self._wait_links()

    def _wait_links(self) -> None:
        deadline = time.monotonic() + LINK_LIMIT_S
        while down := [*self._links_down("DUT", self._dut), *self._links_down("generator", self._generator)]:
            if time.monotonic() > deadline:
                raise NodeFailed(
                    f"no link after {human_number(LINK_LIMIT_S)} s: {', '.join(down)}", remedy="is the cable in?"
                )
            time.sleep(LINK_LOOK_S)

    def _links_down(self, role: str, client: NodeClient | OtherGenerator) -> list[str]:
        with self._telling(role):
            links = client.request("links", REQUEST_LIMIT_S)["links"]
        return [f"{role} {name}" for name, is_up in links.items() if not is_up]

    def least_warmup_ns(self, params: Parameters) -> int:
        """Return a warm-up for which traffic covers the DUT's whole window, even if the generator starts late.

        stress-ng must also have started: on an emulated machine of a busy host it needed more than 2 s.
        """
        if self._emulated and "stress-ng" in (params.corunner, params.dut_core):
            return _STRESS_NG_EMULATED_NS
        if "gen" not in self._configured:
            return 0
        return max(
            LEAST_WARMUP_EMULATED_NS if self._emulated else LEAST_WARMUP_NS, _LATE_STARTS * self._latest_start_ns
        )

    def calibrate(self, params: Parameters) -> dict[str, Any]:
        """Return the costs of the configuration, measured without traffic; absent if the DUT only sends."""
        if params.workload in RECEIVE_NOTHING:
            return {"absent": f"the workload {params.workload} polls no RX queue"}
        deadline = time.monotonic() + QUIET_LIMIT_S
        while True:
            try:
                with self._telling("DUT"):
                    reply = self._dut.request("calibrate", CALIBRATE_LIMIT_S)
                return dict(reply["costs"])
            except NodeRefused as error:
                if time.monotonic() > deadline or "packets arrived" not in error.what:
                    raise
            self._take_what_is_left()

    def _take_what_is_left(self) -> int:
        """Let the DUT receive packets of an earlier trial; return their number."""
        taking = {"trial": "left", "warmup_ns": 1, "window_ns": TAKE_NS, "drain_max_ns": 0}
        with self._telling("DUT"):
            self._dut.request("start", REQUEST_LIMIT_S, **taking)
            self._dut.wait_trial("left", TAKE_NS / 1e9 + GRACE_S)
            return _packets(self._dut.request("read", REQUEST_LIMIT_S), "ipackets")

    def _clear(self) -> None:
        """Receive all packets that the last trial left between emulated hosts, before the next trial counts them."""
        deadline = time.monotonic() + QUIET_LIMIT_S
        while self._has_left and time.monotonic() < deadline:
            self._has_left = self._take_what_is_left() > 0

    def noise(self, duration_ns: int) -> list[dict[str, Any]]:
        """Return the gaps of each polling CPU; `role` names the host."""
        limit_s = duration_ns / 1e9 + REQUEST_LIMIT_S
        found = []
        for role, client, cpus in self._nodes():
            with self._telling(role):
                reply = client.request("noise", limit_s, lcores=list(range(1, cpus + 1)), duration_ns=duration_ns)
            found += [{"role": role, **each} for each in reply["noise"]]
        return found

    def host_state(self) -> list[dict[str, Any]]:
        """Check the polling CPUs of both hosts; `role` names the host."""
        found = []
        for role, client, cpus in self._nodes():
            with self._telling(role):
                reply = client.request("host_state", REQUEST_LIMIT_S, lcores=list(range(1, cpus + 1)))
            found.append({"role": role, **reply["host_state"]})
        return found

    def _nodes(self) -> list[tuple[str, NodeClient | OtherGenerator, int]]:
        return [
            ("generator", self._generator, self._config.generator_lcores),
            ("DUT", self._dut, len(self._dut.hello["lcores"]) - 1),
        ]

    def floor(self, params: Parameters, request: TrialRequest) -> dict[str, Any] | str:
        """Return why no floor can be measured: all cables lead to the DUT."""
        del params, request
        return "the generator's ports are joined through the DUT only, so no frame comes back without it"

    def measure(self, request: TrialRequest) -> dict[str, Any]:
        """Measure one trial.

        Raises:
            NodeRefused, NodeFailed: a node does not start the trial or abandons it, or the starts are too far apart.
            NodeLost: a node hung or died, or its host was lost.
        """
        self._clear()
        if "gen" not in self._configured:
            return self._measure_alone(request)
        skew_ns = self._run(request)
        self._latest_start_ns = max(self._latest_start_ns, skew_ns)
        if skew_ns > request.warmup_ns:
            raise NodeFailed(
                f"the generator started up to {skew_ns / 1e6:.0f} ms after the DUT, longer than the warm-up of "
                f"{request.warmup_ns / 1e6:.0f} ms: part of the window may have had no traffic",
                remedy="a longer trial.warmup",
            )
        with self._telling("DUT"):
            dut = self._dut.request("read", REQUEST_LIMIT_S)
        with self._telling("generator"):
            generator = self._generator.request("read", REQUEST_LIMIT_S)
        self._has_left = self._emulated and _packets(generator, "opackets") > _packets(dut, "ipackets")
        return _merge_results(dut, generator, skew_ns)

    def _measure_alone(self, request: TrialRequest) -> dict[str, Any]:
        """Measure a trial without a generator."""
        held = self._held()
        with self._telling("DUT"):
            self._dut.request("start", REQUEST_LIMIT_S, **request.to_dut())
            self._dut.wait_trial(request.trial, request.planned_s + GRACE_S)
            dut = self._dut.request("read", REQUEST_LIMIT_S)
        self._require_hosts(held)
        return {**dut, "ports": {DUT + name: port for name, port in dut["ports"].items()}}

    def _run(self, request: TrialRequest) -> int:
        """Run the trial on both nodes; return the largest possible delay of the generator's start, in ns."""
        held = self._held()
        asked_ns = time.monotonic_ns()
        with self._telling("DUT"):
            self._dut.request("start", REQUEST_LIMIT_S, hold=True, **request.to_dut())
        try:
            with self._telling("generator"):
                self._generator.request("start", REQUEST_LIMIT_S, **request.to_json())
            skew_ns = time.monotonic_ns() - asked_ns
            if self._wants_queue_polls(request):
                self._set_queue_polls(request.warmup_ns / 1e9)
            with self._telling("generator"):
                self._generator.wait_trial(request.trial, request.planned_s + GRACE_S)
            self._require_hosts(held)
        except TrialError:
            with contextlib.suppress(TrialError):  # the DUT must be free for the next trial
                self._release(request)
            raise
        self._release(request)
        return skew_ns

    def _wants_queue_polls(self, request: TrialRequest) -> bool:
        """Return whether the generator sends to cold queues and therefore needs their poll rate."""
        gen = self._configured["gen"]
        has_cold = gen["shape"] in ("PC", "NC") and gen["background_probability"] > 0 and self._rx_queues() > 1
        return bool(request.rate.get("saturate") and has_cold)

    def _set_queue_polls(self, warmup_s: float) -> None:
        """Report the DUT's poll rate in the warm-up to the generator; twice, because its packets make polls longer."""
        begin = time.monotonic()
        looks = [self._queue_polls_so_far()]
        for share in _QUEUE_POLLS_LOOKS:
            time.sleep(max(0.0, begin + share * warmup_s - time.monotonic()))
            looks.append(self._queue_polls_so_far())
            (since, before), (now, queue_polls) = looks[-2:]
            with self._telling("generator"):
                self._generator.request(
                    "queue_polls", REQUEST_LIMIT_S, per_s=(queue_polls - before) / max(now - since, 1e-6)
                )

    def _queue_polls_so_far(self) -> tuple[float, float]:
        """Return the DUT's time in s, and the average number of polls per queue since the trial began."""
        with self._telling("DUT"):
            live = self._dut.request("read", REQUEST_LIMIT_S)
        readers = [lcore for lcore in live["dut"]["lcores"] if lcore["source"] == "rx-queues"]
        queue_polls = sum(lcore["iterations"] * lcore["queues"] for lcore in readers) / self._rx_queues()
        return live["now_tsc"] / live["window"]["tsc_hz"], queue_polls

    def _rx_queues(self) -> int:
        name = self._configured["dut"]["rx_port"]
        return next(int(port["rx_queues"]) for port in self._configured["ports"] if port["name"] == name)

    def _held(self) -> Mapping[RemoteHost, int]:
        """Return the hosts whose knobs are set, with the number of the connection that holds them."""
        return {host: host.connection for host in self.hosts if host.holds_knobs}

    def _require_hosts(self, held: Mapping[RemoteHost, int]) -> None:
        """Refuse a trial during which an agent's connection was lost, because the agent restored its knobs."""
        for host, connection in held.items():
            if host.connection != connection:
                raise NodeFailed("the agent's connection was lost in the trial: its knobs were restored", str(host))

    def _release(self, request: TrialRequest) -> None:
        with self._telling("DUT"):
            self._dut.request("stop", REQUEST_LIMIT_S)
            self._dut.wait_trial(request.trial, request.drain_max_ns / 1e9 + GRACE_S)

    @contextlib.contextmanager
    def _telling(self, role: str) -> Iterator[None]:
        """Name the host in errors of its node."""
        host = self._config.dut.ssh if role == "DUT" else self._config.generator.ssh
        try:
            yield
        except NodeLost as error:
            lost = f"status {LOST_STATUS}" in error.what
            what = "the SSH connection was lost" if lost else error.what
            raise NodeLost(f"{role} on {host}: {what}", error.where, error.remedy) from error
        except TrialError as error:
            raise type(error)(f"{role} on {host}: {error.what}", error.where, error.remedy) from error

    def close(self) -> None:
        self._generator.close()
        self._dut.close()

    def end(self) -> None:
        """End both connections at once; the nodes end because their input closes."""
        self._generator.end()
        self._dut.end()
