"""A starter on a machine of its own: at the moment that it is told, it tries to take the lease of a state."""

from __future__ import annotations

import sys
import time

from eventide.state import lease
from eventide.state.records import record_files


def main(machine: str) -> None:
    lease._machine = lambda: machine
    held = None
    for line in sys.stdin:
        what, root, moment = line.split()
        if what == "release":
            if held is not None:
                held.release()
            held = None
            print("free", flush=True)
            continue
        files = record_files(root)
        while time.time() < float(moment):
            pass
        try:
            held = lease.Lease.take(files, root)
            print("won", flush=True)
        except lease.StateInUse:
            print("lost", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
