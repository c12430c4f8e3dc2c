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

APPS = Path(__file__).parent.parent / "apps"
SHORT_FRAMES = 300_000
FRAMES = int(os.environ.get("POLLSCOPE_COREC_FRAMES", SHORT_FRAMES))
LONG = FRAMES > SHORT_FRAMES
THREADS = 8
LIMIT_S = 100_000 if LONG else 900  # seconds beside other tests; a minute alone
pytestmark = pytest.mark.timeout(LIMIT_S)
RELACY = Path("/usr/include/relacy/relacy.hpp")
# For the model checker: the smallest world in which every known fault shows.
SMALL_WORLD = "-DPLACES=2 -DCONSUMERS=2 -DFRAMES=4 -DPOLLS=2 -DBURST=2"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)


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


@pytest.mark.parametrize("arguments", [(), (5, 1, 1, 1, 1), (8, 1, "long", 1, 1), (8, -1, 1, 1, 1), (8, 1, 1, 0, 1)])
def test_invalid_stall_arguments_are_refused(build_dir: Path, arguments: tuple[object, ...]) -> None:
    done = run(build_dir / "corec-stall", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: corec-stall")


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


@pytest.mark.parametrize(
    "arguments",
    [["0"], ["10", "0"], ["10", "8", "3"], ["10", "8", "8", "x"], ["1"] * 6, ["-1"], ["10", "8", "8", "1", "0"]],
)
def test_the_stress_test_refuses_invalid_arguments(build_dir: Path, arguments: list[str]) -> None:
    done = run(build_dir / "tests-corec-stress", *arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: "), done


def relacy(folder: Path, *defines: str, optimise: str = "-O1") -> Path:
    """Compile the model check of a variant: optimised for long searches; for short ones compiling takes longest."""
    compiler = shutil.which("c++")
    if compiler is None or not RELACY.is_file():
        pytest.skip(f"needs a C++ compiler and {RELACY} (Debian: g++ and relacy-dev)")
    program = folder / "corec-relacy"
    done = run(
        compiler,
        "-std=gnu++11",
        optimise,
        "-w",
        *SMALL_WORLD.split(),
        *defines,
        "-o",
        program,
        APPS / "tests/corec_relacy.cc",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return program


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
@pytest.mark.parametrize("defines", [(), ("-DHALTS",)], ids=["polls", "halts"])
def test_no_schedule_of_the_memory_model_breaks_the_protocol(tmp_path: Path, defines: tuple[str, ...]) -> None:
    """Explore all schedules with two preemptions of a NIC and two pollers under C11 orders, and many random ones.

    With HALTS pollers that find nothing halt where the next frame comes, and never all while TAIL stands still.
    """
    program = relacy(tmp_path, *defines)
    for search in (["preemptions", "3" if LONG else "2"], ["random", "10000000" if LONG else "100000"]):
        done = run(program, *search)
        assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("define", "found", "optimise"),
    [
        ("COREC_UNBOUNDED", "DATA RACE|FAILED", "-O0"),
        ("COREC_LATE_CLEAR", "TAIL stands still|TAIL does not move forward", "-O1"),
        ("COREC_BLIND_HALT", "a core halts where the next frame does not come", "-O0"),
        ("COREC_HASTY_HALT", "all cores halt, and a completion flag waits: TAIL stands still", "-O1"),
    ],
)
def test_the_model_check_finds_each_weakened_variant(tmp_path: Path, define: str, found: str, optimise: str) -> None:
    halts = ("-DHALTS",) if define.endswith("_HALT") else ()
    done = run(relacy(tmp_path, f"-D{define}", *halts, optimise=optimise), "preemptions", "2")
    assert done.returncode == 1 and re.search(found, done.stdout), done.stdout[-3000:]


def test_stores_without_release_are_found(tmp_path: Path) -> None:
    """Show that a buffer could go to the NIC before it is in the descriptor."""
    done = run(relacy(tmp_path, "-DCOREC_WEAK", optimise="-O0"), "preemptions", "1")
    assert done.returncode == 1 and re.search("DATA RACE|UNINITIALIZED|FAILED", done.stdout), done.stdout[-3000:]


@pytest.mark.thorough
def test_a_descriptor_cleared_without_release_is_found(tmp_path: Path) -> None:
    """Let a core see the cleared descriptor but not the reservation: it halts where the next frame does not come."""
    done = run(relacy(tmp_path, "-DHALTS", "-DCOREC_UNFENCED"), "preemptions", "2")
    assert done.returncode == 1 and "halts where the next frame does not come" in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
def test_a_halt_after_a_weak_fence_is_found(tmp_path: Path) -> None:
    """Show that two cores, one with its flag and one with TAIL in the store buffer, each see old values and halt."""
    done = run(relacy(tmp_path, "-DHALTS", "-DCOREC_WEAK_FENCE"), "preemptions", "2")
    assert done.returncode == 1 and "all cores halt, and a completion flag waits" in done.stdout, done.stdout[-3000:]


def spin(folder: Path, *defines: str) -> subprocess.CompletedProcess[str]:
    """Explore all interleavings of apps/tests/corec.pml; the verifier prints `errors: N`."""
    checker, compiler = shutil.which("spin"), shutil.which("cc")
    if checker is None or compiler is None:
        pytest.skip("needs a C compiler and SPIN (Debian: spin)")
    shutil.copy(APPS / "tests/corec.pml", folder)
    steps = (
        (checker, *defines, "-a", "corec.pml"),
        (compiler, "-O1", "-w", "-DSAFETY", *(("-DCOLLAPSE",) if LONG else ()), "-o", "pan", "pan.c"),
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
