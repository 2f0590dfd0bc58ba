"""Schema languages that a plan can be made in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.shape.addition import Addition
from eventide.migration.plan.shape.leaf import Leaf


class Language(Protocol):
    """What a schema language must offer for its schemas to be migrated."""

    def leaves(self, text: str) -> dict[str, Leaf]:
        """Every leaf by its path, in the order of the schema."""

    def missing(self, text: str, wanted: str) -> list[Addition]:
        """The fields that a schema lacks and another has, optional so that readers of older records can do without."""

    def with_added(self, text: str, additions: Sequence[Addition]) -> str:
        """The schema with these fields, where it has not got them yet."""

    def without(self, text: str, paths: Sequence[str]) -> str:
        """The schema without these fields."""

    def loosened(self, text: str, paths: Sequence[str]) -> str:
        """The schema with these fields optional, so that it reads records with and without them."""

    def softened(self, addition: Addition) -> Addition | None:
        """The addition in a form that says less and that a level may take instead; none if the language has no such form."""

    def retired(self, text: str, paths: Sequence[str]) -> str | None:
        """The schema with these fields as names that mean nothing any more; none if the language has no such form."""

    def requires(self, text: str, path: str) -> bool:
        """Must every record of this schema have this field?"""

    def tightened(self, text: str, wanted: Sequence[Addition]) -> str:
        """The schema with these fields as they were wanted from the first; those it has not got are no error."""

    def renamed(self, addition: Addition, name: str) -> Addition:
        """The same addition under another name."""

    def field(self, text: str, path: str) -> Any:
        """The definition of one field as it stands, or none."""

    def remark(self, text: str, addition: Addition) -> str | None:
        """What people should know about a field that was added to this schema, if anything."""


def language(kind: str) -> Language:
    """The language of a schema type.

    Raises:
        PlanRefused: no plan can be made in it.
    """
    if kind == "AVRO":
        from eventide.migration.plan.shape.avro import AvroLanguage

        return AvroLanguage()
    if kind == "JSON":
        from eventide.migration.plan.shape.json_schema import JsonLanguage

        return JsonLanguage()
    if kind == "PROTOBUF":
        from eventide.migration.plan.shape.protobuf import ProtobufLanguage

        return ProtobufLanguage()
    raise PlanRefused(f"No plan can be made for {kind} schemas; AVRO, JSON and PROTOBUF can be planned.")
