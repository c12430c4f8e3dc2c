# SPDX-License-Identifier: BSD-3-Clause
"""Test roles on made-up machines, written as trees of sysfs files and read back like those of a real host."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollscope.base.errors import HostError
from pollscope.base.names import PLACEMENTS
from pollscope.host.cpus import Cpu, most_dut_cores, online_cpus, similar_cpus
from pollscope.host.placement import Roles, Wanted, place, room_beside


def sysfs(root: Path, sockets: int, cores: int, threads: int, nodes_a_socket: int = 1) -> Path:
    """Return a machine as Linux numbers it: first threads of all cores, then the second threads."""
    base, per_node = root / "devices/system/cpu", cores // nodes_a_socket
    places = [(socket, core) for _thread in range(threads) for socket in range(sockets) for core in range(cores)]
    base.mkdir(parents=True)
    (base / "online").write_text(f"0-{len(places) - 1}\n")
    for number, (socket, core) in enumerate(places):
        folder = base / f"cpu{number}"
        (folder / "topology").mkdir(parents=True)
        (folder / "topology/physical_package_id").write_text(f"{socket}\n")
        (folder / "topology/die_id").write_text("0\n")
        (folder / "topology/core_id").write_text(f"{core}\n")
        (folder / f"node{socket * nodes_a_socket + core // per_node}").mkdir()
    return root


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> list[Cpu]:
    """Return two sockets with sixteen cores each and two threads per core."""
    return online_cpus(sysfs(tmp_path_factory.mktemp("server"), 2, 16, 2))


def machine(nodes: int, cores: int, threads: int) -> list[Cpu]:
    places = [(node, core) for _thread in range(threads) for node in range(nodes) for core in range(cores)]
    return [Cpu(node, node, core, number) for number, (node, core) in enumerate(places)]


def cores_of(cpus: list[Cpu], numbers: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [next(cpu.physical for cpu in cpus if cpu.cpu == number) for number in numbers]


def nodes_of(cpus: list[Cpu], *numbers: int) -> set[int]:
    return {cpu.node for cpu in cpus if cpu.cpu in numbers}


def refused(cpus: list[Cpu], wanted: Wanted) -> str:
    with pytest.raises(HostError) as caught:
        place(cpus, wanted)
    return caught.value.what


def generator_of(roles: Roles) -> int:
    (generator,) = roles.generators
    return generator


def test_the_tree_is_read_as_it_was_written(server: list[Cpu]) -> None:
    assert len(server) == 64
    assert len({cpu.physical for cpu in server}) == 32
    assert {cpu.node for cpu in server} == {0, 1}
    assert most_dut_cores(server) == 32


def test_two_cpus_share_main_and_generator() -> None:
    roles = place(machine(1, 2, 1), Wanted(1))
    assert (roles.main, roles.generators, roles.dut, roles.shared_core) == (0, (0,), (1,), False)


def test_two_cpus_host_a_dispatcher_and_a_worker_without_generator() -> None:
    roles = place(machine(1, 2, 1), Wanted(1, 1, generator=False))
    assert roles.generators == ()
    assert {*roles.dut, *roles.dispatchers} == {0, 1}
    assert roles.measuring == (*roles.dut, *roles.dispatchers)


def test_enough_cores_get_a_core_each_on_one_node() -> None:
    roles = place(machine(2, 4, 2), Wanted(2))
    assert (roles.main, roles.generators, roles.dut, roles.shared_core) == (0, (1,), (2, 3), False)


def test_ten_dispatchers_and_ten_workers_take_both_sockets(server: list[Cpu]) -> None:
    roles = place(server, Wanted(10, 10))
    assert len(set(cores_of(server, roles.measuring))) == 21
    assert nodes_of(server, *roles.measuring) == {0, 1}
    assert (len(roles.dut), len(roles.dispatchers)) == (10, 10)


def test_fifteen_workers_and_their_generator_stay_on_one_socket(server: list[Cpu]) -> None:
    assert len(nodes_of(server, *place(server, Wanted(15)).measuring)) == 1
    assert len(nodes_of(server, *place(server, Wanted(16)).measuring)) == 2


@pytest.mark.parametrize(
    ("cores", "workers", "more", "generators"),
    [
        pytest.param(2, 1, 3, 1, id="two-cpus-as-ever"),
        pytest.param(8, 4, 1, 2, id="as-many-as-asked"),
        pytest.param(8, 4, 9, 3, id="all-but-one"),
        pytest.param(8, 6, 2, 1, id="one-core-stays-free"),
        pytest.param(8, 7, 3, 1, id="the-dut-takes-all"),
    ],
)
def test_further_generators_take_free_cores_but_one(cores: int, workers: int, more: int, generators: int) -> None:
    cpus = machine(1, cores, 1)
    roles, alone = place(cpus, Wanted(workers, more_generators=more)), place(cpus, Wanted(workers))
    assert (len(roles.generators), roles.dut, roles.generators[0]) == (generators, alone.dut, alone.generators[0])
    assert (roles.main in roles.measuring) == (cores == workers + 1)


def test_further_generators_stay_on_the_node_of_the_first(server: list[Cpu]) -> None:
    roles = place(server, Wanted(4, placement="remote-node", more_generators=1))
    assert (nodes_of(server, *roles.generators), nodes_of(server, *roles.dut)) == ({0}, {1})
    assert len(set(cores_of(server, roles.measuring))) == 6
    assert len(place(server, Wanted(15, more_generators=7)).generators) == 1


def test_threads_of_one_core_are_used_last_and_reported() -> None:
    roles = place(machine(1, 1, 2), Wanted(1))
    assert roles.shared_core
    assert {generator_of(roles), *roles.dut} == {0, 1}


def test_separate_lcores_of_the_dut_never_share_a_core(server: list[Cpu]) -> None:
    assert place(server, Wanted(32)).shared_core, "the generator is a second thread"
    reason = "separate: needs 33 physical cores for the DUT's lcores; this host has 32 with 64 hardware threads"
    assert refused(server, Wanted(33)) == reason


def test_pairs_are_the_threads_of_a_core(server: list[Cpu]) -> None:
    roles = place(server, Wanted(10, 10, placement="smt-pairs"))
    pairs = cores_of(server, roles.dut)
    assert pairs[::2] == pairs[1::2]
    assert len(set(pairs)) == 5
    assert len(set(cores_of(server, roles.dispatchers)) | set(pairs)) == 10
    assert cores_of(server, (generator_of(roles),))[0] not in {*pairs, *cores_of(server, roles.dispatchers)}
    assert len(nodes_of(server, *roles.measuring)) == 1, "eleven cores fit on one socket"


def test_pairs_need_smt() -> None:
    reason = "smt-pairs: this host shows no SMT: each of its CPUs is a core of its own"
    assert refused(machine(1, 4, 1), Wanted(2, placement="smt-pairs")) == reason
    reason = "smt-pairs: needs 2 physical cores with two hardware threads and one for the generator; this host has 3"
    assert place(machine(1, 3, 2), Wanted(4, placement="smt-pairs")).dut == (1, 4, 2, 5)
    assert refused(machine(1, 3, 2), Wanted(4, 1, placement="smt-pairs")).startswith(reason.replace("2 phys", "3 phys"))


def test_cores_on_the_same_and_on_a_remote_node(server: list[Cpu]) -> None:
    assert len(nodes_of(server, *place(server, Wanted(10, 5, placement="same-node")).measuring)) == 1
    reason = "same-node: needs 17 physical cores on one NUMA node; the largest has 16"
    assert refused(server, Wanted(16, placement="same-node")) == reason
    roles = place(server, Wanted(16, placement="remote-node"))
    assert nodes_of(server, *roles.dut) == {1}
    assert nodes_of(server, generator_of(roles)) == {0}
    reason = "remote-node: needs 17 physical cores on another NUMA node than 0; there are 16"
    assert refused(server, Wanted(17, placement="remote-node")) == reason


def test_nodes_inside_a_socket(tmp_path: Path) -> None:
    cpus = online_cpus(sysfs(tmp_path, 1, 8, 1, nodes_a_socket=2))
    assert len(nodes_of(cpus, *place(cpus, Wanted(3, placement="same-node")).measuring)) == 1
    assert refused(cpus, Wanted(4, placement="same-node")).endswith("the largest has 4")


def test_remote_needs_a_reference_node() -> None:
    assert refused(machine(1, 4, 1), Wanted(1, placement="remote-node")) == "remote-node: this host has 1 NUMA node"
    alone = Wanted(1, generator=False, placement="remote-node")
    assert "no generator" in refused(machine(2, 2, 1), alone)


def test_the_nic_determines_the_near_node(server: list[Cpu]) -> None:
    for node in (0, 1):
        near = place(server, Wanted(4, generator=False, placement="same-node", nic_node=node))
        far = place(server, Wanted(4, generator=False, placement="remote-node", nic_node=node))
        assert nodes_of(server, *near.dut) == {node}
        assert nodes_of(server, *far.dut) == {1 - node}
        assert nodes_of(server, *place(server, Wanted(4, generator=False, nic_node=node)).dut) == {node}


def test_listed_cpus_are_taken_as_they_stand(server: list[Cpu]) -> None:
    roles = place(server, Wanted(2, 1, placement="7,39,20,21"))
    assert (roles.dut, roles.dispatchers) == ((7, 39), (20,))
    assert not roles.shared_core
    assert cores_of(server, (generator_of(roles),))[0] not in cores_of(server, (7, 39, 20))


def test_listed_cpus_that_are_not_there() -> None:
    assert refused(machine(1, 4, 1), Wanted(1, placement="9")) == "placement: this host has no CPU 9 to give, only 0-3"
    two = machine(1, 2, 1)
    assert refused(two, Wanted(2, placement="0,1")) == "needs 3 CPUs (2 workers, 1 generator); this host has 2 to give"
    assert place(two, Wanted(1, placement="0")).generators == (1,)


def test_a_listed_cpu_beside_the_generators_thread_is_reported() -> None:
    assert place(machine(1, 1, 2), Wanted(1, placement="1")).shared_core


def test_too_few_cpus() -> None:
    assert most_dut_cores(machine(1, 1, 1)) == 0
    assert refused(machine(1, 1, 1), Wanted(1)) == "needs 2 CPUs (1 worker, 1 generator); this host has 1 to give"
    reason = "needs 5 CPUs (2 workers, 2 dispatchers, 1 generator); this host has 2 to give"
    assert refused(machine(1, 2, 1), Wanted(2, 2)) == reason


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 2)),
    st.integers(1, 12),
    st.integers(0, 12),
    st.booleans(),
    st.sampled_from(PLACEMENTS),
    st.integers(0, 4),
)
def test_every_placement_keeps_its_constraints(
    shape: tuple[int, int, int], workers: int, dispatchers: int, generator: bool, policy: str, more: int
) -> None:
    cpus, wanted = machine(*shape), Wanted(workers, dispatchers, generator, policy, more_generators=more)
    try:
        roles = place(cpus, wanted)
    except HostError:
        return  # the reasons have tests of their own
    assert len(set(roles.measuring)) == len(roles.measuring)
    further = len(roles.measuring) - wanted.needed
    assert 0 <= further <= (more if generator else 0)
    assert not further or roles.main not in roles.measuring
    dut = cores_of(cpus, (*roles.dut, *roles.dispatchers))
    if policy == "smt-pairs":
        workers_on = cores_of(cpus, roles.dut)
        assert workers_on[0 : len(workers_on) // 2 * 2 : 2] == workers_on[1::2]
    else:
        assert all(first != second for first, second in combinations(dut, 2))
    if roles.generators:
        assert roles.shared_core == (cores_of(cpus, roles.generators)[0] in dut)
    if policy == "same-node":
        assert len(nodes_of(cpus, *roles.measuring)) == 1
    if policy == "remote-node":
        assert not nodes_of(cpus, *roles.dut, *roles.dispatchers) & nodes_of(cpus, *roles.generators)


@pytest.mark.parametrize(
    ("busy", "room"),
    [
        pytest.param((), {0, 1, 2, 3}, id="nothing-is-measured-here"),
        pytest.param((3, 2), {0, 1}, id="cpus-to-spare"),
        pytest.param((1, 0, 2, 3), {1}, id="the-generator-gives-way"),
        pytest.param((7, 0, 1, 2, 3), {0, 1, 2, 3}, id="the-generator-is-elsewhere"),
    ],
)
def test_collectors_leave_the_dut_its_cpus(busy: tuple[int, ...], room: set[int]) -> None:
    assert room_beside({0, 1, 2, 3}, busy) == room


def test_cpus_of_another_host_are_those_of_this_one_in_another_number(server: list[Cpu]) -> None:
    found = similar_cpus(server, 16)
    assert [len({cpu.physical for cpu in found if cpu.node == node}) for node in (0, 1)] == [4, 4]
    assert {cpu.llc for cpu in found if cpu.node == 0} == {0}
    assert len({cpu.physical for cpu in similar_cpus(server, 3)}) == 2
    assert [cpu.node for cpu in similar_cpus(machine(1, 2, 1), 5)] == [0] * 5


def test_the_last_level_cache_is_the_largest_that_the_kernel_lists(tmp_path: Path) -> None:
    root = sysfs(tmp_path, 1, 4, 1)
    for cpu, (level, shared) in ((2, (2, "2")), (2, (3, "2-3")), (3, (3, "2-3"))):
        cache = root / f"devices/system/cpu/cpu{cpu}/cache/index{level}"
        cache.mkdir(parents=True)
        (cache / "level").write_text(f"{level}\n")
        (cache / "shared_cpu_list").write_text(f"{shared}\n")
    assert [cpu.llc for cpu in online_cpus(root)] == [None, None, 2, 2]
