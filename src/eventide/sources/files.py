"""Files that land in a directory: Parquet, JSON lines, CSV or Avro, read in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eventide.definition.source import Source, ahead, idle, skew
from eventide.errors import DefinitionError
from eventide.model.time import Duration
from eventide.model.watermark import Strategy
from eventide.redaction import without_secrets
from eventide.sources.filenames import FORMATS
from eventide.sources.formats import ddl_columns, ddl_types
from eventide.storage.address import scheme_of

PATTERN = frozenset("*?[]{}\\")
"""What Spark would take for a pattern."""


@without_secrets
@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A landing directory. A lane is the whole directory, each subdirectory, or each value of a column."""

    path: str
    format: str
    schema: str | None
    lane: str
    files_per_batch: int | None
    read: str
    on_bad_file: str = "dead_letter"
    """What becomes of a file that as a whole cannot be read: a dead letter, or the end of the run."""
    mended: ClassVar[bool] = False
    """Whether the directory is ours to make and to write into."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Known when a schema was given."""
        return None if self.schema is None else ddl_columns(self.schema)

    @property
    def column_types(self) -> dict[str, str]:
        return {} if self.schema is None else ddl_types(self.schema)

    @property
    def needs(self) -> tuple[str, ...]:
        """Spark lists the files, and ships nothing that reaches S3."""
        return ("s3",) if scheme_of(self.path) in ("s3", "s3a") else ()

    @property
    def lane_column(self) -> str | None:
        """The column that names the lane, if one does."""
        return self.lane.removeprefix("column:") if self.lane.startswith("column:") else None


def files(
    name: str,
    path: str,
    *,
    event_time: str,
    watermark: Strategy,
    format: str = "parquet",
    schema: str | None = None,
    lane: str = "source",
    arrival: str | None = None,
    idle_after: Duration | None = None,
    files_per_batch: int | None = None,
    max_ahead: Duration | None = "1 day",
    max_skew: Duration | None = "1 minute",
    time_unit: str = "us",
    time_zone: str = "UTC",
    time_format: str | None = None,
    read: str = "auto",
    on_bad_file: str = "dead_letter",
) -> FileSource:
    """Files as a stream, in order of their modification time, then path, then row.

    `lane` says which files are ordered among themselves: `"source"` (all of them), `"directory"` (each subdirectory of `path`), or
    `"column:NAME"`. Without an `arrival` column a row arrived when its file was last modified. `read="worker"` reads files inside
    the Python worker, `"spark"` through Spark; `"auto"` takes the worker where it can open the path.

    A file that as a whole cannot be read (truncated, empty, gone, not what its name says) is one dead letter with its path, size and
    reason, and the run goes on; `on_bad_file="stop"` stops it instead.
    """
    if format not in FORMATS:
        raise DefinitionError(f"files(format={format!r}): the formats are {', '.join(FORMATS)}.")
    if format != "parquet" and schema is None:
        raise DefinitionError(
            f'files(format={format!r}) needs schema="…" as Spark DDL: {format} files do not say their columns\' types.'
        )
    if lane not in ("source", "directory") and not lane.startswith("column:"):
        raise DefinitionError(f'files(lane={lane!r}): use "source", "directory" or "column:NAME".')
    if read not in ("auto", "worker", "spark"):
        raise DefinitionError(f'files(read={read!r}): use "auto", "worker" or "spark".')
    if on_bad_file not in ("dead_letter", "stop"):
        raise DefinitionError(f'files(on_bad_file={on_bad_file!r}): use "dead_letter" or "stop".')
    if PATTERN & set(str(path)):
        raise DefinitionError(f"files({str(path)!r}): name one directory, not a pattern; all that lies below it is read.")
    return FileSource(
        name=name, path=str(path), event_time=event_time, watermark=watermark, format=format, schema=schema, lane=lane,
        arrival=arrival, idle_after=idle(name, idle_after), files_per_batch=files_per_batch, max_ahead=ahead(name, max_ahead), max_skew=skew(name, max_skew),
        time_unit=time_unit, time_zone=time_zone, time_format=time_format, read=read, on_bad_file=on_bad_file,
    )  # fmt: skip
