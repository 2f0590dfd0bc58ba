"""What a schema, a reference to one and a reason for refusing one look like, whatever the language it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eventide.errors import EventideError

DIFFERENT_TYPES = "Incompatible because of different schema type"


class InvalidSchema(EventideError, ValueError):
    """The text is no schema of its language; the message is the detail that Confluent's service gives.

    Where that detail says little, `reason` says what is wrong.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(frozen=True)
class Reference:
    """A schema named by another one: the name it is imported under, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Incompatibility:
    """One reason why the reader cannot read what the writer wrote.

    Attributes:
        kind: what changed, e.g. ``READER_FIELD_MISSING_DEFAULT_VALUE``.
        path: where in the reader's schema, as a JSON path.
        reader: which side reads: ``"new"`` or ``"old"``.
        message: a sentence that names reader and writer.
        fix: how to make the change compatible.
        verbose: the line that Confluent's service prints for it.
    """

    kind: str
    path: str
    reader: str
    message: str
    fix: str
    verbose: str


@runtime_checkable
class ParsedSchema(Protocol):
    """A schema that was read and understood; what `parse` gives and `check` takes."""

    @property
    def kind(self) -> str:
        """AVRO, JSON or PROTOBUF."""

    @property
    def canonical(self) -> str:
        """The text that is stored and returned: the language's own key order, docs kept."""

    @property
    def normalized(self) -> str:
        """The canonical text after ``?normalize=true``."""

    @property
    def top_fields(self) -> frozenset[str]:
        """The names that a record of it has at the top."""

    @property
    def raw(self) -> object:
        """What the language's own parser made of it."""
