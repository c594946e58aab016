// Every device in a line: who is there, what it runs, what is odd about it.

import { ago, bytes, h, percent } from "./base/page.mjs";

export const follows = ["fleet"];
export const title = () => "Fleet";

const LOOK = { there: "good", silent: "bad", away: "warn", left: "off" };
const MOST = 2000;

export function render(page) {
  const { status, fleet } = page.documents;
  return [status && figures(status), fleet && table(page, fleet.devices)];
}

function figures(status) {
  const { ledger } = status;
  const accuracy = Object.values(status.accuracy)[0];
  const held = ledger?.held_out ? ledger.held_out.split(" right")[0] : null;
  const known = ledger
    ? card("Known", `${ledger.classes}`, `classes of ${ledger.samples.toLocaleString()} samples`)
    : card("Round", String(status.round), `${status.phase}, ${status.answered} of ${status.asked} answered`);
  return h("section", { class: "cards", "aria-label": "At a glance" },
    card("Devices", `${status.agents_online}`, `of ${status.agents_known} online${status.agents_gone ? `, ${status.agents_gone} gone` : ""}`),
    card("Right", held || percent(accuracy), held ? "of what was held out" : accuracy === undefined ? "not reported yet" : "of the devices' test samples"),
    known,
    card("Runs", `v${status.version}`, `${status.method}, ${ledger ? `version ${ledger.version}` : `state of round ${status.state_round}`}`));
}

function card(name, figure, words) {
  return h("div", { class: "card" }, h("h2", { class: "soft small" }, name), h("div", { class: "figure" }, figure), h("div", { class: "soft small" }, words));
}

function wrong(row) {
  return row.troubles.length > 0 || row.standing === "silent";
}

function weight(row) {
  return row.standing === "silent" ? 2 : Number(wrong(row));
}

function table(page, devices) {
  const { text = "", only = "all" } = page.words;
  const rows = devices
    .filter((row) => row.agent.includes(text) || row.version.includes(text) || row.runs.includes(text))
    .filter((row) => only === "all" || (only === "wrong" ? wrong(row) : row.standing === only))
    .sort((a, b) => weight(b) - weight(a));
  const tested = devices.some((row) => row.accuracy !== null);
  const change = (name) => (event) => { page.words = { ...page.words, [name]: event.target.value }; page.draw(); };
  return h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, "Devices"),
      h("form", { class: "filter", role: "search", onsubmit: (event) => event.preventDefault() },
        h("label", { class: "hidden", for: "text" }, "Part of a name, version or bundle"),
        h("input", { id: "text", type: "search", placeholder: "Name, version, bundle", autocomplete: "off", oninput: change("text") }),
        h("label", { class: "hidden", for: "only" }, "Which devices"),
        h("select", { id: "only", onchange: change("only") },
          [["all", "All"], ["wrong", "With trouble"], ["there", "There"], ["silent", "Silent"], ["away", "Away"], ["left", "Left"]]
            .map(([value, words]) => h("option", { value }, words))))),
    h("table", { class: "stack fleet" },
      h("caption", {}, rows.length === devices.length ? `${rows.length} devices, those with trouble first` : `${rows.length} of ${devices.length} devices`),
      h("thead", {}, h("tr", {}, [["Device"], ["Standing"], ["Last heard"], ["Version"], ["Runs"], ["Contributed", "number"], ...(tested ? [["Right", "number"]] : []), ["Sent", "number"], ["What is odd"]].map(([name, look]) =>
        h("th", { scope: "col", class: look }, name)))),
      h("tbody", {}, rows.slice(0, MOST).map((row) => line(row, tested)))),
    rows.length > MOST && h("p", { class: "soft" }, `${rows.length - MOST} more: name a part of what you look for.`),
    !devices.length && h("p", {}, "No device has said anything yet. On a device: ", h("code", {}, "edge-agent run --fleet NAME --broker URL --data PHOTOS")));
}

function line(row, tested) {
  const runs = row.runs || (row.round !== null ? `round ${row.round}` : "");
  const odd = [...row.troubles, ...(row.declines ? [`does not train: ${row.declines}`] : []), ...(row.unsaid ? [`${row.unsaid} ${row.unsaid > 1 ? "classes" : "class"} left out: too few samples`] : [])]
    .map((words) => words.replace(`${row.agent}: `, ""));
  return h("tr", { "data-key": row.agent },
    h("td", { class: "name" }, h("a", { href: `#/device/${encodeURIComponent(row.agent)}` }, row.agent)),
    h("td", {}, h("span", { class: `badge ${LOOK[row.standing]}` }, row.standing)),
    h("td", { "data-label": "heard" }, ago(row.seen)),
    h("td", { "data-label": "version" }, row.version),
    h("td", { "data-label": "runs", class: "mono" }, runs),
    h("td", { "data-label": "contributed", class: "number" }, row.samples === null || row.samples === undefined ? "" : `${row.samples} of ${row.classes}`),
    tested && h("td", { "data-label": "right", class: "number" }, row.accuracy === null ? "" : percent(row.accuracy)),
    h("td", { "data-label": "sent", class: "number" }, row.bytes ? bytes(row.bytes) : ""),
    h("td", {}, odd.length ? h("ul", {}, odd.slice(0, 3).map((words) => h("li", { class: "trouble small" }, words)), odd.length > 3 && h("li", { class: "small" }, `and ${odd.length - 3} more`)) : null));
}
