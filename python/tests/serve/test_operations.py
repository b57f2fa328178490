"""What operators rely on: promtool, encryption, signals, settings in a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from serving import Serving, program

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "crates" / "offspan-server" / "tests" / "files"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool") or install_promtool()
    if found is None:
        pytest.skip("promtool is not there and cannot be installed (Debian: apt-get install prometheus)")
    return found


def install_promtool() -> str | None:
    """Debian's package, unpacked and not installed: no service is wanted."""
    folder = ROOT / "target" / "promtool"
    tool = folder / "usr" / "bin" / "promtool"
    if not tool.exists() and shutil.which("apt-get"):
        folder.mkdir(parents=True, exist_ok=True)
        commands = ("apt-get --quiet update; apt-get --quiet download prometheus", "dpkg -x prometheus_*.deb .")
        for command in commands:
            if subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True).returncode:
                return None
    return str(tool) if tool.exists() else None


def test_metrics_pass_promtool(server, promtool, rows):
    server.get("/v2/models/net/infer", json.dumps(body(rows)).encode())
    done = subprocess.run([promtool, "check", "metrics"], input=server.get("/metrics"), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert not done.stderr, done.stderr.decode()


def test_rules_pass_promtool_and_name_metrics_that_exist(server, promtool):
    rules = ROOT / "deploy" / "alerts.yml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    check_names(server, rules.read_text())


#: Two servers of the same model, of which one sees many rows that are out.
TWO_SERVERS = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'offspan_rows_total{model="net",version="1",decision="in",instance="a"}', values: '0+600x20'}
      - {series: 'offspan_rows_total{model="net",version="1",decision="out",instance="a"}', values: '0+30x20'}
      - {series: 'offspan_rows_total{model="net",version="1",decision="in",instance="b"}', values: '0+300x20'}
      - {series: 'offspan_rows_total{model="net",version="1",decision="out",instance="b"}', values: '0+600x20'}
      - {series: 'offspan_promised_out_ratio{model="net",version="1",instance="a"}', values: '0.05x20'}
      - {series: 'offspan_promised_out_ratio{model="net",version="1",instance="b"}', values: '0.05x20'}
    promql_expr_test:
      - expr: count(ALERTS{alertname="OffspanManyRowsOut",alertstate="firing"})
        eval_time: 15m
        exp_samples: [{value: 1}]
"""


def test_rules_hold_for_several_servers_of_a_model(promtool, tmp_path):
    path = tmp_path / "two.yml"
    path.write_text(TWO_SERVERS.replace("RULES", str(ROOT / "deploy" / "alerts.yml")))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_json_and_names_metrics_that_exist(server):
    text = (ROOT / "deploy" / "grafana.json").read_text()
    dashboard = json.loads(text)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    check_names(server, text)


def check_names(server, text: str) -> None:
    families = set(re.findall(r"^# TYPE (\S+)", server.get("/metrics").decode(), re.M))
    used = set(re.findall(r"\b(?:offspan|process)_[a-z0-9_]+", text))
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert bare <= families | {"offspan_"}, bare - families


def body(rows) -> dict:
    data = [float(x) for x in rows[:3].ravel()]
    return {"inputs": [{"name": "features", "shape": [3, 4], "datatype": "FP32", "data": data}]}


def test_encryption_and_tokens(place, rows, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    words = ("--tls-cert", FILES / "cert.pem", "--tls-key", FILES / "key.pem", "--token-file", tokens)
    trusting = ssl.create_default_context(cafile=str(FILES / "cert.pem"))
    with Serving(place / "models", *words) as running:
        url = f"https://{running.http}/v2/models/net"
        request = urllib.request.Request(url, headers={"Authorization": "Bearer 0123456789abcdef"})
        with urllib.request.urlopen(request, context=trusting) as answer:
            assert json.load(answer)["name"] == "net"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, context=trusting)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(url, context=ssl.create_default_context())
        # Somebody who does not encrypt gets nothing, and breaks nothing.
        host, port = running.http.split(":")
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(b"GET /v2 HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in plain.recv(1000)
        grpc = pytest.importorskip("grpc")
        pb = pytest.importorskip("tritonclient.grpc").service_pb2
        credentials = grpc.ssl_channel_credentials((FILES / "cert.pem").read_bytes())
        with grpc.secure_channel(running.grpc, credentials) as channel:
            method = channel.unary_unary(
                "/inference.GRPCInferenceService/ModelReady",
                request_serializer=pb.ModelReadyRequest.SerializeToString,
                response_deserializer=pb.ModelReadyResponse.FromString,
            )
            asked = pb.ModelReadyRequest(name="net")
            assert method(asked, metadata=(("authorization", "Bearer 0123456789abcdef"),)).ready
            with pytest.raises(grpc.RpcError) as refused:
                method(asked)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert running.process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_well(place, number):
    with Serving(place / "models") as running:
        assert subprocess.run([program(), "serve", "--check", running.http]).returncode == 0
        os.kill(running.process.pid, number)
        assert running.process.wait() == 0
    assert running.log[-1]["message"] == "ended"
    assert subprocess.run([program(), "serve", "--check", running.http], capture_output=True).returncode == 2


def test_settings_come_from_a_file_and_flags_go_before_it(place, tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text(f'models = ["{place / "models"}"]\nmax_body = 100000\nmonitor = false\nmax_memory = 200000\n')
    with Serving("--config", path, "--max-body", "5") as running:
        with pytest.raises(urllib.error.HTTPError, match="413"):
            running.get("/v2/models/net/infer", b"123456")
        assert "offspan_monitor_rows" not in running.metrics()
    path.write_text("modles = []\n")
    done = subprocess.run([program(), "serve", "--config", path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "modles" in done.stderr


def test_the_shipped_settings_are_settings():
    """They name folders of their own machine, and nothing else is wrong with them."""
    path = ROOT / "deploy" / "serve.toml"
    done = subprocess.run([program(), "serve", "--config", path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "/var/lib/offspan" in done.stderr, done.stderr
