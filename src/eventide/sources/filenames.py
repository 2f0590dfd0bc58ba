"""Which files of a landing directory are read: by their names alone, and by one rule for Spark's listing and for ours."""

from __future__ import annotations

FORMATS = ("parquet", "json", "csv", "avro")
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")
"""Of formats that are plain text; Parquet and Avro compress inside."""
_PLAIN = {"parquet": (".parquet",), "json": (".json", ".jsonl", ".ndjson"), "csv": (".csv",), "avro": (".avro",)}
ENDINGS = {
    form: plain if form in ("parquet", "avro") else (*plain, *(end + how for end in plain for how in COMPRESSIONS))
    for form, plain in _PLAIN.items()
}
"""How the names of a format's files end; `1.json.tmp` is no such name."""


def spark_glob(form: str) -> str:
    """The rule as Spark takes it.

    >>> spark_glob("parquet")
    '[^._]*{.parquet}'
    """
    return f"[^._]*{{{','.join(ENDINGS[form])}}}"


def is_read(below: str, form: str) -> bool:
    """Whether a file is read, by its path below the source's directory.

    >>> [is_read(path, "csv") for path in ("a/1.csv.gz", "1.csv.tmp", ".1.csv", "_temporary/1.csv", "day=1/_2.csv")]
    [True, False, False, False, False]
    """
    *folders, name = below.split("/")
    return name.endswith(ENDINGS[form]) and not name.startswith((".", "_")) and not any(map(_hidden, folders))


def _hidden(part: str) -> bool:
    """Of folders as Spark's listings have it, word for word: `_day=1` may be a partition, and names of copies under way are nobody's."""
    if part.startswith(("_common_metadata", "_metadata")):
        return False
    return part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")
