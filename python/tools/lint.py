"""Style, formatting and types of the Python sources."""

from __future__ import annotations

from environments import ROOT, environment, run


def main() -> None:
    """Run each tool from an environment of its own."""
    python = environment(ROOT / "target" / "python" / "lint", "ruff>=0.14", "mypy>=1.18", "numpy")
    sources = ROOT / "python"
    settings = ("--no-cache", "--config", str(sources / "pyproject.toml"))
    for folder, place in ((sources, "."), (ROOT, "tests")):
        run(python, "-m", "ruff", "check", *settings, place, folder=folder)
        run(python, "-m", "ruff", "format", *settings, "--check", place, folder=folder)
    run(python, "-m", "mypy", "--no-incremental", "--cache-dir=/dev/null", "offspan", folder=sources)


if __name__ == "__main__":
    main()
