"""The pipeline that a file defines; what is wrong with the file is told with its line."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.cli.faults import EXTRAS, Refused
from eventide.errors import EventideError
from eventide.redaction import masked

if TYPE_CHECKING:
    from eventide.pipeline import Pipeline


def load(file: str) -> Pipeline:
    """The one pipeline that a file defines; of several, the one called `pipeline`."""
    from eventide.pipeline import Pipeline

    found = {name: value for name, value in names_in(file).items() if isinstance(value, Pipeline)}
    if not found:
        raise Refused(f"{file} defines no Pipeline. End it with: pipeline = ev.Pipeline(…)")
    if len(found) > 1 and "pipeline" not in found:
        raise Refused(f"{file} defines {', '.join(sorted(found))}; call the one to run `pipeline`.")
    return found.get("pipeline") or next(iter(found.values()))


def names_in(file: str) -> dict[str, Any]:
    """What a Python file of the user's defines."""
    _import_from(str(Path(file).resolve().parent))
    try:
        return runpy.run_path(file, run_name="__pipeline__")
    except SyntaxError as error:
        where = f"{error.filename or file}, line {error.lineno}" if error.lineno else file
        raise Refused(": ".join(filter(None, [where, error.msg, (error.text or "").strip()]))) from error
    except SystemExit as error:
        raise Refused(
            masked(
                f"{_place(error, file)}: the file ends the program ({error.code!r}) before it defines a pipeline. Put what is not its definition below "
            )
            + 'if __name__ == "__main__".'
        ) from error
    except Exception as error:
        said = str(error) if isinstance(error, EventideError) else f"{type(error).__name__}: {error}"
        raise Refused(masked(f"{_place(error, file)}: {said}{_next(error)}")) from error


def _import_from(directory: str) -> None:
    """Modules beside the file are found, as Python itself would find them, here and by the workers."""
    if directory not in sys.path:
        sys.path.insert(0, directory)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH")]))


def _place(error: BaseException, file: str) -> str:
    """The user's line: the last one that is in the file itself."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, file)]
    return f"{file}, line {lines[-1]}" if lines else file


def _same(one: str, other: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(other)


def _next(error: Exception) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    name = (error.name or "").partition(".")[0]
    return f". Install it: pip install {repr(f'eventide[{EXTRAS[name]}]') if name in EXTRAS else name}"


def relative_to(pipeline: Pipeline, file: str) -> str | None:
    """Where relative paths lead, if that is not where the file is."""
    here = Path.cwd()
    if here == Path(file).resolve().parent:
        return None
    sources = [getattr(source, "path", None) for source in pipeline.sources]
    paths = [path for path in (*sources, pipeline.state, pipeline.archive) if isinstance(path, str)]
    if any(":" not in path and not os.path.isabs(path) for path in paths):
        return f"relative paths lead from {here}, where the command was given"
    return None
