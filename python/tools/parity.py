"""How closely every method that can be exported agrees with the library on packs, in ONNX Runtime, rten and PyTorch.

python3 python/tools/parity.py PACK... [--method NAME,...] [--rows N]

Prints one Markdown table for each pack: for each method the largest difference as a share of the largest score, in ONNX
Runtime, in rten, and in PyTorch with float32 and with float64; `–` where a pack does not have what the method needs
(the reason is told on the way), and for rten where a graph has more than one input, which `extract` does not run.
Scores up to 2000 rows of each set. Needs a build of the command line and the environments in target/python that
`run_tests.py --only onnx` and `--only torch` make.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from environments import ROOT
from parity_table import Request

#: Rows of each set, at most.
ROWS = 2000
#: The environment of each tool. Each tells two numbers in one cell: ONNX Runtime and rten, float32 and float64.
TOOLS = {"onnx": "onnx_parity.py", "torch": "torch_parity.py"}


def main() -> None:
    """Run both tools, and join what they found."""
    request = Request.of(sys.argv[1:], "")
    if not request.packs:
        sys.exit('give the folders of packs: make parity PACKS="folder folder"')
    methods = request.methods if request.methods != [""] else exportable()
    found: dict[tuple[str, str, str], str] = {}
    for environment, tool in TOOLS.items():
        python = ROOT / "target" / "python" / environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        if not python.exists():
            sys.exit(f"there is no {python}: `python3 python/tools/run_tests.py --only {environment}` makes it")
        words = [*map(str, request.packs), "--method", ",".join(methods), "--rows", str(request.rows or ROWS), "--json"]
        command = [str(python), str(ROOT / "python" / "tools" / tool), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                cell = json.loads(line)
                found[environment, cell["method"], cell["pack"]] = cell["found"]
                print(f"{environment}, {cell['method']}, {cell['pack']}: {cell['found']}", file=sys.stderr, flush=True)
        if running.returncode:
            sys.exit(f"{tool} has failed")
    for pack in request.packs:
        print(f"\n`{pack.name}`:\n\n| method | ONNX Runtime | rten | PyTorch, float32 | float64 |\n|---|" + "---:|" * 4)
        for method in methods:
            cells = []
            for environment in TOOLS:
                first, _, second = found[environment, method, pack.name].partition(", ")
                cells += [first, second or "–"]
            print(f"| `{method}` |", " | ".join(cells), "|")


def exportable() -> list[str]:
    """Every method whose arithmetic other runtimes have, as the command line tells."""
    command_line = os.environ.get("OFFSPAN_CLI", str(ROOT / "target" / "debug" / "offspan"))
    text = subprocess.run([command_line, "methods", "--json"], capture_output=True, text=True, check=True).stdout
    return [method["name"] for method in json.loads(text) if "not_exportable" not in method]


if __name__ == "__main__":
    main()
