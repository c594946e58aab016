// A bundle or a version on its way to the devices, group by group.

import { ago, asked, h, percent, when } from "./base/page.mjs";
import { meter } from "./base/chart.mjs";

export const follows = ["rollout", "rollouts"];
export const title = () => "Rollouts";

const LOOK = { open: "good", done: "good", halted: "bad", back: "warn" };
const WORDS = { open: "under way", done: "done", halted: "halted", back: "rolled back" };

export function render(page) {
  const { rollout, rollouts } = page.documents;
  const error = page.errors.rollout;
  if (error) return h("section", { class: "card" }, h("h2", {}, "Rollouts"), h("p", {}, error));
  if (!rollout) return h("p", { class: "soft" }, "Asking …");
  const start = h("button", { type: "button", class: "main", onclick: () => begin(page) }, "Start a rollout …");
  if (!rollout.rollout) {
    return h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Rollouts"), start),
      h("p", { class: "soft" }, "None yet. A rollout gives a new bundle to a few devices first: they try it beside what they have, and say how it does. It goes on by itself as long as that is good, and goes back by itself where it is not."));
  }
  const under = ["open", "halted"].includes(rollout.phase);
  return [h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, `Rollout ${rollout.rollout}: ${rollout.kind} ${(rollout.bundle || "").slice(0, 12)}`),
      h("span", { class: `badge ${LOOK[rollout.phase]}` }, WORDS[rollout.phase] || rollout.phase),
      rollout.phase === "open" && h("button", { type: "button", class: "danger", onclick: () => steer(page, "halt") }, "Halt"),
      rollout.phase === "halted" && h("button", { type: "button", onclick: () => steer(page, "resume") }, "Go on"),
      under && h("button", { type: "button", class: "danger", onclick: () => steer(page, "back") }, "Roll back …"),
      !under && start),
    rollout.words && h("p", {}, rollout.words),
    h("p", { class: "soft small" }, `Halts above ${percent(rollout.most_errors, 0)} failures in a group; the next opens at ${percent(rollout.trigger, 0)} proven.`,
      rollout.before !== null && ` Accuracy on ${rollout.samples} samples: ${percent(rollout.before)} before, ${percent(rollout.after)} with it.`,
      rollout.agreement !== null && ` Same answer on ${percent(rollout.agreement)} of recent pictures.`),
    h("ol", { class: "steps" }, rollout.groups.map(group))), devices(rollout), earlier(rollouts)];
}

function group(one) {
  const counts = Object.entries(one).filter(([name, value]) => !["group", "share", "opened"].includes(name) && typeof value === "number");
  const proven = one.proven, all = counts.reduce((sum, [, number]) => sum + number, 0);
  return h("li", { "data-key": `g${one.group}` },
    h("strong", {}, `Group ${one.group}: ${percent(one.share, 0)} of the fleet`), one.opened ? "" : h("span", { class: "soft" }, " – not open yet"),
    meter(all ? proven / all : 0, `${proven} of ${all} proven`, 0),
    h("span", { class: "soft small" }, counts.filter(([, value]) => value).map(([name, value]) => `${value} ${name}`).join(", ") || "nobody yet"));
}

function devices(rollout) {
  return h("section", { class: "card" }, h("h2", {}, "Devices"),
    h("table", { class: "stack" }, h("thead", {}, h("tr", {}, ["Device", "Group", "Step", "Since", "Why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rollout.devices.slice(0, 500).map((row) => h("tr", { "data-key": row.agent },
        h("th", { scope: "row" }, h("a", { href: `#/device/${encodeURIComponent(row.agent)}` }, row.agent)),
        h("td", { "data-label": "group" }, String(row.group)),
        h("td", {}, h("span", { class: `badge ${row.is === "proven" ? "good" : ["refused", "failed", "silent", "back"].includes(row.is) ? "bad" : "off"}` }, row.is === row.step ? row.is : `${row.is}: ${row.step}`)),
        h("td", { "data-label": "since" }, ago(row.seconds)),
        h("td", {}, row.words))))));
}

function earlier(rollouts) {
  const rows = rollouts?.rollouts || [];
  if (!rows.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "All rollouts"),
    h("table", { class: "stack" }, h("thead", {}, h("tr", {}, ["No.", "When", "Bundle", "How it ended", "Why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": `r${row.rollout}` }, h("th", { scope: "row" }, String(row.rollout)), h("td", {}, when(row.at)), h("td", { class: "mono" }, (row.bundle || row.kind).slice(0, 12)),
        h("td", {}, h("span", { class: `badge ${LOOK[row.phase]}` }, WORDS[row.phase] || row.phase)), h("td", {}, row.words))))));
}

async function begin(page) {
  const words = await asked({
    title: "Start a rollout", text: "The bundle is a .pfb file on the coordinator's machine.", yes: "Start",
    fields: [
      { name: "file", label: "Bundle" },
      { name: "groups", label: "Groups, in percent of the fleet", value: "5, 50, 100" },
      { name: "error", label: "Halt above, percent of failures", value: "2", type: "number" },
      { name: "trigger", label: "Open the next group at, percent proven", value: "90", type: "number" },
      { name: "canaries", label: "Devices that go first, by name (may be empty)", required: false },
    ],
  });
  if (!words) return;
  const parts = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);
  await page.act("rollout-start", {
    file: words.file, groups: parts(words.groups).map((one) => Number(one) / 100),
    error: Number(words.error) / 100, trigger: Number(words.trigger) / 100, canaries: parts(words.canaries),
  }, "The rollout begins with its first group.");
}

async function steer(page, what) {
  if (what === "back") {
    const sure = await asked({ title: "Roll back?", text: "Every device returns to what it had before.", yes: "Roll back", danger: true });
    if (!sure) return;
  }
  await page.act(`rollout-${what}`, {}, { halt: "Halted: nobody else begins.", resume: "It goes on.", back: "Everybody goes back." }[what]);
}
