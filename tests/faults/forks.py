"""A piece of work in a forked process, which may do with its memory what it likes."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from collections.abc import Callable


def in_child(work: Callable[[Callable[[str], None]], str], limit: float) -> tuple[str | None, str]:
    """What a piece of work in a forked process gives (None: it died or took too long), and the last thing that it told."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _quiet()
        try:
            text = work(lambda line: os.write(write, f"at {line}\n".encode()) and None)
            os.write(write, f"is {text}\n".encode())
        except BaseException as error:
            os.write(write, f"no {error!r}\n".encode())
        finally:
            os._exit(0)
    os.close(write)
    said, end = b"", time.monotonic() + limit
    while (rest := end - time.monotonic()) > 0 and select.select([read], [], [], rest)[0]:
        if not (more := os.read(read, 1 << 16)):
            break
        said += more
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lines = said.decode().splitlines()
    told = [line[3:] for line in lines if line.startswith("at ")]
    answers = [line[3:] for line in lines if line.startswith("is ")]
    if wrong := [line for line in lines if line.startswith("no ")]:
        raise RuntimeError(f"the hunt itself failed: {wrong}")
    return (answers[-1] if answers else None), (told[-1] if told else "")


def _quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    gc.disable()
