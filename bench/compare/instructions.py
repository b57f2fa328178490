"""Which vector instructions each side uses."""

from __future__ import annotations

import importlib.util

from .machine import Driver


def of_all(driver: Driver) -> dict[str, str]:
    answer = driver.instructions()
    found = {"offspan": f"{answer['in_use']} (the processor has {', '.join(answer['available'])}; eigensolvers take the best)"}
    return found | libraries()


def libraries() -> dict[str, str]:
    """What BLAS libraries and PyTorch say of themselves."""
    found = {}
    if importlib.util.find_spec("threadpoolctl"):
        import numpy  # noqa: F401  (loads the library that is asked)
        import threadpoolctl

        for library in threadpoolctl.threadpool_info():
            if library.get("user_api") == "blas":
                found["NumPy"] = f"{library['internal_api']} {library.get('version')} for {library.get('architecture')}"
    if importlib.util.find_spec("torch"):
        import torch

        found["PyTorch"] = torch.backends.cpu.get_cpu_capability()
    return found
