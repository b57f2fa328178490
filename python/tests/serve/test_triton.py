"""Triton's own clients, with default settings, get what `offspan score` says: bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

CLIENTS = {"http": tritonclient.http, "grpc": tritonclient.grpc}


@pytest.fixture(params=sorted(CLIENTS))
def client(request, server):
    module = CLIENTS[request.param]
    made = module.InferenceServerClient(getattr(server, request.param))
    made.module = module
    yield made
    made.close()


def features(client, rows: np.ndarray, datatype: str = "FP32", **settings) -> list:
    made = client.module.InferInput("features", rows.shape, datatype)
    made.set_data_from_numpy(rows, **settings)
    return [made]


def check(answer, expected) -> None:
    np.testing.assert_array_equal(answer.as_numpy("score"), expected["score"])
    # The command line writes it with six digits.
    np.testing.assert_allclose(answer.as_numpy("p_value"), expected["p_value"], atol=6e-7)
    np.testing.assert_array_equal(answer.as_numpy("is_ood"), expected["is_ood"])


def test_default_settings_give_the_scores_of_the_command_line(client, rows, expected):
    answer = client.infer("net", features(client, rows))
    check(answer, expected)
    assert answer.as_numpy("score").dtype == np.float64
    assert answer.as_numpy("is_ood").dtype == np.bool_


def test_single_rows_have_the_same_bits(client, rows, expected):
    for row in (0, 123, 399):
        answer = client.infer("net", features(client, rows[row : row + 1]))
        assert answer.as_numpy("score")[0] == expected["score"][row]


def test_outputs_ids_and_versions(client, rows):
    wanted = [client.module.InferRequestedOutput("is_ood")]
    answer = client.infer("net", features(client, rows[:3]), model_version="1", outputs=wanted, request_id="number 7")
    assert answer.as_numpy("score") is None
    assert answer.as_numpy("is_ood").shape == (3,)
    response = answer.get_response()
    if not isinstance(response, dict):
        response = {"id": response.id, "model_version": response.model_version}
    assert (response["id"], response["model_version"]) == ("number 7", "1")


def test_other_types_of_numbers(client, rows):
    coarse = np.round(rows[:20] * 8).astype(np.float32) / 8
    scores = client.infer("net", features(client, coarse)).as_numpy("score")
    for kind, name in ((np.float16, "FP16"), (np.float64, "FP64")):
        answer = client.infer("net", features(client, coarse.astype(kind), name))
        np.testing.assert_array_equal(answer.as_numpy("score"), scores)


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("net")
    assert not client.is_model_ready("none")
    about = client.get_model_metadata("net", **as_dict(client))
    assert [output["name"] for output in about["outputs"]] == ["score", "p_value", "is_ood"]
    assert [int(size) for size in about["inputs"][0]["shape"]] == [-1, 4]
    assert client.get_server_metadata(**as_dict(client))["name"] == "offspan"


def as_dict(client) -> dict:
    return {"as_json": True} if client.module is tritonclient.grpc else {}


def test_the_repository(client):
    index = client.get_model_repository_index(**as_dict(client))
    entries = index["models"] if isinstance(index, dict) else index
    assert [(entry["name"], entry["state"]) for entry in entries] == [("net", "READY")]
    client.load_model("net")
    with pytest.raises(Exception, match="there is no model `none`"):
        client.load_model("none")


def test_errors_are_sentences(client, rows):
    with pytest.raises(Exception, match="there is no model `other`"):
        client.infer("other", features(client, rows))
    with pytest.raises(Exception, match=r"input `features`: expected shape \[-1, 4\], got \[1, 3\]"):
        client.infer("net", features(client, np.ones((1, 3), np.float32)))
    with pytest.raises(Exception, match="row 1, column 2 is NaN"):
        bad = rows[:2].copy()
        bad[1, 2] = np.nan
        client.infer("net", features(client, bad))
    with pytest.raises(Exception, match="expected outputs among score, p_value, is_ood, got `class`"):
        client.infer("net", features(client, rows), outputs=[client.module.InferRequestedOutput("class")])


def test_json_and_compression_over_http(server, rows, expected):
    client = tritonclient.http.InferenceServerClient(server.http)
    client.module = tritonclient.http
    inputs = features(client, rows, binary_data=False)
    names = ("score", "p_value", "is_ood")
    outputs = [tritonclient.http.InferRequestedOutput(name, binary_data=False) for name in names]
    check(client.infer("net", inputs, outputs=outputs), expected)
    for algorithm in ("gzip", "deflate"):
        settings = {"request_compression_algorithm": algorithm, "response_compression_algorithm": "gzip"}
        check(client.infer("net", features(client, rows), **settings), expected)


def test_compression_over_grpc(server, rows, expected):
    client = tritonclient.grpc.InferenceServerClient(server.grpc)
    client.module = tritonclient.grpc
    check(client.infer("net", features(client, rows), compression_algorithm="gzip"), expected)


def test_many_at_once(server, rows, expected):
    client = tritonclient.http.InferenceServerClient(server.http, concurrency=8)
    client.module = tritonclient.http
    started = [client.async_infer("net", features(client, rows[k : k + 2])) for k in range(0, 200, 2)]
    scores = np.concatenate([request.get_result().as_numpy("score") for request in started])
    np.testing.assert_array_equal(scores, expected["score"][:200])
