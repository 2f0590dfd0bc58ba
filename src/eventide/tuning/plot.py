"""The curve as a picture, drawn by matplotlib: SVG, PNG, or a page with the lines to paste."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import Any

from eventide.errors import DefinitionError
from eventide.model.time import show_duration
from eventide.tuning.curve import Curve
from eventide.tuning.recommendation import Tuning

COLOURS = ("#0b6e99", "#c2571a", "#4c7a34", "#7b4b94", "#a3333d", "#6b6b6b")
MOST_LANES = 5
KINDS = (".svg", ".png", ".html")


def check_plot(path: str) -> None:
    """Refuse a picture that could not be drawn, before any history is read.

    >>> check_plot("curve.png")
    >>> check_plot("curve.gif")
    Traceback (most recent call last):
        ...
    eventide.errors.DefinitionError: a curve is drawn as .svg, .png or .html, not into 'curve.gif'.
    """
    if Path(path).suffix not in KINDS:
        raise DefinitionError(f"a curve is drawn as {', '.join(KINDS[:-1])} or {KINDS[-1]}, not into {path!r}.")
    _figure()


def write_plot(tuning: Tuning, path: str) -> None:
    """Draw the curve into a file; its ending says how."""
    suffix = Path(path).suffix
    if suffix == ".html":
        Path(path).write_text(_page(tuning))
    else:
        Path(path).write_bytes(_drawn(tuning, suffix[1:]))


def _page(tuning: Tuning) -> str:
    lines, picture = escape("\n".join(tuning.lines())), _drawn(tuning, "svg").decode()
    return (
        f'<!doctype html><meta charset="utf-8"><title>eventide tune</title>{picture[picture.index("<svg") :]}<pre>{lines}</pre>'
    )


def _drawn(tuning: Tuning, kind: str) -> bytes:
    import matplotlib as mpl

    into = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "eventide", "path.simplify": True}):
        figure = _figure()
        _draw(tuning, figure.subplots())
        figure.savefig(into, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return into.getvalue()


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure  # no window is opened: a figure of one's own needs no display
    except ImportError as error:
        raise DefinitionError("to draw the curve, matplotlib is needed: pip install 'eventide[plot]'.") from error
    return Figure(figsize=(8.4, 4.6), layout="constrained")


def _draw(tuning: Tuning, axes: Any) -> None:
    """Completeness over the bound, in total and for the lanes that lose most, with the recommended bound marked."""
    reports = tuning.lanes()
    for index, report in enumerate(reports[:MOST_LANES] if len(reports) > 1 else []):
        name = f"{tuning.names[report.lane[0]]} {report.lane[1]}"
        _line(axes, report.curve, name, COLOURS[(index + 1) % len(COLOURS)], 1.2)
    _line(axes, tuning.curve, "all lanes", COLOURS[0], 2.5)
    on_time = tuning.curve.completeness(tuning.bound)
    axes.axvline(tuning.bound, color="#333", linestyle="--", linewidth=1)
    axes.annotate(
        f"{show_duration(tuning.bound)}: {on_time:.2%} on time", (tuning.bound, on_time), (8, -24), textcoords="offset points"
    )
    axes.set_title(f"What waiting buys: {tuning.answer.question.window}, {tuning.curve.rows:,} rows".replace("$", r"\$"))
    axes.set_xlabel("the watermark stays behind by")
    axes.xaxis.set_major_formatter(lambda bound, _: _short(int(bound)))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.1%}")
    axes.grid(color="#eee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)


def _line(axes: Any, curve: Curve, name: str, colour: str, width: float) -> None:
    points = list(curve.points())
    shares = [number / (curve.rows or 1) for _, number in points]
    # A name that begins with "_" would be left out of the legend, and "$" would begin a formula.
    label = "\u200b" + name.replace("$", r"\$")
    axes.plot([bound for bound, _ in points], shares, color=colour, linewidth=width, label=label)


def _short(span: int) -> str:
    for name, unit in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)):
        if span >= unit:
            return f"{span / unit:.3g} {name}"
    return f"{span} µs" if span else "0"
