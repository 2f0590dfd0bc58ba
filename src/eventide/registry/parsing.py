"""Parsed schemas, kept for a while: parsing is by far the dearest part of a registration."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from eventide.registry.compatibility import InvalidSchema, ParsedSchema, parse
from eventide.registry.compatibility.avro import AvroSchema
from eventide.registry.compatibility.protobuf import ProtobufSchema
from eventide.registry.faults import not_built

KINDS = ("AVRO", "JSON", "PROTOBUF")

_Key = tuple[str, str, tuple[tuple[str, str], ...], bool]


class Parsing:
    """Parses schemas and remembers the ones last used, up to a number of them and a total length of text."""

    def __init__(self, *, keep: int = 5_000, keep_characters: int = 50_000_000) -> None:
        self._keep = keep
        self._keep_characters = keep_characters
        self._characters = 0
        self._parsed: OrderedDict[_Key, ParsedSchema] = OrderedDict()
        self._lock = threading.Lock()

    def parse(self, kind: str, text: str, references: Mapping[str, str], *, strict: bool) -> ParsedSchema:
        """The schema behind a text; `references` are the texts it imports, by name.

        Raises:
            InvalidSchema: the text is no schema of its kind.
        """
        key = (kind, text, tuple(references.items()), strict)
        with self._lock:
            known = self._parsed.get(key)
            if known is not None:
                self._parsed.move_to_end(key)
                return known
        try:
            parsed = parse(kind, text, references, strict=strict)
        except RecursionError:
            raise InvalidSchema("The schema nests too deeply to be read.") from None
        with self._lock:
            self._parsed[key] = parsed
            self._characters += _length(key)
            while len(self._parsed) > self._keep or self._characters > self._keep_characters:
                dropped, _ = self._parsed.popitem(last=False)
                self._characters -= _length(dropped)
        return parsed


def _length(key: _Key) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])


def formatted(parsed: ParsedSchema, wanted: str) -> str:
    """The schema in the format a client asked for; one that its kind does not have gives the stored text."""
    if wanted == "resolved" and isinstance(parsed, AvroSchema):
        return parsed.resolved
    if wanted == "ignore_extensions" and isinstance(parsed, ProtobufSchema):
        raise not_built("format=ignore_extensions", "Ask for the text as it is, or for format=serialized.")
    if wanted == "serialized" and isinstance(parsed, ProtobufSchema):
        return parsed.serialized
    return parsed.canonical
