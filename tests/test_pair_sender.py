# SPDX-License-Identifier: BSD-3-Clause
"""Check build/tests-sender, the secondary process that docs/your-program.md lets send to any DPDK program."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from testpmd import remove_leftovers, require_testpmd, running_testpmd

TRIES = 4
LIMIT_S = 30.0
ENDLESS = 1_000_000_000


@pytest.mark.thorough
def test_the_sender_survives_a_program_that_ends_while_it_sends(build_dir: Path, tmp_path: Path) -> None:
    """Before the repair one try in four ended with a segmentation fault."""
    require_testpmd()
    options = ["--rxq=2", "--txq=2", "--total-num-mbufs=4096"]
    for number in range(TRIES):
        prefix = f"tests-sender-{os.getpid()}-{number}"
        eal = ["--proc-type=secondary", "--no-pci", "--no-telemetry", f"--file-prefix={prefix}", "-l", "0"]
        command = [str(build_dir / "tests-sender"), *eal, "--vdev", "net_crossover0"]
        try:
            with (tmp_path / "said").open("w+") as said:
                with running_testpmd(build_dir, "net_crossover0", options, [f"--file-prefix={prefix}"]) as program:
                    program.tell("set fwd rxonly")
                    program.tell("start")
                    sender = subprocess.Popen(
                        [*command, "--", "net_crossover0_b", "1", str(ENDLESS), "198.18.0.1"], stdout=said, stderr=said
                    )
                    time.sleep(0.7)
                    assert sender.poll() is None, (tmp_path / "said").read_text()
                status = sender.wait(LIMIT_S)
            text = (tmp_path / "said").read_text()
            assert status == 1, text[-500:]
            assert text.rstrip().splitlines()[-1].startswith(("tests-sender: ", '{"sent": ')), text[-500:]
        finally:
            remove_leftovers(prefix)
