// The page: asks for what there is, draws it, and again whenever the server has news.
import { settings, el, name, clock, span, share, zones, harmless, number } from "./words.js";
import { drawPlane } from "./plane.js";
import { drawTimeline } from "./timeline.js";
import { drawMark, drawLate, drawComplete, drawBatch, drawSchemas, drawGaps } from "./panels.js";

const $ = (id) => document.getElementById(id);
const body = (id) => $(id).querySelector(".body");
const store = { get: (key) => { try { return localStorage.getItem(key); } catch { return null; } }, set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* kept for this visit only */ } } };
const seen = new Map();
let board = { pipelines: [], reports: {}, registry: false }, chosen = 0, busy = false, again = false;

const json = async (path) => { const answer = await fetch(path); if (!answer.ok && answer.status !== 404) throw new Error(`${path}: ${answer.status}`); return answer.json(); };

async function load() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      board = await json("/api/board");
      await Promise.all(board.pipelines.map(async (one, nth) => { if (seen.get(nth)?.version !== one.version || !one.version) seen.set(nth, await json(`/api/pipelines/${nth}`)); }));
      draw();
    } while (again);
  } finally { busy = false; }
}

function card(one, nth) {
  const { facts = {}, fault } = seen.get(nth) || {}, told = [];
  if (fault) told.push(el("span", { class: "fault" }, harmless(fault, 160)));
  if (facts.pipeline) {
    const verdicts = Object.values(facts.outputs)[0] || {}, late = (verdicts.rows_admitted || 0) + (verdicts.rows_refused || 0);
    told.push(el("span", {}, `${facts.finished ? "finished" : facts.running?.alive ? "running" : "stopped"}, batch ${number(facts.batch)} at ${clock(facts.clock)}`),
      el("span", {}, `W ${clock(facts.watermark)}, lag ${span(facts.lag)}, late ${share(late, late + (verdicts.rows_on_time || 0))}`),
      el("span", {}, facts.holder ? ["held by ", name(`${facts.holder.source}/${facts.holder.lane}`, 40)] : "nobody holds W"));
  }
  return el("button", { type: "button", "aria-current": String(nth === chosen), onclick: () => { chosen = nth; draw(); } }, el("b", {}, name(one.pipeline, 60)), told);
}

function draw() {
  const focused = document.activeElement?.closest("nav button") ? chosen : null;
  $("pipelines").replaceChildren(...board.pipelines.map(card));
  if (focused !== null) $("pipelines").children[focused]?.focus();
  const { facts, fault } = seen.get(chosen) || {};
  document.title = facts?.pipeline ? `${harmless(facts.pipeline, 40)} · Eventide` : "Eventide";
  const place = body("mark");
  if (!facts?.pipeline) { place.replaceChildren(el("p", { class: "fault" }, harmless(fault || "Nothing was seen of it yet.", 600))); return; }
  place.querySelector(".fault")?.remove();
  if (fault) place.prepend(el("p", { class: "fault" }, harmless(`What follows is older: ${fault}`, 600)));
  drawMark(place, facts);
  drawPlane(body("plane"), facts, chosen);
  drawLate(body("late"), facts);
  drawTimeline(body("windows"), facts, chosen);
  drawComplete(body("complete"), board.reports.tuned, facts.watermarks);
  drawBatch(body("batch"), facts);
  drawGaps(body("gaps"), board.reports.reconciled);
  document.body.dataset.drawn = String(+(document.body.dataset.drawn || 0) + 1);
  document.body.dataset.batch = facts.batch;
}

function listen() {
  const news = new EventSource("/events"), live = $("live");
  const say = (state, words) => { live.dataset.live = state; live.textContent = words; };
  news.onopen = () => say("live", "live");
  news.onerror = () => say("lost", "not connected; trying again");
  news.onmessage = () => load().catch((error) => say("lost", harmless(error.message, 80)));
}

function settle() {
  const zone = $("zone"), theme = $("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = store.get("zone");
  zone.append(...zones().map((each) => el("option", { value: each }, each)));
  if (kept && zones().includes(kept)) settings.zone = zone.value = kept;
  zone.onchange = () => { settings.zone = zone.value; store.set("zone", zone.value); draw(); };
  theme.value = store.get("theme") || "";
  const paint = () => { document.documentElement.dataset.theme = theme.value || (dark.matches ? "dark" : "light"); };
  theme.onchange = () => { store.set("theme", theme.value); paint(); draw(); };
  dark.onchange = () => { paint(); draw(); };
  paint();
  let width = innerWidth, waiting;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; clearTimeout(waiting); waiting = setTimeout(draw, 150); } });
}

settle();
listen();
await load().catch((error) => { $("live").textContent = harmless(error.message, 80); });
await drawSchemas(body("schemas"), board.registry).catch(() => {});
