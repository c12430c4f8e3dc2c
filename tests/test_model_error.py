# SPDX-License-Identifier: BSD-3-Clause
"""Check that the model error in docs/models.md is the one that `compare` computes from the recorded S-F10a."""

import re
from pathlib import Path

import pytest
from run_helpers import Cli

CHECKOUT = Path(__file__).resolve().parent.parent
RECORDED = CHECKOUT / "data/runs/s-f10a-single-flow"
ROW = re.compile(r"\| sent \| S-F10a, (\d+) queues, traffic in one \| ([\d.]+) Mpps \| ([\d.]+) Mpps \| ([\d.]+) \(")


def test_the_documented_error_is_what_compare_prints(tmp_path: Path) -> None:
    cli = Cli(tmp_path, node=tmp_path / "there-is-no-node")
    settings = ("factors.queues=[64, 512]", "factors.shape=[SQ]", "factors.feed=[wire]", "trial.window=20 ms")
    words = [word for setting in settings for word in ("--set", setting)]
    done = cli("run", "S-F10a", "--quick", "--testbed", "model", *words)
    assert done.returncode == 0, done.stderr
    said = cli("compare", RECORDED, cli.run_folders()[0], "--metric", "tx_pps", "--out", "x.svg").stdout
    compared = r"queues (\d+), shape SQ, feed wire +run A: (.*? Mpps +run B: .*? Mpps) .*?\) +([\d.]+)"
    found = {queues: f"{rates} {ratio}" for queues, rates, ratio in re.findall(compared, said)}
    rows = ROW.findall((CHECKOUT / "docs/models.md").read_text())
    assert [queues for queues, *_ in rows] == ["64", "512"]
    for queues, *documented in rows:
        numbers = [float(number) for number in re.findall(r"(?<![AB])\d[\d.]*", found[queues])]
        assert numbers == pytest.approx([float(number) for number in documented], rel=0.02)
