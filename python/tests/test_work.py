"""Threads, signals, forks and memory: what happens around a call."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import offspan


@pytest.mark.skipif(os.name == "nt", reason="signals to another process are those of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_stops_a_long_fit(tmp_path, threads):
    """The signal comes from outside once the fit is under way, which its first checkpoint shows."""
    checkpoint = tmp_path / "fit.checkpoint"
    code = f"""
    import numpy as np, offspan, signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A job in the background starts without.
    offspan.set_threads({threads})
    rows = np.random.default_rng(0).normal(size=(400_000, 64)).astype(np.float32)
    try:
        kpca = offspan.KPCA("rff", features=2048, explained_variance=0.5)
        kpca.fit(rows, checkpoint={str(checkpoint)!r}, checkpoint_every=0)
    except KeyboardInterrupt:
        print("stopped")
    else:
        print("finished")
    """
    fit = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    while not checkpoint.exists():
        assert fit.poll() is None, "the fit ended before its first checkpoint"
        time.sleep(0.001)
    fit.send_signal(signal.SIGINT)
    assert fit.communicate()[0] == "stopped\n"
    assert checkpoint.exists()


def test_other_threads_run_during_a_fit():
    rows = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)
    turns, done = 0, threading.Event()

    def take_turns():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=take_turns)
    other.start()
    offspan.KPCA("rff", features=1024).fit(rows)
    done.set()
    other.join()
    # A fit that kept the interpreter to itself would leave it one or two.
    assert turns > 20


def test_scores_from_many_threads_are_the_same(rows):
    detector = offspan.KPCA(landmarks=64).fit(rows).detector
    expected = detector.score(rows)
    for count in (1, None):
        offspan.set_threads(count)
        with ThreadPoolExecutor(8) as pool:
            for scores in pool.map(lambda _: detector.score(rows), range(32)):
                np.testing.assert_array_equal(scores, expected)
    offspan.set_threads(None)


def _score(detector_and_rows):
    detector, rows = detector_and_rows
    return detector.score(rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_process_can_score(rows, threads):
    offspan.set_threads(threads)
    detector = offspan.KPCA(landmarks=64).fit(rows).detector
    expected = detector.score(rows)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        result = pool.map_async(_score, [(detector, rows)] * 4)
        for scores in result.get():
            np.testing.assert_array_equal(scores, expected)
    offspan.set_threads(None)


def test_the_number_of_threads_comes_from_the_environment():
    code = "import offspan; print(offspan.threads())"
    environment = {**os.environ, "OFFSPAN_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "3"
    for count in (0, 100_000):
        with pytest.raises(offspan.InputError, match="threads: expected from 1 to 1024"):
            offspan.set_threads(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is one of Linux")
@pytest.mark.parametrize("where", ["memory map", "path"])
def test_a_fit_from_a_file_larger_than_the_memory_allowed(tmp_path, where):
    """800 MB of rows with 400 MB of memory for data: a copy would fail. What stays resident is small, too."""
    path = tmp_path / "rows.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(400_000, 500))
    block = np.random.default_rng(0).normal(size=(20_000, 500)).astype(np.float32)
    for start in range(0, len(rows), len(block)):
        rows[start : start + len(block)] = block
    rows.flush()
    del rows
    code = f"""
    import resource
    import numpy as np, offspan
    resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
    try:
        np.ones(500 << 20, dtype=np.uint8)
        raise SystemExit("the limit does not hold")
    except MemoryError:
        pass
    rows = np.load({str(path)!r}, mmap_mode="r") if {where == "memory map"} else {str(path)!r}
    detector = offspan.KPCA("rff", features=512).fit(rows).detector
    scores = detector.score(rows)
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(len(scores), int(peak.split()[1]) // 1024)
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count, resident = map(int, done.stdout.split())
    assert count == 400_000
    assert resident < 500, f"{resident} MB resident for a file of 800 MB"


def test_a_fit_that_was_stopped_goes_on_from_its_checkpoint(tmp_path, rows):
    """The checkpoint of an interrupted fit is taken up, and the detector is the same to the byte."""
    many = np.tile(rows, (40, 1))
    expected = offspan.KPCA("rff", features=256).fit(many).detector.to_bytes()
    checkpoint = tmp_path / "fit.checkpoint"
    calls = []

    def stop(stage, done, total):
        calls.append((stage, done))
        if stage.startswith("moments") and done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        offspan.KPCA("rff", features=256).fit(many, checkpoint=checkpoint, checkpoint_every=0, progress=stop)
    assert checkpoint.exists()
    again = offspan.KPCA("rff", features=256).fit(many, checkpoint=checkpoint).detector
    assert again.to_bytes() == expected
    assert not checkpoint.exists()
