"""Events on their way to a server, in a thread of their own: a server that is slow or gone holds no batch back."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from eventide.log import note
from eventide.redaction import masked

WAITING = 1_000
"""Events that wait at most; one that comes then is given up, and told."""
TRIES = 3
PATIENCE = 10.0
"""Seconds for one try, and for what still waits when a run ends."""
AGAIN = (408, 425, 429)
"""Refusals that may pass; so may every answer from 500 on."""
Event = Mapping[str, object]


class Post:
    """Sends events in order, each until it is taken or was tried three times; what is given up is logged and counted."""

    def __init__(self, url: str, headers: Mapping[str, str], pause: float = 1.0) -> None:
        self.url, self.headers, self.pause = url, {"content-type": "application/json", **headers}, pause
        self.given_up = 0
        self._door = urllib.request.build_opener(_Here)
        self._waiting: queue.Queue[Event] = queue.Queue(WAITING)
        threading.Thread(target=self._work, name="lineage", daemon=True).start()

    def send(self, event: Event) -> None:
        """Put an event on its way."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._give_up(event, f"{WAITING} events wait before it")

    def flush(self, seconds: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> bool:
        """Wait until everything is sent or given up, at most so long; says whether it is."""
        until = clock() + seconds
        with self._waiting.all_tasks_done:
            while self._waiting.unfinished_tasks:
                left = until - clock()
                if left <= 0:
                    note(
                        __name__,
                        "events are still unsent",
                        logging.WARNING,
                        events=self._waiting.unfinished_tasks,
                        url=self.url,
                    )
                    return False
                self._waiting.all_tasks_done.wait(left)
        return True

    def _work(self) -> None:
        while True:
            event = self._waiting.get()
            try:
                self._deliver(event)
            except Exception as error:  # one event that cannot be sent must not keep those behind it
                self._give_up(event, f"{type(error).__name__}: {error}")
            finally:
                self._waiting.task_done()

    def _deliver(self, event: Event) -> None:
        body = json.dumps(event).encode()
        for left in range(TRIES - 1, -1, -1):
            request = urllib.request.Request(self.url, body, self.headers, method="POST")  # noqa: S310 (http and https only)
            try:
                with self._door.open(request, timeout=PATIENCE):
                    return
            except urllib.error.HTTPError as error:
                if not left or (error.code < 500 and error.code not in AGAIN):
                    raise
            except OSError:
                if not left:
                    raise
            time.sleep(self.pause)

    def _give_up(self, event: Event, why: str) -> None:
        self.given_up += 1
        note(
            __name__, "a lineage event was not taken", logging.WARNING, event=event.get("eventType"), url=self.url, why=masked(why)
        )  # fmt: skip


class _Here(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the key is for this server only."""

    def redirect_request(self, *asked: object) -> None:
        return None


__all__ = ["Post"]
