// What happened, as the journal has it.

import { h, when } from "./base/page.mjs";

export const follows = [];
export const title = () => "Events";

const WORDS = {
  contributed: (e) => `${e.agent} contributed ${e.samples} samples of ${e.classes} classes${e.source ? ` (${e.source})` : ""}`,
  forgotten: (e) => `${e.agent} was forgotten, with ${e.contributions} contributions`,
  revoked: (e) => `${e.agent} was revoked`,
  classes: (e) => e.why,
  drift: (e) => e.sentence,
  suspect: (e) => `${e.agent}: its ${e.label} looks like everybody else's ${e.looks_like}`,
  measured: (e) => e.held_out ? `${(100 * Object.values(e.accuracy)[0]).toFixed(1)} % right of ${e.held_out} samples held out`
    : Object.entries(e.accuracy).map(([name, share]) => `${name} ${(100 * share).toFixed(1)} %`).join(", "),
  "put-off": (e) => `too few answered in time; missing ${e.missing.join(", ")}`,
  failed: (e) => `the round cannot be fused: ${e.words}`,
  paused: () => "rounds are paused",
  resumed: () => "rounds go on",
  alert: (e) => `${e.sentence} – ${e.suggestion}`,
  "alert-over": (e) => `over: ${e.about} ${e.agent || ""}`,
};

const ROUNDS = ["measured", "put-off", "failed", "paused", "resumed"];

export function sentence(event) {
  try { if (event.kind in WORDS) return WORDS[event.kind](event); } catch { /* one of another release */ }
  const rest = Object.entries(event).filter(([name]) => !["id", "at", "round", "kind"].includes(name));
  return rest.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

export function list(events) {
  if (!events.length) return h("p", { class: "soft" }, "Nothing.");
  return h("table", { class: "stack log" }, h("thead", {}, h("tr", {}, ["When", "Kind", "What"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, [...events].reverse().map((event) => h("tr", { "data-key": `e${event.id}` },
      h("td", {}, h("time", { datetime: new Date(1000 * event.at).toISOString() }, when(event.at))),
      h("td", {}, h("span", { class: `badge ${event.kind === "alert" || event.kind === "failed" ? "warn" : "off"}` }, event.kind)),
      h("td", {}, event.round && ROUNDS.includes(event.kind) ? `round ${event.round}: ` : "", sentence(event))))));
}

export async function open(page) {
  const { kind = "", agent = "", before } = page.words;
  const query = new URLSearchParams(Object.entries({ kind, agent, before }).filter(([, value]) => value));
  const response = await fetch(`/api/events?${query}`);
  const document = await response.json();
  if (page.view !== "events" || (page.words.kind || "") !== kind || (page.words.agent || "") !== agent) return;
  page.words = { ...page.words, answer: response.ok ? document : null, error: document.error };
  page.draw();
}

export function changed(page, name) {
  if (name === "status" && !page.words.before) open(page);
}

export function render(page) {
  const { answer, error, kind = "", before } = page.words;
  const change = (name) => (event) => { page.words = { ...page.words, before: undefined, [name]: event.target.value.trim() }; open(page); };
  const kinds = answer?.kinds || [];
  return h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, "Events"),
      h("form", { class: "filter", role: "search", onsubmit: (event) => event.preventDefault() },
        h("label", { class: "hidden", for: "kind" }, "Kind"),
        h("select", { id: "kind", onchange: change("kind") }, h("option", { value: "" }, "All kinds"), kinds.map((one) => h("option", { value: one, selected: one === kind }, one))),
        h("label", { class: "hidden", for: "of" }, "Device"),
        h("input", { id: "of", type: "search", placeholder: "Device", autocomplete: "off", onchange: change("agent") }))),
    error ? h("p", {}, error) : answer ? list(answer.events) : h("p", { class: "soft" }, "Asking …"),
    h("p", { class: "actions" },
      before && h("button", { type: "button", onclick: () => { page.words = { ...page.words, before: undefined }; open(page); } }, "Newest"),
      answer?.more && h("button", { type: "button", onclick: () => { page.words = { ...page.words, before: answer.events[0].id }; open(page); } }, "Older")));
}
