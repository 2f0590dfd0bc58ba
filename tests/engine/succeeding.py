"""What sinks hold while one generation takes the place of another, by the rules of the semantics and in plain tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from told import Table, standing

from eventide.model.event import end_of
from eventide.model.reference import Reference
from eventide.model.window import Window
from eventide.state.ledger import Ledger

Place = tuple[int, int, str | None]


@dataclass
class Account:
    """One output: what older generations left, and what the present one says."""

    older: Table = field(default_factory=dict)
    shown: Window | None = None
    """The windows of what older generations left."""
    waits: bool = False
    """Another shape stands there, and nothing is shown until the present one has caught up."""
    settled: bool = False
    perhaps: set[Place] = field(default_factory=set)
    """Older results that may be gone or not: a row that came late made the span of the present generation longer after it had caught up."""
    spoken: set[Place] = field(default_factory=set)
    said: Table = field(default_factory=dict)
    """What it would have said had it been there from the start."""
    joined: int | None = None
    """W when the output joined: of windows that had closed by then it said nothing."""
    filled: int = -(2**63)
    """Up to where a backfill has said it for it."""

    @property
    def own(self) -> Table:
        return {p: v for p, v in self.said.items() if self.joined is None or p[1] > self.joined or p[1] <= self.filled}

    def expected(self, found: Table) -> Table:
        if self.waits and (self.older or found != self.own):  # where nothing stands there is nothing to wait for
            return self.older
        left = {p: v for p, v in self.older.items() if p not in self.spoken and (p not in self.perhaps or p in found)}
        return {**left, **self.own}

    def withdraw(self, low: int, high: int, sure: bool) -> None:
        inside = {p for p in self.older if p not in self.spoken and p[0] >= low and p[1] <= high}
        if sure:
            self.older = {p: v for p, v in self.older.items() if p not in inside}
        else:
            self.perhaps |= inside


@dataclass
class Books:
    """All outputs of a pipeline."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def close(self, stood: dict[str, Table], was: Window, now: Window) -> None:
        """A generation ends and another begins, with windows of its own: what stands in the sinks is all that is left of the old ones."""
        shown: dict[str, Window | None] = dict.fromkeys(stood, was)
        for name, account in self.accounts.items():
            if account.waits and (account.older or not stood.get(name)):
                shown[name] = account.shown
        self.accounts = {name: Account(table, shown[name], waits=shown[name] != now) for name, table in stood.items()}

    def committed(self, reference: Reference, ledger: Ledger, began: int) -> None:
        """After each batch: what the present generation says; and what it takes the place of, once it has caught up."""
        caught_up = ledger.swept is not None and ledger.swept >= end_of(began)
        for output in reference.plan.outputs:
            account = self.accounts.setdefault(output.name, Account())
            account.joined, account.said = ledger.joined_at.get(output.name), standing(reference, output.name)
            account.spoken = {(*p.window, p.key) for p in reference.panes if p.output == output.name}  # type: ignore[misc]
            mark = reference.watermark
            if not caught_up:
                continue
            if account.waits:
                account.older, account.waits, account.settled = {}, False, True
            elif account.spoken and mark is not None and output.name not in ledger.joined_at:
                low = min(p[0] for p in account.spoken)
                account.withdraw(low, mark, sure=not account.settled)
                account.settled = account.settled or not any(p[0] >= low for p in account.older)

    def backfilled(self, mark: int | None, allowed: dict[str, int]) -> None:
        """Of final windows a backfill from the archive says what the live run said; what older generations hold among them is withdrawn."""
        for name, account in self.accounts.items():
            if mark is not None and name in allowed:
                final = account.filled = mark - allowed[name]
                spoken = [p for p in account.spoken if p[1] <= final]
                if spoken:
                    account.withdraw(min(p[0] for p in spoken), final, sure=name != "told")
                    account.perhaps |= {p for p in account.older if name == "told"}

    @property
    def waiting(self) -> bool:
        return any(account.waits for account in self.accounts.values())

    def agree(self, name: str, found: Table) -> bool:
        """Whether a table holds what it should."""
        return found == self.accounts.get(name, Account()).expected(found)
