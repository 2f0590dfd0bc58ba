"""The door: credentials that were not seen before are checked one at a time, and everybody gets a turn."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor

from eventide.registry.faults import Fault
from eventide.registry.service.auth import Accounts, Principal, credentials

_WAITING = 1_000
_WAITING_FROM_ONE = 200
_REPEATED_SECONDS = 1.0
Visitor = tuple[str, "asyncio.Future[Principal | None]"]


class Door:
    """Lets accounts in without letting a flood of wrong passwords stop the service.

    A password is slow to check on purpose, so checks are kept off the threads that answer: one at a time, and after a wrong
    one the door rests for as long as the check took. Addresses take turns, and at one address the accounts do, so a
    flood waits for itself. Nobody is locked out: the owner of an account that is being guessed waits for a turn like the others,
    and whoever was let in once is recognised without one. Credentials that were wrong before are not checked again.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="registry-door")
        self._queues: OrderedDict[str, OrderedDict[str, deque[Visitor]]] = OrderedDict()
        self._waiting = 0
        self._at_work: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Let the check that has begun come to its end."""
        self._checking.shutdown(wait=True)

    async def admit(self, header: str, address: str) -> Principal | None:
        """Whoever these credentials belong to, or nobody.

        Raises:
            Fault: 429, because too many are waiting already.
        """
        known = self._accounts.recognise(header)
        if known is not None:
            return known
        if self._accounts.was_refused(header):
            await asyncio.sleep(_REPEATED_SECONDS)
            return None
        here = sum(map(len, self._queues.get(address, {}).values()))
        if self._waiting >= _WAITING or here >= _WAITING_FROM_ONE:
            raise Fault(429, 429, "Too many are waiting to be let in; try again in a second")
        future: asyncio.Future[Principal | None] = asyncio.get_running_loop().create_future()
        queues = self._queues.setdefault(address, OrderedDict())
        queues.setdefault(credentials(header)[0], deque()).append((header, future))
        self._waiting += 1
        if self._at_work is None or self._at_work.done():
            self._at_work = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            header, future = self._next()
            if future.cancelled():
                continue
            began = time.monotonic()
            try:
                principal = await loop.run_in_executor(self._checking, self._accounts.admit, header)
            except Exception as error:
                if not future.cancelled():
                    future.set_exception(error)
                continue
            if not future.cancelled():
                future.set_result(principal)
            if principal is None:
                await asyncio.sleep(time.monotonic() - began)

    def _next(self) -> Visitor:
        """The next visitor: of the address, and there of the account, that has waited longest for a turn."""
        address, queues = self._queues.popitem(last=False)
        name, queue = queues.popitem(last=False)
        visitor = queue.popleft()
        self._waiting -= 1
        if queue:
            queues[name] = queue
        if queues:
            self._queues[address] = queues
        return visitor
