# SPDX-License-Identifier: BSD-3-Clause
"""Check the receive algorithm of rx=corec (apps/pmd/corec_protocol.h): preempted threads, and two model checkers.

POLLSCOPE_COREC_FRAMES=1000000000 in the environment is the long form of the stress test, with as many schedules more.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from model_check import APPS, CACHED, explore, run

SHORT_FRAMES = 300_000
FRAMES = int(os.environ.get("POLLSCOPE_COREC_FRAMES", SHORT_FRAMES))
LONG = FRAMES > SHORT_FRAMES
THREADS = 8
LIMIT_S = 100_000 if LONG else 900  # seconds beside other tests; a minute alone
pytestmark = pytest.mark.timeout(LIMIT_S)


# One access in this many sleeps: rarely for full speed; often so that faults show soon, also on a busy machine.
RARELY, OFTEN = 131_072, 16


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("places", "odds"), [(128, RARELY), (2, OFTEN)])
@pytest.mark.parametrize("build", ["stress", "stress-tsan", "stress-asan"])
def test_every_frame_comes_once_under_stalls(build_dir: Path, build: str, places: int, odds: int) -> None:
    """Check that no frame is lost, damaged or doubled, that TAIL is contiguous, and that sanitizers find nothing."""
    frames = FRAMES if odds == RARELY else FRAMES // 100
    if build != "stress":
        frames //= 10 if LONG else 3
    done = run(build_dir / f"tests-corec-{build}", frames, THREADS, places, 1, odds)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.fullmatch(rf"{frames} frames, {THREADS} threads, \d+ lost claims, \d+ stalls\n", done.stdout)
    assert done.stderr == ""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("places", [64, 512, 4096])
def test_one_core_continues_for_a_full_ring_while_the_other_stalls(build_dir: Path, places: int) -> None:
    """Stall one core after its reservation until the other finds nothing: by then the whole ring is reserved."""
    for window_s in (
        0.3,
        3,
        30,
    ):  # on a busy machine the other core may run too little to lose a race
        done = run(build_dir / "corec-stall", places, 0, "stuck", 1_000_000, int(window_s * 1e9))
        assert done.returncode == 0, done.stderr
        *_, stalls, _, least, most = map(int, done.stdout.split())
        if stalls > 0:
            break
    assert stalls > 0
    assert least == most == places


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("variant", "frames", "places", "odds"),
    [("unbounded", 10_000, 8, OFTEN), ("late-clear", 10_000, 2, OFTEN), ("narrow-count", 100_000, 4, 256)],
)
def test_the_stress_test_finds_each_weakened_variant(
    build_dir: Path, variant: str, frames: int, places: int, odds: int
) -> None:
    """Drop the bound by TAIL, clear flags late, or use counts of 6 bits (the paper's 32: a stall of 2^32)."""
    for seed in range(1, 20):
        done = run(build_dir / f"tests-corec-stress-{variant}", frames, THREADS, places, seed, odds)
        if done.returncode != 0:
            break
    assert done.returncode != 0, "19 runs found nothing wrong"
    found = "holds no frame|came twice|was lost|TAIL|do not follow|posted descriptor|the queue stands still"
    assert re.search(found, done.stderr) or done.returncode < 0, done.stderr


def wire_bench(build_dir: Path, lines: str) -> list[list[int]]:
    """Return the answers of wire-bench to lines of which it refuses the last."""
    eal = ["--no-huge", "-m", "512", "--no-shconf", "--no-pci", "--no-telemetry", "--lcores", "0@0,1@0"]
    done = subprocess.run(
        [build_dir / "wire-bench", *eal, "--file-prefix", f"test-{os.getpid()}"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1 and "wire-bench: expected: " in done.stderr, done.stderr[-3000:]
    return [
        [int(word) for word in line.split()] for line in done.stdout.splitlines() if re.fullmatch(r"(\d+ \d+ ?)+", line)
    ]


@pytest.mark.thorough
def test_two_cores_run_the_workloads_by_every_way_to_share(build_dir: Path) -> None:
    """Run each loop, longer if two workers on one busy CPU make no progress at first. Refuse an unknown loop."""
    ways = ("standard", "corec", "locked", "trylock", "held", "waited", "rss", "spread", "hashed")
    left = [
        (f"{way}-{workload}", "0" if way == "standard" else "01") for workload in ("l3fwd", "ipsec") for way in ways
    ]
    for window_ms in (60, 600, 6000):
        asked = "".join(f"{loop} {window_ms} {workers} {500 * (loop[0] == 'h')}\n" for loop, workers in left)
        answers = wire_bench(build_dir, asked + "corec-io 60 01\n")
        assert [len(answer) for answer in answers] == [2 * len(workers) for _, workers in left]
        left = [loop for loop, answer in zip(left, answers, strict=True) if sum(answer[::2]) == 0]
        if not left:
            break
    assert not left


@pytest.mark.thorough
@pytest.mark.parametrize("defines", ["", "HALTS"])
def test_no_schedule_of_the_memory_model_breaks_the_protocol(tmp_path: Path, defines: str) -> None:
    """Explore all schedules with two preemptions of a NIC and two pollers under C11 orders, and many random ones.

    With HALTS pollers that find nothing halt where the next frame comes, and never all while TAIL stands still.
    """
    searches = ("preemptions 3", "random 10000000") if LONG else ("preemptions 2", "random 100000")
    explore("corec_relacy.cc", tmp_path, defines, *searches)


# With HALTS consumers that find nothing halt. The last three weaken the memory orders of the model, not the protocol.
STANDS_STILL = "all cores halt, and a completion flag waits: TAIL stands still"
HALTS_ELSEWHERE = "a core halts where the next frame does not come"


@pytest.mark.parametrize(
    ("defines", "found", "optimise"),
    [
        pytest.param("COREC_WEAK", "DATA RACE|UNINITIALIZED|FAILED", "-O0"),  # a buffer goes to the NIC too early
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (
                ("COREC_UNBOUNDED", "DATA RACE|FAILED", "-O0"),
                ("COREC_LATE_CLEAR", "TAIL stands still|TAIL does not move forward", "-O1"),
                ("COREC_BLIND_HALT HALTS", HALTS_ELSEWHERE, "-O0"),
                ("COREC_HASTY_HALT HALTS", STANDS_STILL, "-O1"),
                ("COREC_UNFENCED HALTS", HALTS_ELSEWHERE, "-O1"),  # it sees the cleared DD, not the reservation
                ("COREC_WEAK_FENCE HALTS", STANDS_STILL, "-O1"),  # flag and TAIL wait in two store buffers
            )
        ),
    ],
)
def test_the_model_check_finds_each_weakened_variant(tmp_path: Path, defines: str, found: str, optimise: str) -> None:
    explore("corec_relacy.cc", tmp_path, defines, "preemptions 2", found=found, optimise=optimise)


def spin(folder: Path, *defines: str) -> subprocess.CompletedProcess[str]:
    """Explore all interleavings of apps/tests/corec.pml; the verifier prints `errors: N`."""
    checker, compiler = shutil.which("spin"), shutil.which("cc")
    if checker is None or compiler is None:
        pytest.skip("needs a C compiler and SPIN (Debian: spin)")
    shutil.copy(APPS / "tests/corec.pml", folder)
    steps = (
        (checker, *defines, "-a", "corec.pml"),
        (*CACHED, compiler, "-O1", "-w", "-DSAFETY", *(("-DCOLLAPSE",) if LONG else ()), "-c", "-o", "pan.o", "pan.c"),
        (compiler, "-o", "pan", "pan.o"),
    )
    for step in steps:
        made = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    done = subprocess.run([folder / "pan", "-m1000000"], cwd=folder, capture_output=True, text=True, check=False)
    assert "max search depth too small" not in done.stdout and "out of memory" not in done.stdout, done.stdout
    return done


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(("-DFRAMES=6" if LONG else "-DFRAMES=4",), id="two-pollers"),
        pytest.param(("-DCONSUMERS=3", "-DBURST=1", "-DFRAMES=4" if LONG else "-DFRAMES=2"), id="three-pollers"),
    ],
)
def test_no_interleaving_breaks_the_protocol(tmp_path: Path, sizes: tuple[str, ...]) -> None:
    done = spin(tmp_path, *sizes)
    assert "errors: 0" in done.stdout, done.stdout[-3000:]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("-DUNBOUNDED", "-DFRAMES=4"), id="unbounded"),
        pytest.param(("-DLATE_CLEAR", "-DFRAMES=4"), id="late-clear"),
        pytest.param(("-DCOUNT_BITS=3", "-DFRAMES=10", "-DBURST=1"), id="narrow-count"),
        pytest.param(("-DNO_LOOK_AFTER", "-DCONSUMERS=3", "-DBURST=1", "-DFRAMES=3"), id="no-look-after-put-back"),
        pytest.param(
            ("-DNO_PUT_BACK", "-DCONSUMERS=3", "-DBURST=1", "-DFRAMES=4"),
            id="no-put-back",
            marks=pytest.mark.skipif(not LONG, reason="half a minute; POLLSCOPE_COREC_FRAMES"),
        ),
    ],
)
def test_an_interleaving_breaks_each_weakened_variant(tmp_path: Path, fault: tuple[str, ...]) -> None:
    """Use counts of three bits for the paper's 32: a poll stalls while they run through all their values."""
    done = spin(tmp_path, *fault)
    assert "assertion violated" in done.stdout and "errors: 1" in done.stdout, done.stdout[-3000:]
