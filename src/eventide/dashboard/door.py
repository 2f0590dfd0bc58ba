"""Who may see the page: only this machine, or whoever has the token; and what the page itself may do in a browser."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventide.served import is_loopback

COOKIE = "eventide_token"
OPEN = ("/healthz", "/readyz")
"""For who looks after processes: they say nothing of the pipelines."""
RULES = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Door:
    """Stands before every answer.

    Without a token only this machine is served, under a name of its own: a page elsewhere that lets its name point here (DNS rebinding) is refused.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def ruled(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in RULES.items())]
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, ruled)
        return None

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["path"] in OPEN:
            return None
        if self._token is None:
            host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
            allowed = is_loopback(host.strip("[]")) and (scope.get("client") is None or is_loopback(scope["client"][0]))
            return (
                None if allowed else PlainTextResponse("This page is for this machine only: open it as http://127.0.0.1.", 403)
            )
        if any(self._fits(given) for given in _given(headers)):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and any(self._fits(given) for given in asked):
            return self._let_in(scope)
        return PlainTextResponse("This page needs the token that was shown where it was started: /?token=…", 401)

    def _let_in(self, scope: Scope) -> Response:
        """The token goes into a cookie, and out of the address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, str(self._token), httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return answer

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), str(self._token).encode())


def _given(headers: Headers) -> list[str]:
    found: list[str] = []
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(secret.strip())
    try:
        cookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return found
    return [*found, cookie[COOKIE].value] if COOKIE in cookie else found


__all__ = ["Door"]
