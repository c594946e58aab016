// How well the fleet does: over time, by class, by device, and what it costs.

import { bytes, h, percent, when } from "./base/page.mjs";
import { lines, matrix, meter } from "./base/chart.mjs";

export const follows = ["learning", "fleet", "rounds"];
export const title = () => "Learning";

export function render(page) {
  const { learning, status, fleet, rounds } = page.documents;
  if (!learning) return h("p", { class: "soft" }, "Asking …");
  return [
    h("div", { class: "pair" }, overTime(learning), byClass(learning)),
    learning.confusion.length ? h("section", { class: "card" }, h("h2", {}, "What is taken for what"),
      matrix(learning.classes, learning.confusion, "Rows are what samples are, columns what they are taken for, with each device's samples held out of the total.")) : null,
    status && status.phase !== "ledger" && rounds ? inRounds(page, status, rounds.rounds) : null,
    h("div", { class: "pair" }, fleet && traffic(fleet.devices, status), byDevice(learning)),
  ];
}

function overTime(learning) {
  const names = [...new Set(learning.measured.flatMap((one) => Object.keys(one.accuracy)))].slice(0, 6);
  const series = names.map((name) => ({ name, points: learning.measured.filter((one) => name in one.accuracy).map((one) => [one.at, one.accuracy[name]]) }));
  const newest = learning.measured.at(-1);
  const words = newest && (newest.held_out ? `${percent(Object.values(newest.accuracy)[0])} right of ${newest.held_out} samples held out`
    : `${Object.entries(newest.accuracy).map(([name, share]) => `${name} ${percent(share)}`).join(", ")}, round ${newest.round}`);
  return h("section", { class: "card" }, h("h2", {}, "Accuracy over time"),
    newest && h("p", { class: "soft small" }, `Newest: ${words}`),
    lines({ series, label: `Accuracy over time; newest ${words}`, form: (share) => percent(share, 0), formX: when, low: 0, high: 1 }));
}

function byClass({ classes, confusion }) {
  if (!confusion.length) return h("section", { class: "card" }, h("h2", {}, "By class"), h("p", { class: "soft" }, "Not counted yet: devices count when the total has stood still for a while."));
  const rows = classes.map((name, i) => ({ name, sum: confusion[i].reduce((a, b) => a + b, 0), right: confusion[i][i] })).filter((row) => row.sum);
  rows.sort((a, b) => a.right / a.sum - b.right / b.sum);
  return h("section", { class: "card" }, h("h2", {}, "By class, the weakest first"),
    h("table", { class: "shares" }, h("thead", { class: "hidden" }, h("tr", {}, ["Class", "Share", "Right"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": row.name }, h("th", { scope: "row" }, row.name),
        h("td", {}, meter(row.right / row.sum, percent(row.right / row.sum))), h("td", { class: "number" }, `${percent(row.right / row.sum, 0)} of ${row.sum}`))))));
}

function inRounds(page, status, rounds) {
  const paused = status.phase === "paused";
  const button = paused ? h("button", { type: "button", onclick: () => page.act("resume", {}, "Rounds go on.") }, "Go on")
    : h("button", { type: "button", onclick: () => page.act("pause", {}, "No further round opens.") }, "Pause");
  return h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Rounds"), h("span", { class: `badge ${paused ? "warn" : "good"}` }, status.phase), button),
    rounds.length ? h("table", { class: "stack" }, h("thead", {}, h("tr", {}, ["Round", "Asked", "Came", "Closed", "State"].map((name, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, name)))),
      h("tbody", {}, [...rounds].reverse().slice(0, 12).map((row) => h("tr", { "data-key": `n${row.round}` }, h("th", { scope: "row" }, String(row.round)), h("td", { class: "number", "data-label": "asked" }, String(row.asked)), h("td", { class: "number", "data-label": "came" }, String(row.uploads)),
        h("td", {}, row.failed ? `failed: ${row.failed}` : row.reason || "open"), h("td", { class: "mono" }, (row.state_sha256 || "").slice(0, 12))))))
      : h("p", { class: "soft" }, "None opened yet."));
}

function traffic(devices, status) {
  const rows = [...devices].sort((a, b) => b.bytes - a.bytes).slice(0, 8).filter((row) => row.bytes);
  const most = Math.max(1, ...rows.map((row) => row.bytes));
  const all = devices.reduce((sum, row) => sum + row.bytes, 0);
  return h("section", { class: "card" }, h("h2", {}, "Bytes"),
    h("p", { class: "soft small" }, `${bytes(all)} came from devices in ${Math.max(1, Math.round((status?.uptime_seconds || 0) / 60))} min, since the coordinator started.`),
    h("table", { class: "shares" }, h("thead", { class: "hidden" }, h("tr", {}, ["Device", "Share", "Bytes"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": row.agent }, h("th", { scope: "row" }, row.agent), h("td", {}, meter(row.bytes / most, bytes(row.bytes), 0)), h("td", { class: "number" }, bytes(row.bytes)))))));
}

function byDevice({ devices }) {
  const rows = devices.map((row) => ({ agent: row.agent, share: Object.values(row.accuracy)[0] })).sort((a, b) => a.share - b.share).slice(0, 8);
  return h("section", { class: "card" }, h("h2", {}, "By device, the weakest first"),
    rows.length ? h("table", { class: "shares" }, h("thead", { class: "hidden" }, h("tr", {}, ["Device", "Share", "Right"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": row.agent }, h("th", { scope: "row" }, h("a", { href: `#/device/${encodeURIComponent(row.agent)}` }, row.agent)), h("td", {}, meter(row.share, percent(row.share))), h("td", { class: "number" }, percent(row.share))))))
      : h("p", { class: "soft" }, "No device tests itself: that needs samples it keeps for it."));
}
