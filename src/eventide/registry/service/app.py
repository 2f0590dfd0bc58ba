"""The application: from an ASGI request to a route's work in the right thread, and back."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from eventide.registry import faults, reading
from eventide.registry.catalog import DEFAULT_LEVEL, Catalog
from eventide.registry.faults import Fault
from eventide.registry.governance.policy import REQUIRE_OWNER
from eventide.registry.names import GLOBAL_CONTEXT, Name, is_valid, normal
from eventide.registry.parsing import Parsing
from eventide.registry.service import bodies, contexts, governance, metrics, schemas, server_facts, settings, subjects
from eventide.registry.service.access import require, require_somewhere
from eventide.registry.service.audit import note
from eventide.registry.service.auth import NOBODY, NOBODY_AT_ALL, Accounts, Principal, Role
from eventide.registry.service.door import Door
from eventide.registry.service.extension import Extension
from eventide.registry.service.http import (
    NO_CONTENT,
    Answer,
    RawAnswer,
    Request,
    answer_type,
    encode,
    refuse_content_type,
    split_path,
    split_query,
)
from eventide.registry.service.id_answers import IdAnswers
from eventide.registry.service.routes import Before, Kind, Route, Routes
from eventide.registry.store import End, Question, Session, Store, StoreUnavailable, Writer

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = logging.getLogger(__name__)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_FROM_MEMORY = "/schemas/ids/{id}"
_NOTHING = {"type": "http.response.body", "body": b""}
_REFUSALS_WORTH_KEEPING = frozenset({40901, 42251, 42252})


@dataclass(frozen=True, slots=True)
class Options:
    """What a service may be told: who is let in, how large a body may be, how long things may take."""

    accounts: Accounts | None = None
    body_limit: int = 2 * 1024 * 1024
    body_seconds: float = 30.0
    wait_seconds: float = 30.0
    readers: int = 4
    require_owner: bool | None = None
    default_level: str = DEFAULT_LEVEL
    extensions: tuple[Extension, ...] = ()


class Application:
    """The registry as an ASGI application on one store."""

    def __init__(self, store: Store, options: Options = Options()) -> None:
        self._store = store
        self._options = options
        self._parsing = Parsing()
        self._answers = IdAnswers(store)
        self._readers = ThreadPoolExecutor(options.readers, thread_name_prefix="registry-reader")
        self._writer = Writer(store, wait_seconds=options.wait_seconds, after_commit=self._answers.move_to)
        self._door = Door(options.accounts) if options.accounts is not None else None
        self._routes = Routes()
        self._metrics = metrics.Metrics()
        self._routes.include(self._metrics.routes)
        for table in (server_facts, contexts, subjects, schemas, settings, governance):
            self._routes.include(table.routes)
        self._guards = tuple(guard for extension in options.extensions for guard in extension.guards)
        self._refusals_worth_keeping = _REFUSALS_WORTH_KEEPING.union(
            *(extension.refusals_worth_keeping for extension in options.extensions)
        )
        for extension in options.extensions:
            self._routes.include(extension.routes)
        with store.write() as session:
            if session.fact("identity") is None:
                session.put_fact("identity", uuid.uuid4().hex)
            if options.require_owner is not None:
                session.put_fact(REQUIRE_OWNER, "true" if options.require_owner else "false")
            for extension in options.extensions:
                extension.prepare(session)

    @property
    def surface(self) -> list[tuple[str, str]]:
        """Every method and path that this service answers."""
        return self._routes.surface

    def close(self) -> None:
        """Finish what was begun, then let go of the store."""
        self._writer.close()
        self._readers.shutdown(wait=True)
        if self._door is not None:
            self._door.close()
        self._store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        raw_path, raw_query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
        began = time.perf_counter()
        if scope["method"] == "GET" and raw_path.startswith(b"/schemas/ids/") and await self._sent(scope, send):
            self._metrics.note("GET", _FROM_MEMORY, 200, time.perf_counter() - began)
            return
        request: Request | None = None
        content_type: bytes | None = answer_type(None)
        sight, revision = NOBODY.sight, -1
        try:
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
            content_type = answer_type(headers.get("accept") if raw_path != metrics.PATH else None)
            request = Request(scope["method"], split_path(raw_path), split_query(raw_query), headers, _origin(scope, headers))
            answer, revision = await self._answer(request, receive)
            sight = request.principal.sight
        except Fault as fault:
            answer = Answer({"error_code": fault.code, "message": fault.message}, fault.status)
            answer.headers = _extra_headers(fault)
            untyped = fault.code == 405 or (fault.code == 404 and not raw_path.startswith(b"/schemas/"))
            answer.typed = not untyped
        except StoreUnavailable as error:
            log.error("the store is not available: %s", error)
            down = faults.store_down(str(error))
            answer = Answer({"error_code": down.code, "message": down.message}, down.status)
        except Exception:
            log.exception("%s %s failed", scope["method"], raw_path)
            answer = Answer({"error_code": 500, "message": "Internal Server Error"}, 500)
        messages = _messages(answer, content_type if answer.typed else None, head=scope["method"] == "HEAD")
        usual = scope["method"] == "GET" and content_type == answer_type(None)
        if usual and revision >= 0 and answer.status == 200 and raw_path.startswith(b"/schemas/ids/"):
            self._answers.put((sight.prefixes, raw_path, raw_query), messages, revision)
        await send(messages[0])
        await send(messages[1])
        method, route = (scope["method"] if scope["method"] in _METHODS else "other"), request.route if request else "other"
        took, refused = time.perf_counter() - began, answer.status >= 400 and not isinstance(answer, RawAnswer)
        self._metrics.note(method, route, answer.status, took, answer.body["error_code"] if refused else None)

    async def _sent(self, scope: Scope, send: Send) -> bool:
        """Answer by id from memory, if it can be: the same request was answered before and nothing has changed."""
        try:
            if self._answers.is_due:
                await asyncio.get_running_loop().run_in_executor(self._readers, self._answers.ask)
            principal: Principal | None = NOBODY
            if self._options.accounts is not None:
                given = next((v for k, v in scope["headers"] if k == b"authorization"), b"").decode("latin-1")
                principal = self._options.accounts.recognise(given)
            if principal is None:
                return False
            messages = self._answers.get((principal.sight.prefixes, scope["raw_path"], scope["query_string"]))
        except StoreUnavailable:
            return False  # the long way round will say so properly
        if messages is None:
            return False
        for name, value in scope["headers"]:
            if name == b"accept" and b"*/*" not in value and b"vnd.schemaregistry.v1+json" not in value:
                return False
        await send(messages[0])
        await send(messages[1])
        return True

    async def _answer(self, request: Request, receive: Receive) -> tuple[Answer, int]:
        loop = asyncio.get_running_loop()
        contexts.move_into_path(request)
        route, request.named = self._routes.match(request.method, request.segments)
        request.params, request.route = request.named, "/" + "/".join(route.path)
        request.principal = await self._principal(request) if route.role is not None else NOBODY_AT_ALL
        if request.method in ("POST", "PUT"):
            refuse_content_type(request.headers.get("content-type"))
            request.body = bodies.parse(await self._body(request, receive))
        if route.kind is Kind.READ:
            return await loop.run_in_executor(self._readers, self._read, route, request)
        questions: frozenset[Question] = frozenset()
        if route.before is not None:
            early, questions = await loop.run_in_executor(self._readers, self._before, route.before, route, request)
            if early is not None:
                return early, -1
        try:
            future = self._writer.submit(lambda session: self._perform(route, session, request), questions)
            return await asyncio.wrap_future(future), -1
        except Fault as fault:
            refusal = fault
            if fault.code in self._refusals_worth_keeping:
                kept = self._writer.submit(lambda session: self._note_refusal(route, session, request, refusal))
                await asyncio.wrap_future(kept)
            raise

    def _read(self, route: Route, request: Request) -> tuple[Answer, int]:
        with self._store.read() as session:
            revision = int(session.fact("revision") or 0)
            answer = self._perform(route, session, request)
        # The highest id changes with every registration, the revision only when an answer by id may have.
        return answer, -1 if request.flag("fetchMaxId") else revision

    def _before(self, before: Before, route: Route, request: Request) -> tuple[Answer | None, frozenset[Question]]:
        """An early answer, or none and what the writer will have to ask: the same again, and where the subject ends."""
        with self._store.read() as session:
            catalog = self._catalog(session, request)
            self._prepare(route, catalog, request)
            return before(catalog, request), session.lookups.asked | {End(request.params["subject"])}

    def _perform(self, route: Route, session: Session, request: Request) -> Answer:
        catalog = self._catalog(session, request)
        self._prepare(route, catalog, request)
        return route.work(catalog, request)

    def _prepare(self, route: Route, catalog: Catalog, request: Request) -> None:
        """Give the subject its one spelling, follow its alias, and see that the principal may do this with it."""
        if route.role is None:
            return
        if "{subject}" not in route.path:
            if route.role is Role.ADMIN:
                require(request, Role.ADMIN, "")
            else:
                require_somewhere(request, route.role)
            return
        subject = normal(request.named["subject"])  # asked before and again by the writer: an alias is followed once
        if not is_valid(subject, for_settings=True):
            raise faults.invalid_subject(subject)
        if "subjects" in route.path:
            subject = reading.aliased(catalog, subject)
        elif Name.parse(subject).is_default_context:
            subject = ""
        request.params = {**request.named, "subject": subject}
        permanent = request.flag("permanent") and request.method == "DELETE"
        # What is set for the global context counts for the whole registry, so a prefix such as `:.` is not enough.
        governed = "" if Name.parse(subject).context == GLOBAL_CONTEXT and request.method != "GET" else subject
        require(request, Role.ADMIN if permanent else route.role, governed)

    def _note_refusal(self, route: Route, session: Session, request: Request, fault: Fault) -> None:
        catalog = self._catalog(session, request)
        subject = request.params.get("subject", "")
        detail = {"error_code": fault.code, "message": fault.message[:4000]}
        note(catalog, request, route.audited or "", subject, detail, outcome="refused")

    def _catalog(self, session: Session, request: Request) -> Catalog:
        now, sight = time.time_ns() // 1_000_000, request.principal.sight
        return Catalog(session, self._parsing, now, self._guards, sight, self._options.default_level)

    async def _principal(self, request: Request) -> Principal:
        if self._options.accounts is None:
            return NOBODY
        header = request.headers.get("authorization", "")
        principal = await self._door.admit(header, request.origin.split(" ", 1)[0]) if self._door and header else None
        if principal is None:
            raise Fault(401, 401, "Unauthorized")
        return principal

    async def _body(self, request: Request, receive: Receive) -> bytes:
        limit = self._options.body_limit
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._options.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Fault(400, 400, "The client went away before its request was complete")
                    chunk = cast(bytes, message.get("body", b""))
                    size += len(chunk)
                    if size > limit:
                        raise _too_large(limit)
                    chunks.append(chunk)
                    if not message.get("more_body"):
                        return b"".join(chunks)
        except TimeoutError:
            raise faults.plain(408, "Request Timeout") from None

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await asyncio.get_running_loop().run_in_executor(None, self.close)
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return


def _too_large(limit: int) -> Fault:
    return Fault(413, 413, f"The request is larger than the {limit} bytes that this registry accepts")


def _extra_headers(fault: Fault) -> list[tuple[bytes, bytes]]:
    if fault.status == 401:
        return [(b"www-authenticate", b'Basic realm="eventide-registry"')]
    if fault.status == 429:
        return [(b"retry-after", b"1")]
    return [(b"connection", b"close")] if fault.status in (408, 413) else []


def _origin(scope: Scope, headers: dict[str, str]) -> str:
    address = (scope.get("client") or ("unknown", 0))[0]
    agent = headers.get("user-agent", "")[:200]
    return f"{address} {agent}".rstrip()


def _messages(answer: Answer, content_type: bytes | None, *, head: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    body = encode(answer)
    if answer.body is NO_CONTENT:
        return {"type": "http.response.start", "status": answer.status, "headers": []}, _NOTHING
    headers = [(b"content-length", str(len(body)).encode()), *answer.headers]
    if content_type is not None:
        headers.insert(0, (b"content-type", answer.media or content_type))
    start = {"type": "http.response.start", "status": answer.status, "headers": headers}
    return start, {"type": "http.response.body", "body": b"" if head else body}
