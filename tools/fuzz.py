"""Fuzz every reader with coverage, by libFuzzer.

python3 tools/fuzz.py [--seconds 600] [--target NAME …] [--small] [--address]

The seconds are divided among the targets. Inputs that reach new code are kept in fuzz/corpus, which is no part of the
project; one that crashes is minimised, and belongs into fuzz/regressions/NAME once the fault is mended: the ordinary tests
replay that folder. Flags that only nightly compilers take are allowed to stable ones by RUSTC_BOOTSTRAP.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"
TRIPLE = "x86_64-unknown-linux-gnu"
#: Coverage as libFuzzer reads it. Memory errors are looked for with --address, which takes several times as long to compile.
INSTRUMENTED = (
    "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
    "-Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing"
)
#: No reader may ask for more than this for a file of at most the length below.
MOST_MEMORY_MB = 2048
LONGEST_INPUT = 1 << 16
#: Longer than this for one input is a fault.
SLOWEST_SECONDS = 30


@dataclass
class Result:
    """What a campaign on one target found."""

    target: str
    seconds: float
    runs: int
    #: Edges of the program that were taken, of those that there are.
    edges: int
    of: int
    #: Inputs in the corpus.
    inputs: int
    crashes: list[str]


def build(address: bool, small: bool) -> tuple[Path, Path]:
    """Compile the fuzzer with instrumentation, and the program that writes seeds."""
    flags = INSTRUMENTED + (" -Zsanitizer=address" if address else "")
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1", RUSTFLAGS=flags)
    # --locked: what is fuzzed has the versions that are committed.
    command = ["cargo", "build", "--release", "--locked", "--target", TRIPLE, "--manifest-path", str(FUZZ / "Cargo.toml"), "--bins"]
    if small:
        command.append("--no-default-features")
    subprocess.run(command, check=True, env=environment)
    target = Path(os.environ.get("CARGO_TARGET_DIR", FUZZ / "target"))
    folder = target / TRIPLE / "release"
    return folder / "readers", folder / "seeds"


def targets() -> list[str]:
    """The names in the list of targets."""
    text = (FUZZ / "src" / "targets.rs").read_text()
    return re.findall(r'^    (?:bytes|document)\("([a-z-]+)"', text, flags=re.MULTILINE)


def last_number(pattern: str, text: str) -> int:
    """The last number that a log has after a word; 0 if there is none."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(fuzzer: Path, target: str, seconds: int) -> Result:
    """Fuzz one target."""
    corpus, known = FUZZ / "corpus" / target, FUZZ / "regressions" / target
    artifacts = FUZZ / "artifacts" / target
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(artifacts.iterdir())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        environment = dict(
            os.environ, OFFSPAN_FUZZ_TARGET=target, TMPDIR=scratch, RAYON_NUM_THREADS="1", ASAN_OPTIONS="detect_leaks=0"
        )
        done = subprocess.run(
            [
                str(fuzzer),
                f"-max_total_time={seconds}",
                f"-rss_limit_mb={MOST_MEMORY_MB}",
                f"-timeout={SLOWEST_SECONDS}",
                f"-max_len={LONGEST_INPUT}",
                "-print_final_stats=1",
                f"-artifact_prefix={artifacts}/",
                str(corpus),
                *([str(known)] if known.is_dir() else []),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    log = FUZZ / "artifacts" / f"{target}.log"
    log.write_text(done.stdout)
    crashes = [str(path) for path in sorted(set(artifacts.iterdir()) - before)]
    if done.returncode and not crashes:
        crashes = [f"exit code {done.returncode}, see {log}"]
    return Result(
        target=target,
        seconds=round(time.monotonic() - started, 1),
        runs=last_number(r"stat::number_of_executed_units: (\d+)", done.stdout) or last_number(r"#(\d+)\s", done.stdout),
        edges=last_number(r"cov: (\d+)", done.stdout),
        of=last_number(r"\((\d+) inline 8-bit counters\)", done.stdout),
        inputs=len(list(corpus.iterdir())),
        crashes=crashes,
    )


def minimise(fuzzer: Path, target: str, crash: str) -> None:
    """Make an input that crashes as short as it can be."""
    environment = dict(os.environ, OFFSPAN_FUZZ_TARGET=target, RAYON_NUM_THREADS="1", ASAN_OPTIONS="detect_leaks=0")
    words = [str(fuzzer), "-minimize_crash=1", "-max_total_time=60", f"-exact_artifact_path={crash}.min", crash]
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def main() -> None:
    """Build, fuzz, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="all targets together")
    parser.add_argument("--target", action="append", choices=targets(), help="only these")
    parser.add_argument("--address", action="store_true", help="with AddressSanitizer")
    parser.add_argument("--small", action="store_true", help="without Parquet, Arrow, ONNX and the server, which take long to compile")
    parser.add_argument("--no-build", action="store_true", help="use the program that is there")
    chosen = parser.parse_args()
    if chosen.no_build:
        folder = Path(os.environ.get("CARGO_TARGET_DIR", FUZZ / "target")) / TRIPLE / "release"
        fuzzer, seeds = folder / "readers", folder / "seeds"
    else:
        fuzzer, seeds = build(chosen.address, chosen.small)
    left_out = {"parquet", "arrow", "onnx", "image", "pack-toml", "rest-body", "grpc-message"} if chosen.small else set()
    names = chosen.target or [name for name in targets() if name not in left_out]
    subprocess.run([str(seeds), str(FUZZ / "corpus")], check=True, env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
    each = max(1, chosen.seconds // len(names))
    results = []
    print(f"{'target':<14}{'seconds':>9}{'runs':>12}{'edges':>9}{'of':>9}{'inputs':>8}  crashes", flush=True)
    for name in names:
        result = run(fuzzer, name, each)
        for crash in result.crashes:
            if Path(crash).is_file():
                minimise(fuzzer, name, crash)
        results.append(result)
        print(
            f"{name:<14}{result.seconds:>9}{result.runs:>12}{result.edges:>9}{result.of:>9}{result.inputs:>8}  "
            f"{', '.join(result.crashes) or '-'}",
            flush=True,
        )
    with (FUZZ / "artifacts" / "history.jsonl").open("a") as history:
        for result in results:
            history.write(json.dumps(asdict(result)) + "\n")
    if any(result.crashes for result in results):
        sys.exit("some inputs crash: mend the fault, and put the minimised input into fuzz/regressions/TARGET")


if __name__ == "__main__":
    main()
