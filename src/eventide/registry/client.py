"""A small client: what pipelines, serialisers and the command line ask of a registry."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from eventide.errors import DefinitionError, EventideError
from eventide.redaction import masked
from eventide.registry.compatibility import Reference
from eventide.registry.wire import UnknownId

_JSON = "application/vnd.schemaregistry.v1+json"
_PASSING = frozenset({429, 502, 503, 504})


def _trusted(verify: bool | str) -> ssl.SSLContext:
    """Whose certificates are taken: those of the file that is given, or else of `SSL_CERT_FILE` or `SSL_CERT_DIR`, or the public ones."""
    try:
        if isinstance(verify, str):
            return ssl.create_default_context(cafile=verify)
        # Of the environment this is all that is read: `trust_env` on the client itself would take proxies and passwords from it as well.
        return httpx.create_ssl_context(verify=verify, trust_env=True)
    except OSError as error:
        named = verify if isinstance(verify, str) else os.environ.get("SSL_CERT_FILE")
        raise DefinitionError(
            f"no certificates can be read from {named!r} ({error}). Name a PEM file, as SSL_CERT_FILE or verify=…: nobody else "
            "vouches for the registry."
        ) from error


def _hint(trouble: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        return "No authority known here vouches for its certificate: name the file of the one that does in SSL_CERT_FILE."
    return "Is it running, and is this its URL?"


class RegistryRefused(EventideError):
    """The registry's answer was no; `code` is its error code, the message its reason."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.status = status
        self.code = code
        self.reason = message


class RegistryUnavailable(EventideError):
    """The registry did not answer, or not sensibly; the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    metadata: dict[str, Any] | None = None


class RegistryClient:
    """A registry at a URL. Schemas are fetched by id once and then remembered; safe to share among threads."""

    def __init__(
        self,
        url: str,
        *,
        auth: tuple[str, str] | None = None,
        token: str | None = None,
        name: str = "eventide",
        timeout: float = 10.0,
        tries: int = 4,
        verify: bool | str = True,
        context: str = "",
    ) -> None:
        headers = {"Accept": _JSON, "User-Agent": name}
        address = _address(url)
        if token is not None:
            headers["Authorization"] = f"Bearer {_carried(token)}"
        self._secrets = [secret for secret in (token, auth and auth[1], address.password) if secret]
        self.name = name
        self._context = context
        self._tries = tries
        trusted = _trusted(verify) if address.scheme == "https" else True
        self._http = httpx.Client(
            base_url=address, headers=headers, auth=auth, timeout=timeout, verify=trusted, trust_env=False
        )
        self._by_id: dict[int, RegisteredSchema] = {}
        self._decoded: dict[int, int] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Any request, for what has no method of its own.

        Raises:
            RegistryRefused: the registry said no.
            RegistryUnavailable: it could not be asked, after several tries.
        """
        wanted = {k: v for k, v in query.items() if v is not None}
        headers = {"Content-Type": _JSON} if body is not None else {}
        trouble = "no try was made"
        for attempt in range(self._tries):
            if attempt:
                time.sleep(0.1 * 2**attempt)
            try:
                answer = self._http.request(method, path, json=body, params=wanted, headers=headers)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code in _PASSING:
                trouble = f"HTTP {answer.status_code}"
                continue
            return _read(answer, self._secrets)
        said = f"{method} {self._http.base_url}{path}: {trouble}, asked {self._tries} times. {_hint(trouble)}"
        raise RegistryUnavailable(masked(said, self._secrets))

    def register(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        *,
        references: Iterable[Reference] = (),
        metadata: dict[str, Any] | None = None,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Register a schema under a subject; the same one again gives the same id."""
        body = _body(text, kind, references, metadata)
        answer = self.call("POST", f"/subjects/{_segment(subject)}/versions", body, normalize=str(normalize).lower())
        return _schema({"subject": subject, "schema": text, "schemaType": kind, **answer})

    def look_up(self, subject: str, text: str, kind: str = "AVRO", *, normalize: bool = False) -> RegisteredSchema:
        """The version under which a subject has a schema."""
        body = _body(text, kind, (), None)
        return _schema(self.call("POST", f"/subjects/{_segment(subject)}", body, normalize=str(normalize).lower()))

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema behind an id.

        Raises:
            UnknownId: there is none.
        """
        with self._lock:
            known = self._by_id.get(schema_id)
        if known is not None:
            return known
        try:
            answer = self.call("GET", f"/schemas/ids/{schema_id}", subject=self._context or None)
        except RegistryRefused as refusal:
            if refusal.code == 40403:
                raise UnknownId(schema_id, refusal.reason) from None
            raise
        found = _schema({"id": schema_id, **answer})
        with self._lock:
            self._by_id[schema_id] = found
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject."""
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """One version of a subject."""
        return _schema(self.call("GET", f"/subjects/{_segment(subject)}/versions/{version}"))

    def subjects(self, prefix: str | None = None) -> list[str]:
        """The subjects, in order."""
        found: list[str] = self.call("GET", "/subjects", subjectPrefix=prefix)
        return found

    def texts(self, schema: RegisteredSchema) -> dict[str, str]:
        """The texts that a schema refers to, by name, with what those refer to in turn."""
        found: dict[str, str] = {}
        waiting = list(schema.references)
        while waiting:
            reference = waiting.pop()
            if reference.name not in found:
                target = self.version(reference.subject, reference.version)
                found[reference.name] = target.text
                waiting += target.references
        return found

    def incompatibilities(self, subject: str, text: str, kind: str = "AVRO") -> list[dict[str, Any]]:
        """Why a schema could not be registered: where, who reads whom, what to do. Only this registry answers it."""
        path = f"/eventide/v1/compatibility/subjects/{_segment(subject)}/versions"
        reasons: list[dict[str, Any]] = self.call("POST", path, _body(text, kind, (), None))["reasons"]
        return reasons

    def note_decoded(self, schema_id: int, count: int = 1) -> None:
        """Remember that records were decoded with an id, for the next `report_usage`."""
        with self._lock:
            self._decoded[schema_id] = self._decoded.get(schema_id, 0) + count

    def report_usage(self, environment: str = "") -> int:
        """Tell the registry which ids this client has decoded since the last report; says how many."""
        with self._lock:
            decoded, self._decoded = self._decoded, {}
        if not decoded:
            return 0
        entries = [{"id": schema_id, "count": count} for schema_id, count in decoded.items()]
        body = {"client": self.name, "environment": environment, "decoded": entries}
        try:
            self.call("POST", "/eventide/v1/usage", body)
        except EventideError:
            for schema_id, count in decoded.items():
                self.note_decoded(schema_id, count)
            raise
        return len(entries)


def _segment(subject: str) -> str:
    return quote(subject, safe="")


def _body(text: str, kind: str, references: Iterable[Reference], metadata: dict[str, Any] | None) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text, "schemaType": kind}
    listed = [{"name": r.name, "subject": r.subject, "version": r.version} for r in references]
    if listed:
        body["references"] = listed
    if metadata is not None:
        body["metadata"] = metadata
    return body


def _address(url: str) -> httpx.URL:
    """A URL, if it can be that of a registry."""
    try:
        found = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise DefinitionError(f"{url!r} is no address of a schema registry: {error}. Write http://HOST:8081.") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise DefinitionError(f"{url!r} is no address of a schema registry. Write http://HOST:8081 or https://HOST.")
    return found


def _carried(token: str) -> str:
    """A token that a header can carry; what else it holds is told by its place, for the token itself is a secret."""
    for place, character in enumerate(token, 1):
        if not " " < character < "\x7f":
            raise DefinitionError(
                f"the token for the registry holds, as character {place} of {len(token)}, one that no header can carry. Was a blank or the end of a "
                "line copied with it?"
            )
    if not token:
        raise DefinitionError("the token for the registry is empty. Leave it out where none is asked for.")
    return token


def _read(answer: httpx.Response, secrets: Iterable[str]) -> Any:
    try:
        body = answer.json()
    except ValueError:
        said = f"HTTP {answer.status_code} with a body that is no JSON: {answer.text[:200]!r}"
        raise RegistryUnavailable(masked(said, secrets)) from None
    if answer.is_success:
        return body
    if not isinstance(body, dict):
        body = {}
    code, message = body.get("error_code"), masked(str(body.get("message", answer.reason_phrase)), secrets)
    code = code if isinstance(code, int) else answer.status_code
    if answer.status_code >= 500:
        raise RegistryUnavailable(f"{message} (error {code})")
    raise RegistryRefused(answer.status_code, code, message)


def _schema(body: dict[str, Any]) -> RegisteredSchema:
    try:
        return RegisteredSchema(
            id=body["id"],
            kind=body.get("schemaType", "AVRO"),
            text=body["schema"],
            references=tuple(Reference(r["name"], r["subject"], r["version"]) for r in body.get("references", ())),
            subject=body.get("subject"),
            version=body.get("version"),
            guid=body.get("guid"),
            metadata=body.get("metadata"),
        )
    except (KeyError, TypeError, AttributeError):
        raise RegistryUnavailable(f"the answer {repr(body)[:200]} is no schema. Is this the URL of a registry?") from None
