// The panels that are words, tables and lines.
import { el, name, number, share, span, size, instant, zoned, rows, harmless, clock } from "./words.js";
import { lines, upright } from "./charts.js";

export function tell(title, children) {
  const dialog = document.getElementById("told");
  dialog.querySelector("h2").textContent = title;
  dialog.querySelector(".body").replaceChildren(...children.filter(Boolean));
  if (!dialog.open) dialog.showModal();
}

const figure = (value, words, kind) => el("div", {}, el("b", { class: `big ${kind || ""}` }, value), el("span", {}, words));
const aside = (words) => el("p", { class: "said" }, words);
const since = (us, upto) => (us === null || us === undefined ? "" : `, since ${instant(us)} (${span(upto - us)})`);

export function drawMark(place, facts) {
  const { past, holder } = facts, waiting = Object.entries(facts.waiting).filter(([, count]) => count);
  const figures = el("div", { class: "figures" }, figure(facts.finished ? "finished" : clock(facts.watermark), facts.watermark === null ? "W" : `W, ${instant(facts.watermark).slice(0, 10)}`),
    figure(span(facts.lag), "lag at the newest batch"), figure(number(facts.batch), `batch, ${clock(facts.clock)}`), figure(number(past.regressions.at(-1) ?? 0), "regressions"));
  const held = facts.finished ? el("p", {}, "The end of the input was declared: every window is closed.")
    : holder === null ? el("p", {}, "Nobody holds W: no lane counts.")
    : el("p", {}, "Held by ", name(`${holder.source}/${holder.lane}`), since(holder.since, facts.clock), holder.why ? ["; ", name(holder.why, 200)] : "", ". Windows that wait for it: ", waiting.length ? waiting.map(([output, count]) => `${number(count)} of ${harmless(output, 40)}`).join(", ") : "none", ".");
  const chart = el("div", {});
  const table = rows(["source", "watermark", "lag", "held by", "lanes", "idle"], facts.sources.map((one) => [name(one.source), instant(one.watermark), span(one.lag), one.holder ? name(one.holder.lane, 40) : "–", number(one.lanes), number(one.idle)]), [2, 4, 5]);
  const slow = facts.lanes.slice(0, 12).map((one) => [name(`${one.source}/${one.lane}`, 60), one.watermark === null ? "not heard" : instant(one.watermark), one.watermark === null ? "–" : span(facts.clock - one.watermark), instant(one.last_arrival), one.idle ? el("span", { class: "badge" }, "idle") : ""]);
  const fault = place.querySelector(".fault");
  place.replaceChildren(...(fault ? [fault] : []), figures, held, chart, table, el("h3", {}, `The slowest of ${number(facts.lanes_in_all)} lanes`), rows(["lane", "watermark", "lag", "last heard", ""], slow, [2]));
  const lag = (marks) => marks.map((mark, i) => (mark === null ? null : Math.max(0, past.clock[i] - mark)));
  const told = [...Object.entries(past.sources), ...Object.entries(past.lanes)].slice(0, 7).map(([label, marks], nth) => ({ label, values: lag(marks), width: nth ? 1.4 : 2.4 }));
  const worst = { label: "W, at its longest", values: past.lag, colour: "dim", width: 1, dash: [3, 3] };
  if (past.clock.length) { chart.before(el("h3", {}, "How far behind the clock")); lines(chart, "lag", past.clock, [...told, worst], span, { stepped: true }); chart.after(aside(`Told batch by batch from ${zoned(past.complete_since)}; drag to look closer, a double click goes back.`)); }
  else chart.append(aside("This state has no trace of its batches yet: the next batch begins it."));
}

export function drawLate(place, facts) {
  const { past, outputs } = facts, made = [];
  const table = rows(["output", "on time", "admitted late", "refused", "of all", "behind its lane", "lane was idle"], Object.entries(outputs).map(([output, counts]) => {
    const of = (counter) => counts[counter] || 0, all = of("rows_on_time") + of("rows_admitted") + of("rows_refused");
    return [name(output, 40), number(of("rows_on_time")), number(of("rows_admitted")), number(of("rows_refused")), share(of("rows_admitted") + of("rows_refused"), all), number(of("rows_late_behind_lane")), number(of("rows_late_without_lane"))];
  }), [1, 2, 3, 4, 5, 6]);
  const chart = el("div", {}), dead = Object.entries(facts.dead).sort((a, b) => b[1] - a[1]), total = facts.rows.dead || 0;
  place.replaceChildren(table, chart, el("h3", {}, "Dead letters, which no verdict counts"), el("p", {}, `${number(total)} of ${number(facts.rows.in || 0)} rows could not be read.`), ...(dead.length ? [rows(["reason", "rows"], dead.map(([reason, count]) => [name(reason, 110), number(count)]), [1])] : []));
  const rate = (counters, which) => counters[which].map((total, i) => {
    const before = i ? i - 1 : 0, rows = ["on_time", "admitted", "refused"].reduce((sum, v) => sum + counters[v][i] - (i ? counters[v][before] : 0), 0);
    return rows > 0 ? (total - (i ? counters[which][before] : 0)) / rows : null;
  });
  for (const [output, counters] of Object.entries(past.outputs).slice(0, 3))
    for (const [which, words] of [["admitted", "admitted"], ["refused", "refused"]]) made.push({ label: `${output}: ${words}`, values: rate(counters, which) });
  if (past.clock.length > 1) { chart.before(el("h3", {}, "Share of late rows, batch by batch")); lines(chart, "rate", past.clock, made, (v) => `${(100 * v).toFixed(v < 0.1 ? 1 : 0)} %`, { height: 180 }); }
}

export function drawComplete(place, report, watermarks) {
  if (!report || !report.curve) return place.replaceChildren(aside("What waiting buys is measured from history: eventide tune FILE --json tuned.json, then eventide dashboard FILE --tuned tuned.json. The lateness that a run measures of itself: eventide lateness FILE."));
  const { curve, recommended } = report, chart = el("div", {}), today = watermarks.filter((one) => one.bound !== null);
  const at = curve.map((point) => point.bound / 1e6);
  place.replaceChildren(el("p", {}, `Of ${number(report.rows)} rows: behind by ${span(recommended.bound)}, ${share(recommended.on_time, recommended.rows)} come on time, ${(100 * recommended.completeness).toFixed(2)} % count in the end.`), chart,
    rows(["behind by", "on time", "too late", "complete"], curve.map((point) => [span(point.bound), number(point.on_time), number(point.refused), `${(100 * point.completeness).toFixed(2)} %`]), [1, 2, 3]));
  const marks = [[recommended.bound, `recommended: ${span(recommended.bound)}`, "green"], ...today.map((one) => [one.bound, `today: ${span(one.bound)}${today.length > 1 ? ` (${harmless(one.source, 24)})` : ""}`, "red"])];
  lines(chart, "complete", at, [{ label: "complete", values: curve.map((point) => point.completeness) }], (v) => `${(100 * v).toFixed(1)} %`,
    { time: false, x: "behind by", say: (v) => span(v * 1e6), across: (_, ticks) => ticks.map((v) => span(v * 1e6)), range: (_, low, high) => [Math.max(0, low - (high - low) * 0.1), Math.min(1, high) + 0.01], draw: (chart) => marks.forEach(([at, words, ink], nth) => upright(at / 1e6, words, ink, nth)(chart)) });
}

const NS = "http://www.w3.org/2000/svg";
function meter(label, part, all, words) {
  const svg = document.createElementNS(NS, "svg"), bar = document.createElementNS(NS, "rect");
  svg.setAttribute("viewBox", "0 0 100 10"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
  bar.setAttribute("width", all ? (100 * part) / all : 0); bar.setAttribute("height", 10); svg.append(bar);
  return [el("span", {}, label), svg, el("span", {}, words)];
}

const STAGES = { begin: "decide and list", scan: "scan the lanes", store: "sweep and settle", begun: "note the beginning", deliver: "deliver" };
export function drawBatch(place, facts) {
  const stages = Object.entries(facts.stages), most = Math.max(0, ...stages.map(([, seconds]) => seconds));
  const sinks = Object.entries(facts.sinks).map(([output, one]) => [name(output, 40), span(one.seconds * 1e6), one.failed ? el("b", { class: "bad" }, `${number(one.failed)} ↻`) : "0"]);
  const kept = facts.kept.map((one) => [name(one.kind, 60), number(one.files), one.rows === null ? "" : number(one.rows), size(one.bytes)]);
  place.replaceChildren(el("h3", {}, "Stages"), el("div", { class: "meter" }, stages.flatMap(([stage, seconds]) => meter(STAGES[stage] || stage, seconds, most, span(seconds * 1e6)))),
    el("h3", {}, "Sinks"), rows(["output", "took", "failed tries"], sinks, [1, 2]), el("h3", {}, "Kept in the state"), rows(["what", "files", "rows", "bytes"], kept, [1, 2, 3]),
    aside(`generation ${facts.generation} in ${harmless(facts.state, 200)}` + (facts.running?.alive ? `; process ${facts.running.pid} on ${harmless(facts.running.host, 60)} is at work` : "; no run is at work")),
    ...facts.changes.map((change) => aside(`changed after batch ${number(change.after_batch)}: ${harmless(change.setting, 60)} to ${harmless(change.to, 120)}`)));
}

export async function drawSchemas(place, known) {
  if (!known) return place.replaceChildren(aside("No registry was named: eventide dashboard FILE --registry URL."));
  const answer = await (await fetch("/api/schemas")).json();
  if (answer.fault) return place.replaceChildren(el("p", { class: "fault" }, harmless(answer.fault, 400)));
  const explain = async (nth) => {
    const change = await (await fetch(`/api/schemas/${nth}`)).json();
    const reasons = [["backward", "The new version cannot read rows of the old one"], ["forward", "The old version cannot read rows of the new one"]].filter(([way]) => change[way]?.length);
    const readers = change.readers.map((one) => [name(one.client, 60), name(one.environment || "", 40), number(one.id), instant(one.last_seen * 1000), number(one.decoded)]);
    tell("What its newest version changed", [el("p", {}, name(change.subject, 200)), change.said ? el("p", {}, harmless(change.said, 400)) : null,
      ...reasons.flatMap(([way, words]) => [el("h3", {}, words), el("ul", {}, change[way].map((reason) => el("li", {}, harmless(reason, 400))))]), change.text ? el("pre", {}, change.text) : null,
      el("h3", {}, "Who has decoded it"), readers.length ? rows(["client", "environment", "schema id", "last", "times"], readers, [2, 4]) : aside("No client has said that it did.")]);
  };
  const lines = answer.subjects.map((one, nth) => [el("button", { type: "button", class: "subject", onclick: () => explain(nth) }, name(one.subject, 60)), `${number(one.version)} of ${number(one.versions)}`, one.schemaType, one.compatibilityLevel, one.owner ? name(one.owner, 40) : el("span", { class: "dim" }, "nobody")]);
  const moving = answer.migrations.map((one, nth) => [el("button", { type: "button", class: "migration", onclick: () => explainMigration(nth) }, name(one.name, 60)), name(one.subject, 60), phase(one.phase), instant(one.entered_at * 1000)]);
  place.replaceChildren(rows(["subject", "version", "kind", "level", "owner"], lines), answer.more ? aside("There are more subjects than are listed.") : "",
    ...(moving.length ? [el("h3", {}, "Migrations"), rows(["migration", "of", "phase", "since"], moving)] : []));
}

const phase = (text) => harmless(text, 40).replaceAll("_", " ");
const passed = (open) => el("span", { class: `badge ${open ? "good" : "bad"}` }, open ? "✓ open" : "✗ shut");

async function explainMigration(nth) {
  const one = await (await fetch(`/api/migrations/${nth}`)).json();
  if (one.said) return tell("A migration", [el("p", {}, name(one.name, 200)), el("p", {}, harmless(one.said, 400))]);
  const gates = [...one.gates, ...one.obstacles].map((gate) => [passed(gate.open), harmless(gate.gate, 60).replaceAll("_", " "), name(gate.found, 400), name(gate.remedy, 400)]);
  const consumers = one.consumers.map((who) => [name(who.name, 60), name(who.environment || "", 40), name(who.owner || "", 40), harmless(who.shape, 20), el("span", { class: who.blocks ? "bad" : "" }, (who.blocks ? "✗ " : "") + phase(who.state)), name(who.why, 400), instant(who.last_seen === null ? null : who.last_seen * 1000)]);
  tell("A migration", [el("p", {}, name(one.name, 200), ` of ${harmless(one.subject, 200)}: ${phase(one.phase)} since ${instant(one.entered_at * 1000)}` + (one.next ? `; next ${phase(one.next)}` : "; it is over")),
    gates.length ? el("h3", {}, `Gates to ${phase(one.next || "the end")}`) : null, gates.length ? rows(["", "gate", "found", "what to do"], gates) : null,
    el("h3", {}, "Consumers"), consumers.length ? rows(["consumer", "environment", "owner", "reads", "state", "why", "last seen"], consumers) : aside("None is known."), one.more ? aside("There are more consumers than are listed.") : null,
    el("h3", {}, "Old and new shape"), el("p", {}, `${number(one.drift.checked)} events checked, ${number(one.drift.drifted)} of them disagree` + (one.drift.last_drift_at ? `, last at ${instant(one.drift.last_drift_at * 1000)}` : ""))]);
}

export function drawGaps(place, report) {
  if (!report || !report.lines) return place.replaceChildren(aside("Books are closed by a command: eventide reconcile FILE --json gaps.json, then eventide dashboard FILE --reconciled gaps.json."));
  const names = [...new Set(report.lines.flatMap((line) => Object.keys(line.values)))];
  const lines = report.lines.map((line) => [name(line.name ?? line.what ?? "", 60), number(line.rows), ...names.map((column) => number(line.values[column]))]);
  place.replaceChildren(el("p", {}, el("span", { class: `badge ${report.explained ? "good" : "bad"}` }, report.explained ? "✓ every difference is explained" : "✗ part of the gap is unexplained")),
    rows(["", "rows", ...names.map((column) => harmless(column, 40))], lines, names.map((_, i) => i + 2).concat(1)), ...(report.notes || []).map((note) => aside(harmless(note, 400))));
}
