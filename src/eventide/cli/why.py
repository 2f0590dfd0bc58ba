"""`eventide why FILE ROW|WINDOW`: where a row went and why, and what would have kept it; or what was said of a window. Read only, without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from eventide.cli.faults import Refused, retrying
from eventide.cli.kept import as_plain
from eventide.cli.loading import load
from eventide.cli.tables import screen
from eventide.model.time import show_duration, show_instant
from eventide.readable.harmless import harmless

if TYPE_CHECKING:
    from eventide.engine.why import Asking

MOST = 10
"""Rows that a value may name."""
VERDICTS = {"on_time": "on time", "admitted": "late, admitted", "refused": "refused"}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("what", metavar="ROW|WINDOW")
@click.option("--output", help="The output that a window is of, where there are several; of a row, only its fate there.")
@click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
def why(file: str, what: str, output: str | None, as_json: bool) -> None:
    """Say why a row of the pipeline in FILE was taken or refused, or why a window says what it says, by its archive and its state.

    ROW is source/lane/offset, as late rows and dead letters name it, or column=value. WINDOW is a window_id as it stands in a table.

    Exit code 0: every output took it. 1: an output refused it, or it is a dead letter. 2: it cannot be answered, with what would be needed.
    """
    with retrying():
        pipeline = load(file)
        from eventide.engine.why import Asking

        names = [one.name for one in pipeline.outputs]
        if output is not None and output not in names:
            raise Refused(
                f"pipeline {pipeline.name!r} has no output {harmless(output)!r}. It has {', '.join(map(harmless, names))}."
            )
        click.echo("reading the archive …", err=True)
        answers = _answers(Asking.open(pipeline), what, output)
    if as_json:
        click.echo(json.dumps(answers, indent=2, default=as_plain))
    else:
        for answer in answers:
            _show(screen(), answer)
    if any(_is_finding(answer) for answer in answers):
        raise click.exceptions.Exit(1)


def _answers(asking: Asking, what: str, output: str | None) -> list[dict[str, Any]]:
    from eventide.engine.answers import of_row, of_window

    if _is_window(what):
        if output is None and len(asking.pipeline.outputs) > 1:
            raise Refused(
                f"a window is of one output: say --output, one of {', '.join(one.name for one in asking.pipeline.outputs)}."
            )
        return [of_window(asking, asking.pipeline.output(output), what)]
    column, sign, value = what.partition("=")
    if sign and column in asking.archive.users:
        found = asking.holding(column, value, MOST)
        if not found:
            raise Refused(f"no archived row has {harmless(what)!r}.")
        if len(found) > MOST:
            raise Refused(f"more than {MOST} archived rows have {harmless(what)!r}: name one by its place, source/lane/offset.")
    else:
        found = [asking.at(what)]
    answers = [of_row(asking, position) for position in found]
    for answer in answers:
        answer["outputs"] = [one for one in answer["outputs"] if output in (None, one["output"])]
    return answers


def _is_window(what: str) -> bool:
    """Whether it is a window_id: bounds and a key, or the places of a pair.

    >>> _is_window('0:60000000:{"bank": "a"}'), _is_window("payments/lucknow/7"), _is_window("note=0:1:x")
    (True, False, False)
    """
    start, _, rest = what.partition(":")
    return (start.lstrip("-").isdigit() and rest.partition(":")[0].lstrip("-").isdigit()) or what.startswith("[")


def _is_finding(answer: dict[str, Any]) -> bool:
    refused = any(one.get("verdict") == "refused" for one in answer.get("outputs", []))
    return refused or answer.get("fate") == "dead letter" or bool(answer.get("refused"))


def _show(console: Console, answer: dict[str, Any]) -> None:
    def say(text: str = "", style: str = "") -> None:
        console.print(text, markup=False, soft_wrap=True, style=style)

    say()
    for line in _of_window(answer) if "window_id" in answer else _of_row(answer):
        say(line, "bold" if not line.startswith(" ") else "")
    for note in answer["notes"]:
        say(f"  note: {harmless(note, 400)}", "yellow")
    say()


def _of_row(answer: dict[str, Any]) -> list[str]:
    row = answer["row"]
    lines = [
        f"{_place(row)}   {answer['fate']}{': ' + harmless(answer['why'], 200) if answer['why'] else ''}",
        f"  happened   {show_instant(row['event_time'])}" if row["event_time"] is not None else "  happened   nobody knows",
        f"  arrived    {show_instant(row['arrival'])}, in batch {row['batch']}",
    ]
    if "duplicate_of" in answer:
        lines.append(
            f"  equals     {_place(answer['duplicate_of'])}, which arrived {show_instant(answer['duplicate_of']['arrival'])}"
        )
    if "watermark" in answer:
        lines += [f"  W          {show_instant(answer['watermark'])}{_moved(answer['moved_by'])}", *_lanes(answer)]
    for one in answer["outputs"]:
        lines += ["", *_of_output(one)]
    return lines


def _moved(by: dict[str, Any] | None) -> str:
    if by is None:
        return ""
    if "silence" in by:
        return f", since {', '.join(map(harmless, by['lanes'][:3]))} fell idle at {show_instant(by['silence'])}"
    return f", moved there by {_place(by)}, which happened {show_instant(by['event_time'])}"


def _lanes(answer: dict[str, Any]) -> list[str]:
    held = answer["holder"]
    own = answer["lane"]
    lines = [
        f"  its lane   stood at {show_instant(own['watermark'])}{', idle: W had gone on without it' if own['idle'] else ''}"
    ]
    return lines + ([f"  held by    {harmless(held)}"] if held is not None else [])


def _of_output(one: dict[str, Any]) -> list[str]:
    lines = [f"  {harmless(one['output'])}: {VERDICTS[one['verdict']]}{_how_late(one)}"]
    for window in one["windows"]:
        if one["by"] == "its windows":
            lines.append(
                f"    {show_instant(window['start'])} to {show_instant(window['end'])}   {VERDICTS[window['verdict']]}"
            )
    if one["kept"] is not None:
        lines.append(f"    it was {'kept: eventide late' if one['kept'] else 'counted and dropped: divert(…) keeps such rows'}")
    if one["would_have_kept_it"] is not None:
        lines.append(f"    would have let it in: {_remedies(one)}")
    lines += _panes(one["panes"])
    return lines


def _how_late(one: dict[str, Any]) -> str:
    return (
        "" if one["late_by"] is None else f", {show_duration(one['late_by'])} after the end of its first window; {one['cause']}"
    )


def _remedies(one: dict[str, Any]) -> str:
    remedy = one["would_have_kept_it"]
    said = [f"an allowed lateness of {show_duration(remedy['allowed'])} (it is {show_duration(one['allowed'])})"]
    said += [f"a bound of {show_duration(remedy['bound'])}"] if remedy["bound"] is not None else []
    said += [f"an idle_after of {show_duration(remedy['idle_after'])}"] if remedy["idle_after"] is not None else []
    return "; or ".join(said)


def _panes(panes: list[dict[str, Any]]) -> list[str]:
    lines = []
    for pane in panes[:MOST]:
        values = ", ".join(f"{harmless(name)}={harmless(str(value))}" for name, value in pane["values"].items())
        lines.append(
            f"    said at {show_instant(pane.get('emitted_at'))}: {pane['op']} {pane.get('sequence', '')} {pane['timing']}: {values}"
        )
    return lines + ([f"    and {len(panes) - MOST:,} more"] if len(panes) > MOST else [])


def _of_window(answer: dict[str, Any]) -> list[str]:
    lines = [
        f"{harmless(answer['output'])} {harmless(answer['window_id'], 100)}   {answer['state']}",
        f"  {show_instant(answer['start'])} to {show_instant(answer['end'])}, allows {show_duration(answer['allowed'])}",
        f"  W          {show_instant(answer['watermark'])}"
        + (f", held by {harmless(answer['holder'])}" if answer["holder"] else ""),
    ]
    if answer["rows"] is not None:
        lines.append("  rows       " + ", ".join(f"{number:,} {VERDICTS[name]}" for name, number in answer["rows"].items()))
        lines += [f"    refused {_place(row)}, which happened {show_instant(row['event_time'])}" for row in answer["refused"]]
    elif answer["why"]:
        lines.append(f"  {answer['why']}")
    return [*lines, *_panes(answer["panes"])]


def _place(row: dict[str, Any]) -> str:
    return f"{harmless(row['source'])}/{harmless(row['lane'])}/{row['offset']}"
