"""What can go wrong, as types; every message gives the value, what is allowed, and what to do next."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventide.redaction import masked


class EventideError(Exception):
    """The base of every error that Eventide raises on purpose; whatever it says, it says without passwords.

    >>> print(EventideError("no answer from postgresql://me:hunter2@db/sales"))
    no answer from postgresql://me:***@db/sales
    """

    def __init__(self, *said: object) -> None:
        super().__init__(*(masked(part) if isinstance(part, str) else part for part in said))


class DefinitionError(EventideError, ValueError):
    """A pipeline, window, policy or source that contradicts itself; raised where it is written."""


class StoreError(EventideError):
    """A file of the state or the archive is missing or cannot be read, or its place does not answer."""


class StoreUnavailable(StoreError):
    """The place of the state or the archive does not do what is asked now; the same may succeed later."""


class SourceError(EventideError):
    """A source cannot be read."""


class SourceUnavailable(SourceError):
    """The far end does not answer now; the same run may succeed later."""


class SourceRefused(SourceError):
    """The far end will never answer: wrong credentials, missing rights, options that contradict each other."""


class SinkError(EventideError):
    """A sink did not take what it was given."""


class SinkUnavailable(SinkError):
    """The far end is down, busy or slow: the same delivery may succeed later, so it is tried again."""


class StagedPartsLost(SinkUnavailable):
    """Parts that executors had brought near the target are gone: nothing was applied, and all must be staged again."""


class SinkRefused(SinkError):
    """The far end will never take this delivery: wrong credentials, missing rights, a value that does not fit."""


class TargetMismatch(SinkRefused):
    """The table, topic or file that is there has another shape than the output; says the difference."""


class OrderWarning(UserWarning):
    """A source that cannot say how far it goes: its rows are judged by batch, so that answers may depend on the cut."""


class LossWarning(UserWarning):
    """A definition that is legal and will lose or mislead; the text names what."""


@contextmanager
def beneath(first: BaseException) -> Iterator[None]:
    """Let go of things after an error: what goes wrong in that stands beneath the error, and not in its place.

    >>> error = SinkRefused("no rights on table sales")
    >>> with beneath(error):
    ...     raise OSError("no answer from the store")
    >>> error.__notes__
    ['After that, letting go failed too: OSError: no answer from the store']
    """
    try:
        yield
    except Exception as second:
        first.add_note(masked(f"After that, letting go failed too: {type(second).__name__}: {second}"))


@contextmanager
def letting_go(close: Callable[[], None]) -> Iterator[None]:
    """Close at the end, whatever the end is; an error that led to it is not hidden by one in closing.

    >>> with letting_go(lambda: print("closed")):
    ...     print("at work")
    at work
    closed
    """
    try:
        yield
    except BaseException as error:
        with beneath(error):
            close()
        raise
    close()
