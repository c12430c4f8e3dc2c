# SPDX-License-Identifier: BSD-3-Clause
"""Check that the generator yields its CPU only after the measurement; a library sees calls of sched_yield()."""

import subprocess
from pathlib import Path

import pytest
from dut_node import configuration, running_node

pytestmark = pytest.mark.measure

# Prints when (on the TSC) sched_yield() was first called, and how often.
WATCH = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>
static unsigned long long first, calls;
int sched_yield(void)
{
    if (gettid() == getpid()) /* the main lcore, which may */
        return 0;
    if (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == 0)
        first = __rdtsc();
    return 0;
}
__attribute__((destructor)) static void tell(void)
{
    FILE *out = fopen(getenv("YIELD_LOG"), "w");
    fprintf(out, "%llu %llu", calls, first);
    fclose(out);
}
"""
DELAY_S = 0.06


def test_no_yield_while_frames_are_on_their_way(
    build_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last frame comes back a hiccup after the window's end; its latency is recorded and must not grow."""
    library, log = tmp_path / "watch.so", tmp_path / "yields"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=WATCH, text=True, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("YIELD_LOG", str(log))
    with running_node(build_dir, tmp_path / "log") as node:
        hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": int(DELAY_S * 1e9)}}
        late = {"late_max_ns": 3_000_000}
        node.get("configure", **configuration(queues=1, burst=1, hiccup=hiccup, gen=late))
        result = node.trial(window_s=0.1, warmup_s=0.0, rate={"pps": 60}, drain_max_ns=10**10)
        node.get("quit")
        assert node.process.wait(20) == 0
    (generator,), window = result["gen"]["lcores"], result["window"]
    assert generator["total"]["rx_packets"] == generator["total"]["sent"] >= 2
    # Each frame waits for the one before: at an even pace n frames need n times the delay.
    last_s = generator["total"]["sent"] * DELAY_S
    calls, first_tsc = (int(word) for word in log.read_text().split())
    assert calls > 0, "the main lcore has to have the CPU in the end"
    begin_tsc = window["start_tsc"]
    assert (first_tsc - begin_tsc) / window["tsc_hz"] > last_s
