// Lines over time by uPlot, in the page's own colours; a chart is made anew when the page's width, zone or colours change.
import { settings, harmless, instant, clock } from "./words.js";

const COLOURS = ["blue", "orange", "green", "purple", "red", "sky"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const drawn = new Map();

// series: [{label, values, width?}]; x in microseconds; show turns a value into text.
export function lines(place, key, x, series, show, more = {}) {
  drawn.get(key)?.destroy();
  const room = Math.max(220, place.clientWidth || 600);
  const axis = { stroke: colour("dim"), grid: { stroke: colour("soft"), width: 1 }, ticks: { stroke: colour("line") }, font: "11px system-ui" };
  const told = series.map((one, nth) => ({
    label: harmless(one.label, 60), stroke: colour(one.colour || COLOURS[nth % COLOURS.length]), width: one.width || 1.6,
    dash: one.dash || DASHES[Math.floor(nth / COLOURS.length) % DASHES.length], spanGaps: true, points: { show: x.length < 3 },
    value: (_, value) => (value === null || value === undefined ? "–" : show(value)), paths: more.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
  }));
  const time = more.time !== false, long = x.at(-1) - x[0] > 86400e6;
  const times = (_, ticks) => ticks.map((tick) => (long ? instant(tick * 1e6).slice(5, 16) : clock(tick * 1e6)));
  const options = {
    width: room, height: more.height || 220, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), settings.zone),
    scales: { x: { time }, y: { range: more.range || ((_, low, high) => [Math.min(0, low), high > 0 ? high * 1.06 : 1]) } },
    axes: [{ ...axis, values: more.across || times, space: long ? 95 : 75, size: 30 }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : show(tick))) }],
    series: [{ label: more.x || "clock", value: (_, v) => (v === null ? "–" : time ? instant(v * 1e6) : more.say(v)) }, ...told],
    legend: { live: room > 460 }, cursor: { drag: { x: true, y: false } }, hooks: more.draw ? { draw: [more.draw] } : {},
  };
  const made = new uPlot(options, [time ? x.map((us) => us / 1e6) : x, ...series.map((one) => one.values)], place);
  drawn.set(key, made);
  return made;
}

// A mark upright at one place of x, with its words.
export function upright(at, words, ink, nth) {
  return (chart) => {
    const x = chart.valToPos(at, "x", true), { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour(ink);
    ctx.setLineDash([5, 4]);
    ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    ctx.font = `${12 * devicePixelRatio}px system-ui`;
    const right = x + ctx.measureText(words).width + 12 < bbox.left + bbox.width;
    ctx.textAlign = right ? "left" : "right";
    ctx.fillText(words, x + (right ? 6 : -6), bbox.top + bbox.height - (10 + 15 * nth) * devicePixelRatio);
    ctx.restore();
  };
}
