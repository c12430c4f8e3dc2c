# SPDX-License-Identifier: BSD-3-Clause
"""Check the summary that a long test shows of a suite that failed inside it."""

from pathlib import Path

from failure_summary import failure_summary

SHOWN = """\
gw0 [3] / gw1 [3]
=================================== FAILURES ===================================
E       assert 1 == 2
=========================== short test summary info ============================
FAILED tests/test_a.py::test_one - assert 1 == 2
ERROR tests/test_b.py::test_two - OSError
================= 1 failed, 1 passed, 1 error in 3.10s =================
{noise}
============================== 5 passed in 1.00s ===============================
make: *** [Makefile:42: test] Error 1
"""


def test_failed_tests_are_shown_in_spite_of_long_later_output(tmp_path: Path) -> None:
    shown = SHOWN.format(noise="\n".join(f"line {number}" for number in range(5000)))
    log = tmp_path / "logs/bookworm-test.log"
    text = failure_summary(shown, log)
    assert log.read_text() == shown
    assert str(log) in text
    for line in ("FAILED tests/test_a.py::test_one", "ERROR tests/test_b.py::test_two", "1 failed, 1 passed, 1 error"):
        assert line in text
    assert "5 passed in 1.00s" in text
    assert "make: *** [Makefile:42: test] Error 1" in text
    assert len(text) < 2000


def test_without_a_summary_the_last_lines_are_shown(tmp_path: Path) -> None:
    assert failure_summary("E: no network\n", tmp_path / "log").endswith("it ended with:\nE: no network")
