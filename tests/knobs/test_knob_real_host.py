# SPDX-License-Identifier: BSD-3-Clause
"""Test knobs of the machine that runs the tests: only harmless ones, which are restored."""

import dataclasses
import os
from pathlib import Path

import pytest

from pollscope.knobs import KnobHost, KnobSession, NotStuck, knobs_of, snapshot

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="knobs need root")


@pytest.fixture
def host(tmp_path: Path) -> KnobHost:
    """Return this host, with a journal and a lock of the test's own."""
    return dataclasses.replace(KnobHost(), state_dir=tmp_path, lock_path=tmp_path / "host.lock")


def skip_if_absent(host: KnobHost, name: str) -> None:
    if not (availability := knobs_of(host)[name].available()):
        pytest.skip(f"{name}: {availability.reason}")


def test_numa_balancing(host: KnobHost) -> None:
    skip_if_absent(host, "numa_balancing")
    file = Path("/proc/sys/kernel/numa_balancing")
    before = file.read_bytes()
    with KnobSession("test", host) as session:
        session.set("numa_balancing", None, "off" if before == b"1\n" else "on")
        assert file.read_bytes() != before
    assert file.read_bytes() == before


def test_c_states_are_held_only_by_the_session(host: KnobHost) -> None:
    skip_if_absent(host, "c_states")
    before = snapshot(host)["c_states"]["host"]
    if before != "any":
        pytest.skip(f"another process holds {before} us")
    with KnobSession("test", host) as session:
        session.set("c_states", None, 7)
        assert session.get("c_states") == {"host": "7"}
        session.set("c_states", None, 20)
        assert session.get("c_states") == {"host": "20"}
        session.set("c_states", None, "any")
        assert session.get("c_states") == {"host": "any"}
        session.set("c_states", None, 3)
    assert snapshot(host)["c_states"] == {"host": "any"}


def test_c_states_that_another_process_holds_lower(host: KnobHost, tmp_path: Path) -> None:
    skip_if_absent(host, "c_states")
    other = dataclasses.replace(host, lock_path=tmp_path / "other.lock", state_dir=tmp_path / "other")
    with KnobSession("other", other) as holder:
        holder.set("c_states", None, 1)
        with (
            KnobSession("test", host) as session,
            pytest.raises(NotStuck, match=r"asked for 5 us, but another .* 1 us"),
        ):
            session.set("c_states", None, 5)


def test_every_knob_is_read_or_absent_with_a_reason(host: KnobHost) -> None:
    for name, values in snapshot(host).items():
        assert values, name
        assert all(isinstance(value, str) and value for value in values.values()), (name, values)
