"""A request as the routes see it, and an answer as the client gets it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from eventide.registry import faults
from eventide.registry.service.auth import NOBODY, Principal

V1 = "application/vnd.schemaregistry.v1+json"
_ACCEPTED = frozenset(
    {V1, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream"}
)  # fmt: skip
_OFFERED = (V1, "application/vnd.schemaregistry+json", "application/json")
_LARGEST_INT = 2**31 - 1

NO_CONTENT: Any = object()
"""What `Answer.body` is if there is none."""

NO_BODY: Any = object()
"""What `Request.body` is if the client sent none, or `null`."""


@dataclass(slots=True)
class Request:
    """One request, taken apart."""

    method: str
    segments: list[str]
    query: dict[str, list[str]]
    headers: dict[str, str]
    origin: str
    body: Any = NO_BODY
    named: dict[str, str] = field(default_factory=dict)
    """What stands in the path, as the client wrote it."""
    params: dict[str, str] = field(default_factory=dict)
    """The same with the subject in its one spelling, and its alias followed."""
    principal: Principal = NOBODY
    route: str = "other"
    """The path with its braces, once it is known: what the metrics call the request."""

    def text(self, name: str, default: str = "") -> str:
        """A query parameter as text."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A query parameter as a yes or no; clients write `true` and `True`."""
        return self.text(name).strip().lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A query parameter as a number; anything else is, as in JAX-RS, no such resource."""
        given = self.text(name)
        if not given:
            return default
        return whole_number(given)

    @property
    def reason(self) -> str:
        """Why the client says it does this, for the audit log."""
        return (self.headers.get("x-eventide-reason") or self.text("reason"))[:2000]


@dataclass(slots=True)
class Answer:
    """A status and a JSON body; `typed` is off for the few answers that come without a content type."""

    body: Any
    status: int = 200
    typed: bool = True
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    media: bytes | None = None
    """Its content type, if it has one of its own."""


@dataclass(slots=True)
class RawAnswer(Answer):
    """A schema by itself, already text; sent as it is."""

    def encoded(self) -> bytes:
        """The text in UTF-8."""
        return str(self.body).encode("utf-8", "surrogatepass")


def encode(answer: Answer) -> bytes:
    """The body as bytes."""
    if answer.body is NO_CONTENT:
        return b""
    if isinstance(answer, RawAnswer):
        return answer.encoded()
    return json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def whole_number(text: str) -> int:
    """A 32-bit number from a path or query, or no such resource."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10 or abs(int(text)) > _LARGEST_INT:
        raise faults.plain(404, "Not Found")
    return int(text)


def split_path(raw_path: bytes) -> list[str]:
    """The segments of a path, each decoded by itself, so that `%2F` stays inside a subject's name."""
    segments = raw_path.split(b"?", 1)[0].strip(b"/").split(b"/")
    try:
        return [unquote_to_bytes(segment).decode() for segment in segments] if segments != [b""] else []
    except UnicodeDecodeError:
        raise faults.Fault(400, 400, "The path is not valid UTF-8 once it is percent-decoded") from None


def split_query(raw: bytes) -> dict[str, list[str]]:
    """The query parameters, in order; a name may come several times."""
    query: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise faults.Fault(400, 400, "Too many query parameters") from None
    for name, value in pairs:
        if not storable(value):
            raise faults.Fault(400, 400, f"The query parameter '{name[:50]}' has a character that no text may have")
        query.setdefault(name, []).append(value)
    return query


def storable(text: str) -> bool:
    """Can every store keep this text? Not a NUL, which PostgreSQL refuses, nor half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def refuse_content_type(given: str | None) -> None:
    """415 unless the body is in one of the accepted types; none given counts as bytes."""
    if given and given.split(";", 1)[0].strip().lower() not in _ACCEPTED:
        raise faults.plain(415, "Unsupported Media Type")


def answer_type(accept: str | None) -> bytes:
    """The content type of the answer, or 406 if the client takes none of ours."""
    if not accept:
        return V1.encode()
    wanted = [part.split(";", 1)[0].strip().lower() for part in accept.split(",")]
    if V1 in wanted or any(w in ("", "*/*", "application/*", "*") for w in wanted):
        return V1.encode()
    for offered in _OFFERED:
        if offered in wanted:
            return offered.encode()
    raise faults.plain(406, "Not Acceptable")
