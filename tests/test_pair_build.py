# SPDX-License-Identifier: BSD-3-Clause
"""Test answers of a host that builds a release from the sources here."""

import subprocess
from pathlib import Path

import pytest

from pollscope.base.errors import HostError
from pollscope.testbeds.pair import build
from pollscope.testbeds.pair.config import PairHost

HOST = {"ssh": {"host": "dut1"}, "ports": {"rx": "net_fake0", "tx": "net_fake0"}, "main_cpu": 0, "cpus": [1]}


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> Path:
    archive = tmp_path / "sources.tar"
    archive.write_bytes(b"")
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(build, "run_ssh", lambda *_words: done)
    return build.build_on("dut", PairHost.model_validate(HOST), archive, driver=False)


@pytest.mark.parametrize("said", ["", "\n", "/opt/release\nwelcome\n", "/opt/\x1b[2Jrelease\n"])
def test_an_answer_without_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    with pytest.raises(HostError, match="the build printed no folder") as refused:
        built(tmp_path, monkeypatch, said)
    assert "\x1b" not in str(refused.value)


def test_the_last_line_of_an_answer_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(tmp_path, monkeypatch, "welcome\n/opt/release\n") == Path("/opt/release")
