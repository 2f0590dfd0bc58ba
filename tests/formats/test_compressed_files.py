"""Compressed files, whole, cut anywhere, put together and mistaken for others: their rows, or one dead letter of the file."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_chunks import chunks_of
from eventide.engine.feeds.file_faults import UnreadableFile
from eventide.engine.feeds.landed import LandedFile
from eventide.kernel.columns import DEAD
from eventide.model.watermark import Ascending

KINDS = {"at": pl.Int64(), "n": pl.Int64(), "s": pl.String()}
ROWS = {
    "csv": b"at,n,s\n" + b"".join(b"%d,%d,x%d\n" % (n, n, n) for n in range(5)),
    "json": b"".join(b'{"at":%d,"n":%d,"s":"x%d"}\n' % (n, n, n) for n in range(5)),
}
WHOLE = list(range(5))


def through_arrow(codec: str, body: bytes) -> bytes:
    made = pa.BufferOutputStream()
    with pa.CompressedOutputStream(made, codec) as stream:
        stream.write(body)
    return made.getvalue().to_pybytes()


PACKED = {
    "gz": lambda body: gzip.compress(body, mtime=0),
    "bz2": bz2.compress,
    "zst": lambda body: through_arrow("zstd", body),
    "lz4": lambda body: through_arrow("lz4", body),
}


def numbers(path: Path, body: bytes, form: str) -> list[int] | str:
    """The values of a file of this name, or why it cannot be read."""
    path.write_bytes(body)
    reading = Reading(0, "s", KINDS, "at", Ascending(), decoder="json" if form == "json" else None)
    try:
        frames = list(chunks_of([LandedFile(str(path), 0, "0", size=len(body))], form, reading, 0))
    except UnreadableFile as error:
        return str(error)
    rows = pl.concat(frames) if frames else pl.DataFrame(schema={**KINDS, DEAD: pl.String})
    assert rows[DEAD].null_count() == len(rows), rows[DEAD].to_list()
    return rows["n"].to_list()


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("codec", PACKED)
def test_a_compressed_file_is_read_as_a_whole_or_not_at_all(codec: str, form: str, tmp_path: Path) -> None:
    body, pack, path = ROWS[form], PACKED[codec], tmp_path / f"1.{form}.{codec}"
    whole = pack(body)
    assert numbers(path, whole, form) == WHOLE
    assert numbers(path, pack(b"\xef\xbb\xbf" + body), form) == WHOLE, "a mark of byte order inside"
    assert all(
        "Truncated" in numbers(path, whole[:cut], form)
        for cut in {1, *range(2, len(whole) - 4, 5), *range(len(whole) - 4, len(whole))}
    ), "cut anywhere"
    assert numbers(path, b"", form).endswith("it is empty")  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("codec", PACKED)
def test_compressed_files_may_be_put_one_behind_the_other(codec: str, form: str, tmp_path: Path) -> None:
    body, pack, path = ROWS[form], PACKED[codec], tmp_path / f"1.{form}.{codec}"
    more = body.partition(b"\n")[2] if form == "csv" else body
    assert numbers(path, pack(body) + pack(more), form) == WHOLE * 2
    nothing = (
        b"" if codec == "bz2" else pack(b"")
    )  # which Arrow's reader of bzip2 takes at the ends only, and else calls a fault of the file
    assert numbers(path, pack(body[:20]) + nothing + pack(body[20:]), form) == WHOLE, "cut inside of a line"
    for behind in (pack(more)[:-3], pack(more)[:1], b"\0" * 32, b"anything"):
        assert isinstance(numbers(path, pack(body) + behind, form), str), behind


@pytest.mark.parametrize("form", ROWS)
def test_what_a_file_is_not_is_told_by_name(form: str, tmp_path: Path) -> None:
    for codec, pack in PACKED.items():
        assert "it holds " in numbers(tmp_path / f"1.{form}", pack(ROWS[form]), form)
        assert isinstance(numbers(tmp_path / f"1.{form}.{codec}", ROWS[form], form), str)
    assert "it holds xz, not text" in numbers(tmp_path / f"1.{form}", lzma.compress(ROWS[form]), form)
