# SPDX-License-Identifier: BSD-3-Clause
"""The specs of the intra-host rows: they plan, and where the hardware is missing every claim says what is missing."""

import json
from pathlib import Path

import pytest
import synthetic_run as synthetic
from run_helpers import Cli
from test_figures import run_of, svg_of, words

from pollscope.analysis.compare import compare_levels

FOLDER = Path(__file__).parent.parent / "experiments" / "intrahost"
ROWS = {
    "I-T1": "i-t1-tx-scaling",
    "I-F4": "i-f4-tx-rate",
    "I-F5": "i-f5-tx-key-metrics",
    "I-F6": "i-f6-tx-all-metrics",
    "I-WAYS": "i-ways",
}
NO_WAYS = "this processor is in no platform table"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.mark.parametrize(("row", "name"), ROWS.items())
def test_specs_are_valid_and_found_by_their_rows(cli: Cli, row: str, name: str) -> None:
    assert cli("validate", FOLDER / f"{name}.yaml").returncode == 0
    shown = cli("plan", row, "--json")
    if row == "I-WAYS":
        pytest.skip("a host with the register plans it" if shown.returncode == 0 else shown.stderr)
    assert shown.returncode == 0, shown.stderr
    planned = json.loads(shown.stdout)
    assert planned["spec"] == name
    left_out = {entry["point"] for entry in planned["left_out"]}
    there = {trial["point"] for trial in planned["trials"]}
    wanted = {f"cores={cores}" for cores in ((1, 2) if row == "I-T1" else (1, 2, 4, 8))}
    assert there | left_out == wanted
    assert "cores=1" in there


def test_ways_are_planned_for_a_pair_and_left_out_with_the_reason(cli: Cli) -> None:
    done = cli("plan", "I-WAYS")
    if done.returncode == 0:
        pytest.skip("this processor has the register")
    assert done.returncode == 3
    assert "knob ddio_ways" in done.stderr


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
        assert "ddio_ways" in json.dumps(each)


def ways_trials() -> list[dict[str, object]]:
    trials = []
    for ways in (2, 6, 11):
        for repeat in range(3):
            point = f"knob.ddio_ways={ways} ways"
            record = synthetic.trial(f"{point}:{repeat}", point, repeat, {"knob.ddio_ways": f"{ways} ways"})
            bytes_per_s = 1e9 / ways + repeat * 1e5
            means = {"dram_write": {"value": bytes_per_s, "unit": "B/s", "units": 1}}
            record["collectors"] = {"dut/pcm-memory": {"status": "ok", "reason": "", "means": means}}
            trials.append(record)
    return trials


def test_ways_are_compared_and_drawn_by_their_number(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "I-WAYS", ways_trials())
    found = compare_levels(run, "knob.ddio_ways", ["dram_write_bytes_per_s"])
    names = [(each.first_name, each.second_name) for each in found]
    assert names == [
        ("ddio_ways 2 ways", "ddio_ways 6 ways"),
        ("ddio_ways 2 ways", "ddio_ways 11 ways"),
    ]
    assert [round(each.ratio.value, 2) for each in found] == [0.33, 0.18]
    text = words(svg_of(run, "I-WAYS", tmp_path / "out"))
    assert "LLC ways open to DDIO" in text
    assert "absent, because" in text


@pytest.mark.parametrize("row", ["I-F4", "I-F5", "I-F6"])
def test_sending_figures_show_what_was_counted_and_why_the_rest_is_absent(tmp_path: Path, row: str) -> None:
    trials = [
        synthetic.trial(f"cores={cores}:{repeat}", f"cores={cores}", repeat, {"cores": cores}, pps=cores * 1e6 + repeat)
        for cores in (1, 2, 4, 8)
        for repeat in range(3)
    ]
    text = words(svg_of(run_of(tmp_path / "run", row, trials), row, tmp_path / "out"))
    assert "Sending cores" in text
    if row == "I-F4":
        assert "in proportion to one core" in text
    else:
        assert "absent, because" in text
