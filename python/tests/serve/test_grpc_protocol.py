"""gRPC, clause by clause, with messages that Triton's client would never send."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

SERVICE = "/inference.GRPCInferenceService/"


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.grpc) as opened:
        yield opened


def call(channel, name: str, message: bytes, answer=None, metadata=()):
    """Sends any bytes as a message."""
    deserializer = answer.FromString if answer else None
    method = channel.unary_unary(SERVICE + name, request_serializer=lambda b: b, response_deserializer=deserializer)
    return method(message, metadata=metadata)


def infer(channel, request: pb.ModelInferRequest) -> pb.ModelInferResponse:
    return call(channel, "ModelInfer", request.SerializeToString(), pb.ModelInferResponse)


def request(rows: np.ndarray, raw: bool = True) -> pb.ModelInferRequest:
    made = pb.ModelInferRequest(model_name="net")
    tensor = made.inputs.add(name="features", datatype="FP32", shape=rows.shape)
    if raw:
        made.raw_input_contents.append(rows.tobytes())
    else:
        tensor.contents.fp32_contents.extend(rows.ravel())
    return made


def code_of(function, *words) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        function(*words)
    return raised.value.code(), raised.value.details()


def test_raw_and_typed_contents_give_the_same_raw_outputs(channel, rows, expected):
    for raw in (True, False):
        answer = infer(channel, request(rows[:50], raw))
        assert [output.name for output in answer.outputs] == ["score", "p_value", "is_ood"]
        assert [output.datatype for output in answer.outputs] == ["FP64", "FP64", "BOOL"]
        assert all(list(output.shape) == [50] for output in answer.outputs)
        np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0]), expected["score"][:50])
        np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[2], bool), expected["is_ood"][:50])
    double = request(rows[:5])
    double.inputs[0].datatype = "FP64"
    double.inputs[0].contents.fp64_contents.extend(rows[:5].ravel().astype(float))
    del double.raw_input_contents[:]
    assert len(infer(channel, double).raw_output_contents[0]) == 40


def test_ids_versions_and_names_come_back(channel, rows):
    asked = request(rows[:1])
    asked.id, asked.model_version = "mine", "1"
    answer = infer(channel, asked)
    assert (answer.id, answer.model_name, answer.model_version) == ("mine", "net", "1")


def test_bf16_is_for_raw_contents(channel, rows):
    halves = (rows[:2].view(np.uint32) >> 16).astype(np.uint16)
    asked = request(rows[:2])
    asked.inputs[0].datatype = "BF16"
    asked.raw_input_contents[0] = halves.tobytes()
    cut = (halves.astype(np.uint32) << 16).view(np.float32)
    assert infer(channel, asked).raw_output_contents[0] == infer(channel, request(cut)).raw_output_contents[0]


def wrong_requests(rows: np.ndarray):
    def changed(**fields) -> pb.ModelInferRequest:
        made = request(rows[:2])
        for name, value in fields.items():
            if name == "shape":
                made.inputs[0].shape[:] = value
            else:
                setattr(made.inputs[0], name, value)
        return made

    both = request(rows[:2])
    both.inputs[0].contents.fp32_contents.append(1.0)
    short = request(rows[:2])
    short.raw_input_contents[0] = short.raw_input_contents[0][:-1]
    too_many = request(rows[:2])
    too_many.raw_input_contents.append(b"")
    few = request(rows[:2], raw=False)
    few.inputs[0].contents.fp32_contents.pop()
    nan = request(np.full((1, 4), np.nan, np.float32))
    no_input = pb.ModelInferRequest(model_name="net")
    twice = request(rows[:2])
    twice.inputs.add().CopyFrom(twice.inputs[0])
    twice.raw_input_contents.append(twice.raw_input_contents[0])
    output = request(rows[:2])
    output.outputs.add(name="logits")
    half = request(rows[:2], raw=False)
    half.inputs[0].datatype = "FP16"
    shared = request(rows[:2])
    shared.inputs[0].parameters["shared_memory_region"].string_param = "x"
    bad = grpc.StatusCode.INVALID_ARGUMENT
    return {
        "another name": (changed(name="x"), bad),
        "another type": (changed(datatype="INT8"), bad),
        "another width": (changed(shape=[4, 2]), bad),
        "a negative size": (changed(shape=[-2, 4]), bad),
        "sizes whose product does not exist": (changed(shape=[2**62, 4]), bad),
        "raw and typed contents": (both, bad),
        "bytes that are missing": (short, bad),
        "contents too many": (too_many, bad),
        "numbers too few": (few, bad),
        "NaN": (nan, bad),
        "no input": (no_input, bad),
        "an input twice": (twice, bad),
        "an unknown output": (output, bad),
        "halves without raw contents": (half, bad),
        "shared memory": (shared, bad),
        "no such model": (pb.ModelInferRequest(model_name="../../etc/passwd"), grpc.StatusCode.NOT_FOUND),
        "no such version": (pb.ModelInferRequest(model_name="net", model_version="9"), grpc.StatusCode.NOT_FOUND),
    }


def test_wrong_requests_have_the_right_codes(channel, rows):
    for name, (wrong, code) in wrong_requests(rows).items():
        got, details = code_of(infer, channel, wrong)
        assert got == code, (name, details)
        assert details, name
    assert infer(channel, request(rows[:2])).model_name == "net"


def test_bytes_that_are_no_message_and_calls_that_are_none(channel, rows):
    for noise in (b"\xff\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", request(rows[:2]).SerializeToString()[:-3]):
        got, _ = code_of(call, channel, "ModelInfer", noise)
        assert got in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT), noise
    assert code_of(call, channel, "NoSuchCall", b"")[0] == grpc.StatusCode.UNIMPLEMENTED
    assert infer(channel, request(rows[:2])).model_name == "net"


def test_messages_beyond_the_bound_are_refused(channel):
    big = pb.ModelInferRequest(model_name="net", raw_input_contents=[bytes(65 << 20)])
    got, _ = code_of(infer, channel, big)
    assert got in (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_request_ids_and_traces_are_passed_on(channel, rows):
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    method = channel.unary_unary(SERVICE + "ModelInfer", request_serializer=lambda b: b)
    metadata = (("x-request-id", "abc"), ("traceparent", parent))
    _, done = method.with_call(request(rows[:1]).SerializeToString(), metadata=metadata)
    said = dict(done.initial_metadata())
    assert said["x-request-id"] == "abc"
    assert said["traceparent"].startswith(parent[:36])
