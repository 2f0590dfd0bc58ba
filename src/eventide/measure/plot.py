"""The curve as a picture: SVG written by hand, alone or inside a page; no plotting library is needed."""

from __future__ import annotations

from html import escape

from eventide.measure.curve import Curve
from eventide.measure.tuning import Tuning
from eventide.model.time import show_duration

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 48, 56
COLOURS = ("#0b6e99", "#c2571a", "#4c7a34", "#7b4b94", "#a3333d", "#6b6b6b")
MOST_LANES = 5


def svg(tuning: Tuning) -> str:
    """Completeness over the bound, in total and for the lanes that lose most, with the recommended bound marked."""
    longest = max((bound for bound, _ in tuning.curve.points()), default=0) or tuning.curve.resolution
    low = min(tuning.curve.completeness(0), 0.99)
    frame = _Frame(longest, max(0.0, low - 0.02))
    parts = [_axes(frame), _line(frame, tuning.curve, COLOURS[0], 2.5)]
    legend = [("all lanes", COLOURS[0])]
    reports = tuning.lanes()
    for index, report in enumerate(reports[:MOST_LANES] if len(reports) > 1 else []):
        colour = COLOURS[(index + 1) % len(COLOURS)]
        parts.append(_line(frame, report.curve, colour, 1.2))
        legend.append((f"{tuning.names[report.lane[0]]} {report.lane[1]}", colour))
    parts.append(_mark(frame, tuning))
    parts += [_legend(legend)]
    title = f"What waiting buys: {tuning.answer.question.window}, {tuning.curve.rows:,} rows"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="26" font-size="16">{escape(title)}</text>'
        + "".join(parts)
        + "</svg>"
    )


def html(tuning: Tuning) -> str:
    """The picture in a page, with the lines to paste below it."""
    lines = escape("\n".join(tuning.lines()))
    return f'<!doctype html><meta charset="utf-8"><title>eventide tune</title>{svg(tuning)}<pre>{lines}</pre>'


class _Frame:
    def __init__(self, longest: int, low: float) -> None:
        self.longest, self.low = longest, low

    def x(self, bound: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, bound / self.longest)

    def y(self, share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - max(0.0, share - self.low) / (1 - self.low))


def _axes(frame: _Frame) -> str:
    floor = HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT},{TOP}V{floor}H{WIDTH - RIGHT}" fill="none" stroke="#888"/>']
    for nth in range(5):
        share = frame.low + (1 - frame.low) * nth / 4
        bound = frame.longest * nth // 4
        parts.append(f'<text x="{LEFT - 6}" y="{frame.y(share) + 4:.1f}" text-anchor="end">{share:.1%}</text>')
        parts.append(f'<path d="M{LEFT},{frame.y(share):.1f}H{WIDTH - RIGHT}" stroke="#eee"/>')
        parts.append(f'<text x="{frame.x(bound):.1f}" y="{floor + 18}" text-anchor="middle">{_short(bound)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">the watermark stays behind by</text>')
    return "".join(parts)


def _line(frame: _Frame, curve: Curve, colour: str, width: float) -> str:
    rows = curve.rows or 1
    path = "".join(
        f"{'M' if nth == 0 else 'L'}{frame.x(bound):.1f},{frame.y(number / rows):.1f}"
        for nth, (bound, number) in enumerate(curve.points())
    )
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _mark(frame: _Frame, tuning: Tuning) -> str:
    x, text = frame.x(tuning.bound), f"{show_duration(tuning.bound)}: {tuning.curve.completeness(tuning.bound):.2%} on time"
    anchor = "end" if x > WIDTH / 2 else "start"
    return (
        f'<path d="M{x:.1f},{TOP}V{HEIGHT - BOTTOM}" stroke="#333" stroke-dasharray="4 3"/>'
        f'<text x="{x + (-6 if anchor == "end" else 6):.1f}" y="{HEIGHT - BOTTOM - 10}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _legend(items: list[tuple[str, str]]) -> str:
    return "".join(
        f'<text x="{WIDTH - RIGHT - 4}" y="{TOP + 140 + 16 * nth}" text-anchor="end" fill="{colour}">{escape(name)}</text>'
        for nth, (name, colour) in enumerate(items)
    )


def _short(span: int) -> str:
    for name, unit in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)):
        if span >= unit:
            return f"{span / unit:.3g} {name}"
    return f"{span} µs" if span else "0"
