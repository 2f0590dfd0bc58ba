"""The page over HTTP: its parts, what it asks for, news as they come, and metrics. Nothing that a browser sends becomes a path or a statement."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from eventide.dashboard.door import Door
from eventide.dashboard.metrics import exposition
from eventide.dashboard.schemas import Schemas
from eventide.dashboard.watched import Place, Watched
from eventide.served import MEDIA

ASSETS = {
    "board.css": "text/css", "uPlot.min.css": "text/css", "uPlot.iife.min.js": "text/javascript",
    **dict.fromkeys(("words.js", "charts.js", "plane.js", "timeline.js", "panels.js", "board.js"), "text/javascript"),
    "icon.svg": "image/svg+xml",
}  # fmt: skip
LOOK_EVERY = 1.0
"""Seconds between two looks at a state."""
NEWS_EVERY, QUIET = 0.25, 15.0
FIRST_LOOK = 30.0


@dataclass
class Board:
    """Everything that one page shows."""

    places: list[Place]
    schemas: Schemas | None = None
    reports: dict[str, Any] = field(default_factory=dict)
    """What `eventide tune --json` and `eventide reconcile --json` have written, as it is."""

    def __post_init__(self) -> None:
        self.watched = [Watched(place) for place in self.places]
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to look, each state in a thread of its own: one that does not answer holds up no other."""
        for one in self.watched:
            threading.Thread(target=self._watch, args=(one,), name=f"look at {one.place.name}", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def _watch(self, one: Watched) -> None:
        while not self._over.is_set():
            one.look()
            self._over.wait(LOOK_EVERY)

    @property
    def is_over(self) -> bool:
        """Whether nobody looks any more."""
        return self._over.is_set()


def application(board: Board, token: str | None = None) -> Starlette:
    """The page of a board."""
    routes = [
        Route("/", _page),
        Route("/assets/{name}", _asset),
        Route("/api/board", _Asked(board).board),
        Route("/api/pipelines/{nth:int}", _Asked(board).pipeline),
        Route("/api/pipelines/{nth:int}/windows/{output:int}/{start}/{end}", _Asked(board).window),
        Route("/api/schemas", _Asked(board).subjects),
        Route("/api/schemas/{nth:int}", _Asked(board).change),
        Route("/api/migrations/{nth:int}", _Asked(board).migration),
        Route("/events", _Asked(board).events),
        Route("/metrics", _Asked(board).metrics),
        Route("/healthz", _healthy),
        Route("/readyz", _Asked(board).ready),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Door, token=token), Middleware(GZipMiddleware, minimum_size=2_000)])


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _page(request: Request) -> Response:
    return Response(_static("index.html"), media_type="text/html")


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    return Response(_static(name), media_type=ASSETS[name]) if name in ASSETS else PlainTextResponse("no such file", 404)


def _static(name: str) -> bytes:
    return (files("eventide.dashboard") / "static" / name).read_bytes()


class _Asked:
    """Answers to what the page asks for."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def board(self, request: Request) -> Response:
        names = [{"pipeline": one.place.name, "version": one.version, "fault": one.fault} for one in self._board.watched]
        return JSONResponse({"pipelines": names, "registry": self._board.schemas is not None, "reports": self._board.reports})

    async def pipeline(self, request: Request) -> Response:
        one = self._watched(request)
        if one is None:
            return _nothing()
        await run_in_threadpool(one.looked.wait, FIRST_LOOK)
        return JSONResponse({"version": one.version, "fault": one.fault, "facts": one.facts})

    async def window(self, request: Request) -> Response:
        one = self._watched(request)
        start, end, nth = (
            _whole(request.path_params["start"]),
            _whole(request.path_params["end"]),
            request.path_params["output"],
        )
        outputs = [] if one is None else one.facts.get("timeline", [])
        if one is None or start is None or end is None or nth >= len(outputs):
            return _nothing()
        return JSONResponse(await run_in_threadpool(one.timeline.panes, outputs[nth]["output"], start, end))

    async def subjects(self, request: Request) -> Response:
        schemas = self._board.schemas
        return _nothing() if schemas is None else JSONResponse(await run_in_threadpool(schemas.overview))

    async def change(self, request: Request) -> Response:
        schemas = self._board.schemas
        found = None if schemas is None else await run_in_threadpool(schemas.change, request.path_params["nth"])
        return _nothing() if found is None else JSONResponse(found)

    async def migration(self, request: Request) -> Response:
        schemas = self._board.schemas
        found = None if schemas is None else await run_in_threadpool(schemas.migration, request.path_params["nth"])
        return _nothing() if found is None else JSONResponse(found)

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._news(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _news(self) -> AsyncIterator[str]:
        """The version of each pipeline, whenever one has changed."""
        said: list[int] = []
        quiet = 0.0
        yield "retry: 1000\n\n"
        while not self._board.is_over:
            now = [one.version for one in self._board.watched]
            if now != said:
                yield f"data: {json.dumps(now)}\n\n"
                said, quiet = now, 0.0
            elif quiet >= QUIET:
                yield ": here\n\n"
                quiet = 0.0
            await asyncio.sleep(NEWS_EVERY)
            quiet += NEWS_EVERY

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(exposition([one.facts for one in self._board.watched if one.facts]), media_type=MEDIA)

    async def ready(self, request: Request) -> Response:
        waiting = sum(not one.facts or one.fault is not None for one in self._board.watched)
        if waiting:
            return PlainTextResponse(f"{waiting} of {len(self._board.watched)} states cannot be shown now\n", 503)
        return PlainTextResponse("ok\n")

    def _watched(self, request: Request) -> Watched | None:
        nth = request.path_params["nth"]
        return self._board.watched[nth] if nth < len(self._board.watched) else None


def _nothing() -> Response:
    return JSONResponse({"fault": "there is nothing of that number"}, 404)


def _whole(text: str) -> int | None:
    """A whole number of at most 19 digits, with its sign."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


__all__ = ["Board", "application"]
