"""What bench/run.py measures with: one idea per file."""
