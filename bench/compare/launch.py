"""Run a command; print its wall time and peak resident memory as JSON. Imports little, to add nothing to that peak."""

import json
import os
import sys
import time

started = time.perf_counter()
# The answer has stdout to itself; what the command prints is of no interest, its errors are.
silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silence)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - started
peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"seconds": seconds, "peak_bytes": peak}))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
