// One device: all that is known of it, and the two ways to part with it.

import { ago, asked, bytes, h, me, percent, when } from "./base/page.mjs";
import { meter } from "./base/chart.mjs";
import { list } from "./events.mjs";

export const follows = ["fleet"];
export const title = (page) => page.rest || "Device";

export async function open(page) {
  const name = page.rest;
  const response = await fetch(`/api/device/${encodeURIComponent(name)}`);
  const document = await response.json();
  if (page.rest !== name) return;
  page.words = response.ok ? { row: document } : { error: document.error };
  page.draw();
}

export function changed(page, name) {
  if (name === "fleet") open(page);
}

export function render(page) {
  const { row, error } = page.words;
  const back = h("p", {}, h("a", { href: "#/fleet" }, "← All devices"));
  if (error) return [back, h("p", { class: "card" }, error)];
  if (!row) return [back, h("p", { class: "soft" }, "Asking …")];
  return [back, h("div", { class: "pair" }, facts(page, row), odd(row)), h("div", { class: "pair" }, contributed(row), h("section", { class: "card" }, h("h2", {}, "What happened"), list(row.events)))];
}

function facts(page, row) {
  const standing = row.left ? ["off", "left"] : row.gone ? ["bad", "silent"] : row.online ? ["good", "there"] : ["warn", "away"];
  const member = row.member;
  const pairs = [
    ["Last heard", ago(row.seen_seconds_ago)],
    ["Version", row.version],
    ["Runs bundle", row.runs?.slice(0, 16)],
    ["Backbone", row.backbone],
    ["Computes with", row.device],
    ["Trains on", row.samples !== undefined && `${row.samples} samples of ${row.classes?.length ?? 0} classes`],
    ["Right", Object.entries(row.accuracy).map(([name, share]) => `${name} ${percent(share)}`).join(", ")],
    ["Sent", `${bytes(row.bytes)} since the coordinator started`],
    ["Member", member && (member.revoked ? `revoked ${when(member.revoked)}` : `since ${when(member.joined)}, certificate until ${when(member.ends)}`)],
  ];
  return h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, row.agent), h("span", { class: `badge ${standing[0]}` }, standing[1])),
    h("dl", { class: "facts" }, pairs.filter(([, words]) => words).map(([name, words]) => [h("dt", {}, name), h("dd", {}, words)])),
    h("p", { class: "actions" },
      h("button", { type: "button", class: "danger", onclick: () => forget(page, row.agent) }, "Forget …"),
      member && !member.revoked && h("button", { type: "button", class: "danger", onclick: () => revoke(page, row.agent) }, "Revoke …")),
    !me.steers && h("p", { class: "soft small" }, "You will be asked for the token."));
}

function odd(row) {
  const words = [
    row.refused && `Refused: ${row.refused}`,
    row.notice && `It says: ${row.notice}`,
    row.declines && `It does not train: ${row.declines}`,
    ...(row.suspects || []).map((words) => words.replace(`${row.agent}: i`, "I")),
    row.doubted && "Most others contradict it: it is not heard.",
    row.unsaid?.length && `It says nothing of ${row.unsaid.join(", ")}: too few samples.`,
  ].filter(Boolean);
  const { drift } = row;
  return h("section", { class: "card" }, h("h2", {}, "What is odd"),
    words.length ? h("ul", {}, words.map((one) => h("li", {}, one))) : h("p", { class: "soft" }, "Nothing."),
    h("h3", {}, "Its newest pictures"),
    drift ? h("p", { class: drift.changed ? null : "soft" }, drift.sentence) : h("p", { class: "soft" }, "It has not reported on them yet."));
}

function contributed(row) {
  const samples = Object.entries(row.contributed || {}).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...samples.map(([, number]) => number));
  return h("section", { class: "card" }, h("h2", {}, "Contributed"),
    samples.length
      ? h("table", { class: "shares" }, h("thead", { class: "hidden" }, h("tr", {}, ["Class", "Share", "Samples"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, samples.map(([name, number]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, meter(number / most, `${number} samples`, 0)), h("td", { class: "number" }, String(number))))))
      : h("p", { class: "soft" }, "Nothing in the ledger."));
}

async function forget(page, agent) {
  const sure = await asked({ title: `Forget ${agent}?`, text: "What it contributed is taken away to the bit, and all else that is known of it. A device that still runs contributes again.", yes: "Forget it", danger: true });
  if (sure && await page.act("forget", { agent }, `${agent} is forgotten.`)) location.hash = "#/fleet";
}

async function revoke(page, agent) {
  const sure = await asked({ title: `Revoke ${agent}?`, text: "It is no member any more: neither its signature nor its certificate counts. What it contributed stays until it is forgotten.", yes: "Revoke it", danger: true });
  if (sure) await page.act("revoke", { agent }, `${agent} is revoked.`);
}
