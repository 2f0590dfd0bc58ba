// Windows one under the other; a click says what was said of one, key by key.
import { el, name, instant, clock, span, number, zoned, rows, harmless } from "./words.js";
import { tell } from "./panels.js";

const SHOWN = 40;
const NS = "http://www.w3.org/2000/svg";
let chosen = 0;

export function drawTimeline(place, facts, nth) {
  const outputs = facts.timeline;
  if (!outputs.length) return place.replaceChildren(el("p", { class: "dim" }, "No output is known yet."));
  chosen = Math.min(chosen, outputs.length - 1);
  const pick = el("select", { "aria-label": "Output", onchange: (event) => { chosen = +event.target.value; drawTimeline(place, facts, nth); } },
    outputs.map((one, i) => el("option", { value: i, selected: i === chosen }, harmless(one.output, 60))));
  const one = outputs[chosen], newest = one.windows.slice(-SHOWN).reverse();
  const status = { open: 0, retained: 0, closed: 0 };
  for (const window of one.windows) status[window.status] += 1;
  const said = `${harmless(one.reads, 120)}; allowed lateness ${span(one.allowed)}. Of the ${number(one.windows.length)} latest windows ${status.open} are open, ${status.retained} have given a result and take late rows still, ${status.closed} are closed.`;
  const gone = one.gone ? ` ${number(one.gone)} files of results are gone.` : "";
  const notes = el("p", { class: "said" }, said + gone);
  const keys = el("p", {}, [["▬ ", "the window", "c-sky"], ["▮ ", "first result", "c-green"], ["▮ ", "correction", "c-red"], ["│ ", "end and allowed lateness, in event time", ""]].map(([sign, words, c]) => el("span", { class: `key ${c}`, "data-sign": sign }, words)));
  if (one.pairs) return place.replaceChildren(el("p", {}, pick), el("p", { class: "dim" }, "This output gives pairs of a join, which have no windows."));
  if (!newest.length) return place.replaceChildren(el("p", {}, pick), notes, el("p", { class: "dim" }, "No window is open, and none has spoken among the newest batches."));
  const low = Math.min(...newest.map((window) => window.start)), high = Math.max(facts.clock, ...newest.map((window) => Math.max(window.end, window.last || 0)));
  const lines = newest.map((window) => [
    el("button", { type: "button", class: "window", onclick: () => explainWindow(facts, nth, chosen, window) }, window.start === window.end ? `session to ${clock(window.end)}` : `${clock(window.start)} – ${clock(window.end)}`),
    el("span", { class: `badge ${window.status}` }, window.status), bars(window, low, high, one.allowed),
    window.first ? span(window.first - window.end) : "–", number(window.keys), number(window.corrected), number(window.withdrawn)]);
  const table = rows(["window", "", "processing time", "first result after", "keys", "corrected", "withdrawn"], lines, [3, 4, 5, 6]);
  const more = one.windows.length > SHOWN ? el("p", { class: "said" }, `${one.windows.length - SHOWN} older ones are not listed.`) : null;
  place.replaceChildren(el("p", {}, pick, " ", notes), keys, table, ...(more ? [more] : []));
}

function bars(window, low, high, allowed) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("class", "bars"); svg.setAttribute("viewBox", "0 0 1000 16"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
  const x = (t) => (1000 * (t - low)) / Math.max(1, high - low);
  const add = (kind, facts) => { const made = document.createElementNS(NS, kind); for (const [key, value] of Object.entries(facts)) made.setAttribute(key, value); svg.append(made); };
  add("rect", { class: "base", x: 0, y: 7, width: 1000, height: 2 });
  add("rect", { class: "span", x: x(window.start), y: 3, width: Math.max(3, x(window.end) - x(window.start)), height: 10 });
  if (window.first) add("rect", { class: "first", x: x(window.first) - 2, y: 0, width: 5, height: 16 });
  for (const t of window.corrected_at || []) add("rect", { class: "again", x: x(t) - 2, y: 2, width: 4, height: 12 });
  if (window.status === "closed" && window.end + allowed <= high) add("line", { class: "close", x1: x(window.end + allowed), x2: x(window.end + allowed), y1: 0, y2: 16 });
  return svg;
}

const WHY = {
  open: "W has not reached its end yet, so rows for it are on time.",
  retained: "W has passed its end, so it has given its result; a late row still corrects it, as long as W has not passed its end by the allowed lateness.",
  closed: "W has passed its end by more than the allowed lateness, or the end of the input was declared: nothing changes it any more.",
};

export async function explainWindow(facts, nth, output, window) {
  const one = facts.timeline[output];
  const head = [el("p", {}, "Of output ", name(one.output), `, from ${zoned(window.start)} to ${zoned(window.end)}.`), el("p", {}, el("span", { class: `badge ${window.status}` }, window.status), " ", WHY[window.status])];
  if (window.status === "open" && facts.holder) head.push(el("p", {}, "It waits for lane ", name(`${facts.holder.source}/${facts.holder.lane}`), facts.watermark === null ? "." : `: W lacks ${span(window.end - facts.watermark)}.`));
  if (window.first) head.push(el("p", {}, `Its first result came ${span(window.first - window.end)} after its end by the clock; since then ${number(window.corrected)} corrections and ${number(window.withdrawn)} withdrawals.`));
  const answer = await fetch(`/api/pipelines/${nth}/windows/${output}/${window.start}/${window.end}`);
  const { panes = [], all = 0 } = answer.ok ? await answer.json() : {};
  const pairs = (facts) => Object.entries(facts).map(([key, value]) => el("div", {}, name(key, 40), " = ", value === null ? "null" : name(value, 120)));
  const lines = panes.map((pane) => [pairs(pane.key), number(pane.sequence), pane.op, pane.timing, instant(pane.emitted_at), pairs(pane.values)]);
  tell("What was said of this window", [...head, lines.length ? rows(["key", "rank", "what", "when", "emitted", "values"], lines, [1]) : el("p", { class: "dim" }, "Nothing was said of it yet."),
    all > panes.length ? el("p", { class: "said" }, `${number(all - panes.length)} more are in the state's panes.`) : null]);
}
