"""What a registry answered, as the commands read it: a place that answers something else is told by name, wherever that is noticed."""

from __future__ import annotations

from typing import Any

from eventide.cli.faults import Unanswered
from eventide.redaction import masked


class Answer(dict[str, Any]):
    """An object of an answer; what is not in it ends the command, for no registry leaves it out."""

    def __init__(self, url: str, found: dict[str, Any]) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, name: str) -> Any:
        raise strange(self._url, dict(self))


def understood(url: str, found: Any, gives: type[dict[str, Any]] | type[list[Any]]) -> Any:
    """An answer that is an object, or a list of objects, as it was expected to be."""
    if gives is list and isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return [Answer(url, one) for one in found]
    if gives is dict and isinstance(found, dict):
        return Answer(url, found)
    raise strange(url, found)


def strange(url: str, found: Any) -> Unanswered:
    """What is said of an answer that no registry gives."""
    return Unanswered(masked(f"{url} answered {repr(found)[:100]}, which is none of a registry's answers. Is this its URL?"))
