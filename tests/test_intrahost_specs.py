# SPDX-License-Identifier: BSD-3-Clause
"""Test the specs of the intra-host rows: they plan, and without the hardware every claim says what is missing."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from command_line import pollscope
from run_helpers import Cli
from test_figures import run_of, svg_of, words

from pollscope.analysis.compare import compare_levels
from pollscope.host.memory import hugetlbfs_folder
from pollscope.knobs import snapshot
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.pair.config import AtStart, PairHost

FOLDER = Path(__file__).parent.parent / "experiments" / "intrahost"
ROWS = {
    "I-T1": "i-t1-tx-scaling",
    "I-F4": "i-f4-tx-rate",
    "I-F5": "i-f5-tx-key-metrics",
    "I-F6": "i-f6-tx-all-metrics",
    "I-WAYS": "i-ways",
}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.mark.parametrize(("row", "name"), ROWS.items())
def test_specs_are_valid_and_found_by_their_rows(cli: Cli, row: str, name: str) -> None:
    assert cli("validate", FOLDER / f"{name}.yaml").returncode == 0
    shown = cli("plan", row, "--json")
    if row == "I-WAYS":
        if shown.returncode == 0:
            pytest.skip("this processor has the register")
        assert shown.returncode == 3
        assert "knob ddio_ways" in shown.stderr
        return
    assert shown.returncode == 0, shown.stderr
    planned = json.loads(shown.stdout)
    assert planned["spec"] == name
    left_out = {entry["point"] for entry in planned["left_out"]}
    there = {trial["point"] for trial in planned["trials"]}
    if row == "I-T1":
        assert_one_difference_at_a_time(there, {entry["point"]: entry["reason"] for entry in planned["left_out"]})
        return
    assert there | left_out == {f"cores={cores}" for cores in (1, 2, 4, 8)}
    assert "cores=1" in there


def assert_one_difference_at_a_time(there: set[str], left_out: dict[str, str]) -> None:
    """Check I-T1 on loopback: the points that this host's IOMMU and a NIC without firmware leave, and the reasons."""
    here = snapshot()
    mode, wqes = here["iommu"]["host"], here["outstanding_wqes"].get("host")
    if mode not in ("strict", "off") or wqes != "none":
        pytest.skip(f"a host with its IOMMU {mode} and {wqes} work requests plans others")
    mine = f"knob.iommu={mode},knob.outstanding_wqes=none,cores=1,"
    sizes = [f"{mine}tx_pool=shared,page_size={size},tx_inline=default" for size in ("4 KiB", "2 MiB")]
    per_core = f"{mine}tx_pool=per-core,page_size=2 MiB,tx_inline=default"
    assert {*sizes, per_core} <= there
    assert all(f"knob.iommu={mode},knob.outstanding_wqes=none," in point for point in there)
    assert left_out[f"{mine}tx_pool=per-core,page_size=4 KiB,tx_inline=default"].endswith("one difference at a time")
    inlined = left_out[f"{mine}tx_pool=shared,page_size=2 MiB,tx_inline=off"]
    assert inlined == "tx_inline=off needs an mlx5 NIC; the virtual NIC's descriptors hold no packets"
    firmware = left_out[sizes[1].replace("wqes=none", "wqes=128")]
    assert firmware == "knob outstanding_wqes: the host has no NVIDIA NIC"
    for other in {"strict", "lazy", "passthrough", "off"} - {mode}:
        reason = left_out[sizes[1].replace(f"iommu={mode}", f"iommu={other}")]
        assert reason.startswith(f"knob iommu: the IOMMU is {mode}; {other} needs the boot parameter")


@pytest.mark.thorough
def test_a_run_without_the_register_says_that_its_claims_are_not_measurable(cli: Cli) -> None:
    done = cli("run", "I-WAYS", "--quick")
    if done.returncode != 3:
        pytest.skip("this processor has the register")
    verdicts = cli("claims", cli.run_folders()[0], "--json")
    assert verdicts.returncode == 0, verdicts.stderr
    found = json.loads(verdicts.stdout)
    ways = [each for each in found if each["claim"].startswith("I-WAYS.")]
    assert len(ways) == 2
    for each in ways:
        assert each["verdict"] == "not measurable here"
        assert "DDIO, and the virtual NIC has none" in json.dumps(each)


@pytest.mark.thorough
def test_ways_are_compared_and_drawn_by_their_number(tmp_path: Path) -> None:
    trials = []
    for ways, repeat in product((2, 6, 11), range(3)):
        point = f"knob.ddio_ways={ways} ways"
        record = synthetic.trial(f"{point}:{repeat}", point, repeat, {"knob.ddio_ways": f"{ways} ways"})
        means = {"dram_write": {"value": 1e9 / ways + repeat * 1e5, "unit": "B/s", "units": 1}}
        record["collectors"] = {"dut/pcm-memory": {"status": "ok", "reason": "", "means": means}}
        trials.append(record)
    run = run_of(tmp_path / "run", "I-WAYS", trials)
    found = compare_levels(run, "knob.ddio_ways", ["dram_write_bytes_per_s"])
    assert [(each.first_name, each.second_name, round(each.ratio.value, 2)) for each in found] == [
        ("ddio_ways 2 ways", "ddio_ways 6 ways", 0.33),
        ("ddio_ways 2 ways", "ddio_ways 11 ways", 0.18),
    ]
    text = words(svg_of(run, "I-WAYS", tmp_path / "out"))
    assert "LLC ways open to DDIO" in text
    assert ABSENT in text


ABSENT = "Absent, so not drawn: "


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("row", "levels", "shown"),
    [
        ("I-F4", {"cores": [1, 2, 4, 8]}, ("Sending cores", "in proportion to one core")),
        ("I-F5", {"cores": [1, 2, 4, 8]}, ("Sending cores", ABSENT)),
        ("I-F6", {"cores": [1, 2, 4, 8]}, ("Sending cores", ABSENT)),
        ("I-T1", {"cores": [1, 2], "tx_pool": ["shared", "per-core"]}, ("tx_pool per-core", ABSENT)),
        ("I-IOMMU", {"cores": [1, 2], "knob.iommu": ["off", "strict"]}, ("iommu strict", ABSENT)),
        ("I-F7", {"load_pps": [16e6, 19e6], "knob.ddio": ["on", "off"]}, ("Offered load (Mpps)", ABSENT)),
    ],
)
def test_figures_show_what_was_counted_and_why_the_rest_is_absent(
    tmp_path: Path, row: str, levels: dict[str, list[Any]], shown: tuple[str, ...]
) -> None:
    points = [dict(zip(levels, each, strict=True)) for each in product(*levels.values())]
    trials = [
        synthetic.trial(f"{point}:{repeat}", str(point), repeat, point, pps=point.get("cores", 1) * 1e6 + repeat)
        for point in points
        for repeat in range(3)
    ]
    text = words(svg_of(run_of(tmp_path / "run", row, trials), row, tmp_path / "out"))
    assert [each for each in shown if each not in text] == []


@pytest.mark.thorough
def test_a_table_and_a_run_of_one_row_are_two_files(tmp_path: Path) -> None:
    trials = [synthetic.trial(f"{repeat}", "cores=1", repeat, {"cores": 1}) for repeat in range(2)]
    run = run_of(tmp_path / "run", "I-T1", trials)
    done = pollscope("figures", "--paper", "intrahost", run.path, "--out", "drawn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"I-T1-table.svg", "I-T1.svg"} <= {Path(line).name for line in done.stdout.split()}


def starting(iommu: str = "on", **params: Any) -> Point:
    return Point("", {"knob.iommu": iommu}, Parameters(**params))


def test_a_nodes_pages_and_inlining_reach_eal() -> None:
    remote = {"host": "192.0.2.1"}
    ports = {"rx": "0000:17:00.0", "tx": "0000:17:00.0", "driver": "mlx5"}
    given = {"ssh": remote, "ports": ports, "main_cpu": 0, "cpus": [2], "hugetlbfs": {"1 GiB": "/dev/huge1g"}}
    host = PairHost.model_validate(given)
    usual = host.eal_arguments("x", 1, AtStart())
    assert usual[-3:] == ["-a", "0000:17:00.0", "--in-memory"]
    large = host.eal_arguments("x", 1, AtStart("1 GiB", "off"))
    assert large[-5:] == [
        "0000:17:00.0,txq_inline_max=0,txq_inline_mpw=0",
        "--huge-dir",
        "/dev/huge1g",
        "--huge-unlink",
        "--no-shconf",
    ]
    small = host.eal_arguments("x", 1, AtStart("4 KiB", "on"))
    assert small[-4:] == ["0000:17:00.0,txqs_min_inline=1", "--no-huge", "-m", "1024"]
    assert host.start_refusal(starting(page_size="2 MiB", tx_inline="on")) is not None
    assert "IOMMU" in str(host.start_refusal(starting("off", page_size="4 KiB", tx_inline="on")))
    other = PairHost.model_validate(given | {"ports": {"rx": "net_memif0", "tx": "net_memif0"}})
    assert "mlx5" in str(other.start_refusal(starting(tx_inline="off")))


def test_mounts_of_hugepages_are_found_by_their_size(tmp_path: Path) -> None:
    lines = [
        "proc /proc proc rw 0 0",
        "none /mnt/2m hugetlbfs rw,relatime,pagesize=2M 0 0",
        "pages /mnt/1g hugetlbfs rw,pagesize=1024M 0 0",
        "broken",
    ]
    (tmp_path / "mounts").write_text("\n".join(lines))
    assert hugetlbfs_folder(2 << 20, tmp_path) == "/mnt/2m"
    assert hugetlbfs_folder(1 << 30, tmp_path) == "/mnt/1g"
    assert hugetlbfs_folder(16 << 30, tmp_path) is None
