"""What `offspan serve` holds: speed beside the library and MLServer, memory, reloads under load, kills, slow clients.

python3 bench/serve.py [--only speed|latency|mlserver|memory|reloads|kills] [--detector FILE --rows FILE.npy] [--short] [--debug]

Everything goes over loopback and is bounded in count and time. The program is $OFFSPAN, or the newest that cargo built; the load comes
from `cargo build --release -p offspan-server --example load`. Programs of the dev profile measure nothing: they are refused without
`--debug`. Ratios are of one run. Every part says at its end which bar it met; the exit code is 1 if a request failed that should not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from serving import Serving, program  # noqa: E402

#: Of one run, in the order in which they were found.
FINDINGS: dict[str, object] = {}
#: Requests that failed where none should, in words.
FAILURES: list[str] = []


def note(name: str, value: object) -> None:
    """Keep a finding and print it."""
    FINDINGS[name] = value
    print(f"{name}: {json.dumps(value)}", flush=True)


def bar(what: str, met: bool) -> None:
    """Say whether a bar was met."""
    note(f"bar: {what}", "met" if met else "NOT met")


def load_program() -> str:
    """The newest driver that cargo built."""
    found = [ROOT / "target" / kind / "examples" / "load" for kind in ("release", "debug")]
    found = [path for path in found if path.exists()]
    if not found:
        sys.exit("no driver: run `cargo build --release -p offspan-server --example load`")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def refuse_debug() -> None:
    """End if what would be measured was built without optimisation."""
    for path in (program(), load_program()):
        if "debug" in Path(path).resolve().parts:
            sys.exit(f"{path} is of the dev profile: build with --release, or give --debug")


def load(
    address: str,
    path: str,
    headers: str,
    body: Path,
    connections: int,
    seconds: float,
    rate: float = 0,
    count: int = 0,
    *,
    may_fail: bool = False,
) -> dict:
    """Load a server; what was seen."""
    words = [load_program(), address, path, headers, str(body), str(connections), str(seconds), str(rate)]
    words += [str(count)] if count else []
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    seen = json.loads(done.stdout)
    wrong = seen["failed"] + seen["refused"]
    if wrong and not may_fail:
        FAILURES.append(f"{wrong} of {wrong + seen['requests']} requests to {path}")
    return seen


class Case:
    """A detector in a folder of models, and bodies of requests for it."""

    def __init__(self, folder: Path, detector: Path | None, rows: Path | None, method: str) -> None:
        self.folder = folder
        self.models = folder / "models"
        self.detector = self.models / "net" / "1" / "net.offspan"
        self.detector.parent.mkdir(parents=True)
        if detector is None:
            draw = np.random.default_rng(0)
            means = draw.normal(size=(10, 512))
            train = means[draw.integers(0, 10, 6000)] + draw.normal(size=(6000, 512))
            np.save(folder / "train.npy", np.maximum(train, 0).astype(np.float32))
            words = ["fit", folder / "train.npy", "--method", method, "-o", self.detector]
            subprocess.run([program(), *map(str, words)], check=True, stdout=subprocess.DEVNULL)
            self.rows = np.load(folder / "train.npy")
        else:
            shutil.copy(detector, self.detector)
            self.rows = np.load(rows).astype(np.float32)

    def other_detector(self) -> Path:
        """One of the same width with other scores."""
        path = self.folder / "other.offspan"
        np.save(self.folder / "some.npy", self.rows[:3000])
        words = ["fit", self.folder / "some.npy", "--method", "pca", "-o", path]
        subprocess.run([program(), *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        return path

    def body(self, count: int) -> tuple[Path, str]:
        """A raw body of some rows, and its header."""
        path = self.folder / f"{count}.f32"
        np.resize(self.rows, (count, self.rows.shape[1])).tofile(path)
        return path, "Inference-Header-Content-Length: 0"

    def library_rate(self, rows: int, seconds: float) -> float:
        """Rows per second of the library alone, by the wheel, on the same batch, for as long."""
        code = (
            "import sys, time, numpy, offspan\n"
            "d = offspan.Detector.load(sys.argv[1]); n = int(sys.argv[3])\n"
            "x = numpy.fromfile(sys.argv[2], numpy.float32).reshape(n, -1)\n"
            "d.score(x); done = 0; begun = time.perf_counter()\n"
            "while time.perf_counter() - begun < float(sys.argv[4]):\n"
            "    d.score(x); done += n\n"
            "print(done / (time.perf_counter() - begun))\n"
        )
        body, _ = self.body(rows)
        words = [python_with_wheel(), "-c", code, self.detector, body, rows, seconds]
        return float(subprocess.run([*map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout)


def python_with_wheel() -> str:
    """An interpreter that has the package: $OFFSPAN_PYTHON, or this one."""
    return os.environ.get("OFFSPAN_PYTHON", sys.executable)


def speed(case: Case, short: bool) -> None:
    """Batches of 1024 against the library, and single rows."""
    seconds = 3 if short else 10
    with Serving(case.models, "--no-monitor") as running:
        body, header = case.body(1024)
        path = "/v2/models/net/infer"
        load(running.http, path, header, body, 2, 1)
        library, served = [], []
        # In turns, and for as long, so that a change of the machine's pace meets both.
        for _ in range(3 if short else 5):
            library.append(case.library_rate(1024, seconds / 2))
            served.append(1024 * load(running.http, path, header, body, 2, seconds / 2)["per_second"])
        shares = [ours / theirs for ours, theirs in zip(served, library)]
        share = statistics.median(shares)
        note("library, rows per second, batch 1024", [round(rate) for rate in library])
        note("served, rows per second, batch 1024", [round(rate) for rate in served])
        note("share of the library's speed, pair by pair", [round(share, 3) for share in shares])
        note("share of the library's speed, median", round(share, 3))
        body, header = case.body(1)
        note("served, batch 1", load(running.http, path, header, body, 16, seconds))
        bar("batch 1024 at 85 % of the library's speed or more", share >= 0.85)


def latency(case: Case, short: bool) -> None:
    """Half of the largest rate of single rows: p99 against p50."""
    seconds = 3 if short else 10
    with Serving(case.models) as running:
        body, header = case.body(1)
        path = "/v2/models/net/infer"
        most = load(running.http, path, header, body, 16, seconds)["per_second"]
        note("largest rate of single rows", round(most))
        half = load(running.http, path, header, body, 16, seconds, rate=most / 2)
        note("at half of it", half)
        ratio = half["p99_us"] / max(half["p50_us"], 1)
        note("p99 / p50 at half of the largest rate", round(ratio, 2))
        note("of that late by the driver or behind an answer, p99 in µs", half["late_p99_us"])
        bar("p99 at most 5 times p50 at half of the largest rate", ratio <= 5)


RUNTIME = """
import numpy, offspan
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

class Runtime(MLModel):
    async def load(self) -> bool:
        self.detector = offspan.Detector.load(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = NumpyCodec.decode_input(payload.inputs[0])
        scores = self.detector.score(rows.astype(numpy.float32))
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("score", scores)])
"""


def mlserver(case: Case, short: bool) -> None:
    """MLServer with a runtime that calls our wheel, beside our own server, in one run: JSON, which both take."""
    python = os.environ.get("MLSERVER_PYTHON")
    if python is None:
        print("mlserver: left out; name an interpreter that has mlserver and offspan in MLSERVER_PYTHON")
        return
    folder = case.folder / "mlserver"
    folder.mkdir()
    (folder / "runtime.py").write_text(RUNTIME)
    ports = {"http_port": 18080, "grpc_port": 18081, "metrics_port": 18082}
    (folder / "settings.json").write_text(
        json.dumps({"host": "127.0.0.1", "parallel_workers": 0, "debug": False, **ports})
    )
    model = {"name": "net", "implementation": "runtime.Runtime", "parameters": {"uri": str(case.detector)}}
    (folder / "model-settings.json").write_text(json.dumps(model))
    row = [float(x) for x in case.rows[0]]
    document = {"inputs": [{"name": "features", "shape": [1, len(row)], "datatype": "FP32", "data": row}]}
    body = case.folder / "one.json"
    body.write_text(json.dumps(document))
    words = [str(Path(python).parent / "mlserver"), "start", str(folder)]
    peer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    seconds = 3 if short else 8
    header = "Content-Type: application/json"
    try:
        address = "127.0.0.1:18080"
        wait_for(f"http://{address}/v2/models/net/ready", peer)
        with Serving(case.models) as running:
            found = {}
            for name, target in (("mlserver", address), ("offspan", running.http)):
                load(target, "/v2/models/net/infer", header, body, 16, 1)
                found[name] = load(target, "/v2/models/net/infer", header, body, 16, seconds)
                note(f"{name}, single rows in JSON", found[name])
            times = found["offspan"]["per_second"] / found["mlserver"]["per_second"]
            note("offspan / mlserver, single rows in JSON", round(times, 1))
            raw, raw_header = case.body(1)
            binary = load(running.http, "/v2/models/net/infer", raw_header, raw, 16, seconds)
            note(
                "offspan in bytes / mlserver in JSON, single rows",
                round(binary["per_second"] / found["mlserver"]["per_second"], 1),
            )
            bar("single rows in JSON at 10 times MLServer's rate or more", times >= 10)
    finally:
        peer.terminate()
        peer.wait()


def wait_for(url: str, process: subprocess.Popen) -> None:
    """Ask until a server is ready, a minute at most."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{url}: the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url}: not ready within a minute")


def memory(case: Case, short: bool) -> None:
    """A million requests, paced over ten minutes: the memory of the process, minute by minute."""
    count, seconds = (100_000, 60) if short else (1_000_000, 600)
    with Serving(case.models, "--state", case.folder / "state-memory") as running:
        body, header = case.body(1)
        path = "/v2/models/net/infer"
        resident, beside = [], []
        for part in range(10):
            # A minute more than it should take: a slow machine still gets through.
            seen = load(
                running.http, path, header, body, 16, seconds / 10 + 60, rate=count / seconds, count=count // 10
            )
            stream = 16 * running.metric("offspan_monitor_rows") / 2**20
            resident.append(round(running.metric("process_resident_memory_bytes") / 2**20, 1))
            print(
                f"  part {part + 1}: {seen['requests']} requests, {seen['failed']} failed, {resident[-1]} MiB",
                flush=True,
            )
            beside.append(resident[-1] - stream)
        note("requests", running.metric("offspan_requests_total"))
        note("resident memory after each tenth, MiB", resident)
        note("of that the monitor's stream, MiB", round(stream, 1))
        # The first tenths warm up caches and arenas.
        grown = beside[-1] - beside[2]
        bar("memory beside the monitor's stream grew by less than 16 MiB after the third tenth", grown < 16)


def reloads(case: Case, short: bool) -> None:
    """Models replaced while requests come: every answer is whole, and of one detector."""
    rounds = 40 if short else 200
    other, first = case.other_detector(), case.folder / "first.offspan"
    shutil.copy(case.detector, first)
    rows = case.rows[:32]
    body = rows.tobytes()
    # Requests of several batches, so that one could be scored by two detectors.
    with Serving(case.models, "--poll", "20ms", "--max-batch", "8") as running:

        def ask() -> bytes:
            request = urllib.request.Request(
                f"http://{running.http}/v2/models/net/infer", body, {"Inference-Header-Content-Length": "0"}
            )
            with urllib.request.urlopen(request) as answer:
                length = int(answer.headers["Inference-Header-Content-Length"])
                return answer.read()[length : length + 8 * len(rows)]

        def put(path: Path) -> None:
            shutil.copy(path, case.detector.with_suffix(".new"))
            os.replace(case.detector.with_suffix(".new"), case.detector)

        expected = {ask()}
        put(other)
        while len(expected) < 2:
            expected.add(ask())
        done, counts, wrong = threading.Event(), [0, 0, 0, 0], []

        def keep_asking(number: int) -> None:
            while not done.is_set():
                try:
                    if ask() not in expected:
                        wrong.append("an answer of neither or of both")
                except Exception as error:
                    wrong.append(repr(error))
                counts[number] += 1

        askers = [threading.Thread(target=keep_asking, args=(k,)) for k in range(4)]
        for asker in askers:
            asker.start()
        for k in range(rounds):
            loads = running.metric("offspan_model_loads_total")
            put((first, other)[k % 2])
            while running.metric("offspan_model_loads_total") == loads:
                pass
        done.set()
        for asker in askers:
            asker.join()
        note("reloads under load", rounds)
        note("requests meanwhile", sum(counts))
        note("failed or mixed answers", len(wrong))
        bar("no failed and no mixed answer while models are replaced", not wrong)
        if wrong:
            FAILURES.append(f"{len(wrong)} wrong while models were replaced: {wrong[:3]}")


def kills(case: Case, short: bool) -> None:
    """SIGKILL while the monitor's state is written: nothing is lost but what came after the last save."""
    times = 5 if short else 20
    state = case.folder / "state-kills"
    draw = random.Random(1)
    body, header = case.body(64)
    safe, lost = 0, []
    for _ in range(times):
        # Saves all the time, so that most kills meet one.
        running = Serving(case.models, "--state", state, "--state-interval", "1ms")
        running.get("/v2/models/net/infer", case.rows[:1].tobytes() and one_request(case))
        while not (begun := running.metric("offspan_monitor_rows")):
            pass
        if begun < safe:
            sys.exit(f"rows were lost: {begun} of {safe} that were safe")
        loader = threading.Thread(target=quietly, args=(running, header, body))
        loader.start()
        time.sleep(draw.uniform(0.2, 0.8))
        safe = running.metric("offspan_monitor_saved_rows")
        seen = running.metric("offspan_monitor_rows")
        running.kill()
        loader.join()
        lost.append(seen - safe)
    note("kills", times)
    note("rows of the stream in the end", safe)
    note("rows seen and not yet saved at each kill, at most", max(lost))
    with Serving(case.models, "--state", state) as running:
        running.get("/v2/models/net/infer", one_request(case))
        while not running.metric("offspan_monitor_rows"):
            pass
        note("rows after the last restart, at least as many", running.metric("offspan_monitor_rows"))
        kept = running.metric("offspan_monitor_rows") >= safe
        bar("nothing lost but what came after the last save", kept)
        if not kept:
            FAILURES.append("rows were lost by a kill")


def one_request(case: Case) -> bytes:
    row = [float(x) for x in case.rows[0]]
    return json.dumps(
        {"inputs": [{"name": "features", "shape": [1, len(row)], "datatype": "FP32", "data": row}]}
    ).encode()


def quietly(running: Serving, header: str, body: Path) -> None:
    """Load until the server is gone."""
    load(running.http, "/v2/models/net/infer", header, body, 2, 1.5, may_fail=True)


PARTS = {"speed": speed, "latency": latency, "mlserver": mlserver, "memory": memory, "reloads": reloads, "kills": kills}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--method", default="kpca-rff", help="what is fitted to made-up rows of 512 features")
    parser.add_argument("--detector", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--debug", action="store_true", help="take programs of the dev profile, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if (options.detector is None) != (options.rows is None):
        parser.error("--detector and --rows go together")
    if not options.debug:
        refuse_debug()
    for name, part in PARTS.items():
        if options.only and name not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="offspan-serve-") as folder:
            print(f"--- {name}", flush=True)
            part(Case(Path(folder), options.detector, options.rows, options.method), options.short)
    if options.json:
        options.json.write_text(json.dumps(FINDINGS, indent=1) + "\n")
    if FAILURES:
        sys.exit("failed: " + "; ".join(FAILURES))


if __name__ == "__main__":
    main()
