// Times, spans and names as people read them; everything that others wrote is put on the page as text, never as markup.
export const settings = { zone: "UTC" };

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const LONGEST = 80;

// Every sign of a name is seen and none does anything; of a long one its beginning and its end.
export function harmless(value, longest = LONGEST) {
  let text = typeof value === "string" ? value : String(value);
  const length = text.length;
  if (length > longest) text = text.slice(0, (longest * 2) / 3) + "…" + text.slice(-longest / 3) + ` (${length.toLocaleString("en")} signs)`;
  return text.replace(UNSEEN, (sign) => "\\u{" + sign.codePointAt(0).toString(16) + "}");
}

export function el(tag, facts = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const name = (text, longest) => el("bdi", { class: "name" }, harmless(text, longest));
export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
export const share = (part, all) => (all ? `${((100 * part) / all).toFixed(part / all < 0.1 ? 2 : 1)} %` : "–");

export function span(us) {
  if (us === null || us === undefined) return "–";
  const s = Math.abs(us) / 1e6, sign = us < 0 ? "−" : "";
  if (s === 0) return "0 s";
  if (s < 0.001) return "< 1 ms";
  if (s < 1) return `${sign}${Math.round(s * 1000)} ms`;
  if (s < 100) return `${sign}${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 5400) return `${sign}${Math.round(s / 60)} min`;
  if (s < 172800) return `${sign}${(s / 3600).toFixed(1)} h`;
  return `${sign}${(s / 86400).toFixed(1)} d`;
}

export function size(bytes) {
  let shown = bytes, unit = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) { if (shown < 1024) break; shown /= 1024; unit = next; }
  return unit === "B" ? `${bytes} B` : `${shown.toFixed(1)} ${unit}`;
}

const forms = new Map();
function formed(us, options) {
  const key = settings.zone + JSON.stringify(options);
  if (!forms.has(key)) forms.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: settings.zone, hour12: false, ...options }));
  return forms.get(key).format(new Date(us / 1000));
}
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
export function instant(us) {
  if (us === null || us === undefined) return "–";
  if (Math.abs(us) > 8.64e18) return "beyond all days";
  const parts = formed(us, { year: "numeric", month: "2-digit", day: "2-digit", ...TIME }).split(", ");
  return `${parts[0].split("/").reverse().join("-")} ${parts[1]}`;
}
export const clock = (us) => (us === null || us === undefined ? "–" : formed(us, TIME));
export const zoned = (us) => `${instant(us)} ${settings.zone}`;

// Browsers list Kolkata under its older name only.
export function zones() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return [...new Set(["UTC", own, "Asia/Kolkata", ...(Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [])])];
}

export function rows(headings, lines, numeric = []) {
  const kind = (nth) => ({ class: numeric.includes(nth) ? "n" : null });
  const head = el("tr", {}, headings.map((heading, nth) => el("th", { scope: "col", ...kind(nth) }, heading)));
  const body = lines.map((line) => el("tr", {}, line.map((cell, nth) => el("td", kind(nth), cell))));
  return el("div", { class: "wide" }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}
