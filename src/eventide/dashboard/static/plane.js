// The plane: when a row happened against when it arrived. Cells count events, the staircase is W, marks are results and late rows.
import { el, zoned, instant, clock, span, number, harmless } from "./words.js";
import { colour } from "./charts.js";
import { explainWindow } from "./timeline.js";
import { tell } from "./panels.js";

const NEAR = 12;
let at = null;

export function drawPlane(place, facts, nth) {
  const canvas = el("canvas", { class: "plane", tabindex: "0", role: "img", "aria-describedby": "hover",
    "aria-label": "Event time upwards, processing time to the right. Arrow keys move, Enter explains." });
  const hover = el("p", { id: "hover", class: "said", "aria-live": "polite" }, "Point at a place, or move with the arrow keys; click or Enter explains it.");
  const keys = [["▦ ", "events", "c-blue"], ["╱ ", "event time = processing time", "c-orange"], ["▙ ", "watermark W", "c-green"], ["▲ ", "first result of a window", "c-purple"],
    ["◆ ", "correction", "c-red"], ["✕ ", "late row that was kept", "c-red"]].map(([sign, words, c]) => el("span", { class: `key ${c}`, "data-sign": sign }, words));
  place.replaceChildren(el("p", {}, keys), canvas, hover, el("p", { class: "said" }, facts.plane.said + (facts.plane.outside ? `; ${number(facts.plane.outside)} of them lie far above or below` : "")));
  const view = new View(canvas, facts);
  view.draw();
  const read = () => { if (at) { hover.textContent = view.words(at); view.draw(at); } };
  const explain = () => { if (at) tell("This place on the plane", view.explanation(at, nth)); };
  const pointed = (event) => { const box = canvas.getBoundingClientRect(); at = [event.clientX - box.left, event.clientY - box.top]; read(); };
  canvas.addEventListener("pointermove", pointed);
  canvas.addEventListener("click", (event) => { pointed(event); explain(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[event.key];
    if (event.key === "Enter" && at) { event.preventDefault(); explain(); }
    if (!step) return;
    event.preventDefault();
    at = at || [canvas.clientWidth / 2, canvas.clientHeight / 2];
    at = [Math.min(Math.max(at[0] + step[0], view.left), view.width - 8), Math.min(Math.max(at[1] + step[1], 8), view.height - view.bottom)];
    read();
  });
}

class View {
  constructor(canvas, facts) {
    Object.assign(this, { canvas, facts, left: 66, bottom: 26, width: canvas.clientWidth || 600, height: canvas.clientHeight || 400 });
    const { plane, past } = facts, marks = past.watermark.filter((mark) => mark !== null);
    const x = plane.x || [past.clock[0] ?? 0, past.clock.at(-1) ?? 1];
    const inside = past.watermark.filter((mark, i) => mark !== null && past.clock[i] >= x[0] && past.clock[i] <= x[1]);
    const y = plane.y ? [...plane.y, ...inside] : [...(marks.length ? marks : x), ...x];
    this.x = [x[0], Math.max(x[1], ...plane.late.map((dot) => dot[0]).filter((t) => t <= x[1] + 6e7), x[0] + 1e6)];
    this.y = [Math.min(...y), Math.max(...y, y[0] + 1e6)];
    this.marks = facts.timeline.flatMap((one, output) => one.windows.filter((window) => window.panes).flatMap((window) => [
      ...(window.first ? [{ t: window.first, window, output, sign: "▲", ink: "purple" }] : []),
      ...(window.corrected_at || []).map((t) => ({ t, window, output, sign: "◆", ink: "red" }))]));
    this.most = Math.max(1, ...(plane.cells || []).map((cell) => cell[2]));
  }
  px(t) { return this.left + ((t - this.x[0]) / (this.x[1] - this.x[0])) * (this.width - this.left - 10); }
  py(t) { return this.height - this.bottom - ((t - this.y[0]) / (this.y[1] - this.y[0])) * (this.height - this.bottom - 10); }
  times([px, py]) {
    return [this.x[0] + ((px - this.left) / (this.width - this.left - 10)) * (this.x[1] - this.x[0]),
      this.y[0] + ((this.height - this.bottom - py) / (this.height - this.bottom - 10)) * (this.y[1] - this.y[0])].map(Math.round);
  }
  draw(cross) {
    const ratio = devicePixelRatio || 1, { canvas, width, height, left, bottom } = this;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    this.axes(ctx);
    ctx.save();
    ctx.beginPath(); ctx.rect(left, 10, width - left - 10, height - bottom - 10); ctx.clip();
    this.cells(ctx);
    this.path(ctx, [[this.x[0], this.x[0]], [this.x[1], this.x[1]]], "orange", [6, 4]);
    const { clock: clocks, watermark } = this.facts.past;
    const stairs = clocks.flatMap((t, i) => (watermark[i] === null ? [] : i && watermark[i - 1] !== null ? [[t, watermark[i - 1]], [t, watermark[i]]] : [[t, watermark[i]]]));
    this.path(ctx, stairs, "green", [], 2);
    ctx.font = "11px system-ui"; ctx.textAlign = "center"; ctx.textBaseline = "middle";
    for (const mark of this.marks) { ctx.fillStyle = colour(mark.ink); ctx.fillText(mark.sign, this.px(mark.t), this.py(mark.window.end)); }
    ctx.fillStyle = colour("red");
    for (const [t, happened] of this.facts.plane.late) ctx.fillText("✕", this.px(t), this.py(happened));
    if (cross) this.path(ctx, null, "dim", [2, 3], 1, cross);
    ctx.restore();
  }
  axes(ctx) {
    const { width, height, left, bottom } = this, across = width < 500 ? 3 : 6;
    ctx.clearRect(0, 0, width, height);
    ctx.font = "11px system-ui"; ctx.fillStyle = colour("dim"); ctx.strokeStyle = colour("soft");
    const long = this.x[1] - this.x[0] > 86400e6, say = (t) => (long ? instant(t).slice(5, 16) : clock(t));
    for (let i = 0; i <= across; i++) {
      const t = this.x[0] + (i / across) * (this.x[1] - this.x[0]), px = this.px(t);
      ctx.beginPath(); ctx.moveTo(px, 10); ctx.lineTo(px, height - bottom); ctx.stroke();
      ctx.textAlign = i === across ? "right" : i ? "center" : "left";
      ctx.fillText(say(t), px, height - 8);
    }
    ctx.textAlign = "right";
    for (let i = 0; i <= 5; i++) {
      const t = this.y[0] + (i / 5) * (this.y[1] - this.y[0]), py = this.py(t);
      ctx.beginPath(); ctx.moveTo(left, py); ctx.lineTo(width - 10, py); ctx.stroke();
      ctx.fillText(say(t), left - 5, Math.max(py + 4, 12));
    }
  }
  cells(ctx) {
    const { plane } = this.facts;
    if (!plane.cells) return;
    const dx = (plane.x[1] - plane.x[0]) / plane.across, dy = (plane.y[1] - plane.y[0]) / plane.up;
    ctx.fillStyle = colour("blue");
    for (const [i, j, count] of plane.cells) {
      const x = this.px(plane.x[0] + i * dx), y = this.py(plane.y[0] + (j + 1) * dy);
      ctx.globalAlpha = 0.18 + 0.72 * (Math.log1p(count) / Math.log1p(this.most));
      ctx.fillRect(x, y, Math.max(1.5, this.px(plane.x[0] + (i + 1) * dx) - x), Math.max(1.5, this.py(plane.y[0] + j * dy) - y));
    }
    ctx.globalAlpha = 1;
  }
  path(ctx, points, ink, dash, thick = 1.5, cross) {
    ctx.strokeStyle = colour(ink); ctx.lineWidth = thick; ctx.setLineDash(dash);
    ctx.beginPath();
    if (cross) { ctx.moveTo(cross[0], 0); ctx.lineTo(cross[0], this.height); ctx.moveTo(0, cross[1]); ctx.lineTo(this.width, cross[1]); }
    else points.forEach(([t, e], i) => (i ? ctx.lineTo(this.px(t), this.py(e)) : ctx.moveTo(this.px(t), this.py(e))));
    ctx.stroke(); ctx.setLineDash([]);
  }
  near([px, py]) {
    const far = (t, e) => Math.hypot(this.px(t) - px, this.py(e) - py);
    const marks = this.marks.map((mark) => [far(mark.t, mark.window.end), { mark }]);
    const late = this.facts.plane.late.map((dot) => [far(dot[0], dot[1]), { dot }]);
    const best = [...marks, ...late].sort((a, b) => a[0] - b[0])[0];
    return best && best[0] <= NEAR ? best[1] : {};
  }
  watermarkAt(t) {
    const { clock: clocks, watermark } = this.facts.past;
    let found = null;
    for (let i = 0; i < clocks.length && clocks[i] <= t; i++) found = watermark[i];
    return found;
  }
  count(t, e) {
    const { plane } = this.facts;
    if (!plane.cells) return null;
    const i = Math.floor(((t - plane.x[0]) / (plane.x[1] - plane.x[0])) * plane.across), j = Math.floor(((e - plane.y[0]) / (plane.y[1] - plane.y[0])) * plane.up);
    return plane.cells.find((cell) => cell[0] === i && cell[1] === j)?.[2] ?? 0;
  }
  words(place) {
    const { mark, dot } = this.near(place);
    if (mark) return `${mark.sign === "▲" ? "First result" : "Correction"} of window ${clock(mark.window.start)} to ${clock(mark.window.end)} of ${harmless(this.facts.timeline[mark.output].output, 40)}, ${span(mark.t - mark.window.end)} after its end.`;
    if (dot) return `A late row: happened ${zoned(dot[1])}, arrived ${zoned(dot[0])}` + (dot[2] === null ? "." : `, when W stood at ${clock(dot[2])}, ${span(dot[2] - dot[1])} ahead of it.`);
    const [t, e] = this.times(place), mark0 = this.watermarkAt(t), events = this.count(t, e);
    const behind = mark0 === null ? "" : e > mark0 ? ` W stood ${span(e - mark0)} behind that.` : ` W had passed that ${span(mark0 - e)} before: late where its window had ended.`;
    return `Arrived ${zoned(t)}, happened ${clock(e)}, ${span(t - e)} earlier${events === null ? "" : `; about ${number(events)} events here`}.${behind}`;
  }
  explanation(place, nth) {
    const { mark, dot } = this.near(place), [t, e] = dot ? dot : mark ? [mark.t, mark.window.end - 1] : this.times(place);
    const own = this.facts.timeline.flatMap((one, output) => one.windows.filter((window) => window.start <= e && e < window.end).map((window) => [window, output]));
    const list = own.map(([window, output]) => el("li", {}, el("button", { type: "button", onclick: () => explainWindow(this.facts, nth, output, window) },
      `${harmless(this.facts.timeline[output].output, 40)}: ${clock(window.start)} to ${clock(window.end)}`), ` ${window.status}, ${number(window.panes)} results, ${number(window.corrected)} corrections`));
    return [el("p", {}, this.words(place)), el("h3", {}, "Windows that hold this event time"), list.length ? el("ul", {}, list) : el("p", { class: "dim" }, "None of those on this page.")];
  }
}
