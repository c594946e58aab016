// What devices tell apart: admit, rename, remove, go back.

import { asked, h } from "./base/page.mjs";

export const follows = ["classes"];
export const title = () => "Classes";

const POLICY = {
  auto: "A class that a device brings is let in at once.",
  manual: "A class that a device brings waits here until you admit it.",
  off: "Devices may bring no classes.",
};

export function render(page) {
  const { classes } = page.documents;
  if (!classes) return h("p", { class: "soft" }, "Asking …");
  return [classes.waiting.length ? waiting(page, classes) : null, known(page, classes), h("div", { class: "pair" }, versions(page, classes), enrol(classes))];
}

function waiting(page, classes) {
  return h("section", { class: "card" }, h("h2", {}, "Waiting for your word"),
    h("table", { class: "stack" }, h("thead", { class: "hidden" }, h("tr", {}, ["Class", "From", "Do"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, classes.waiting.map((name) => h("tr", { "data-key": name }, h("th", { scope: "row" }, name), h("td", { "data-label": "of" }, classes.waiting_by[name] || "a device"),
        h("td", {}, h("div", { class: "actions" },
          h("button", { type: "button", class: "main", "aria-label": `Admit ${name}`, onclick: () => page.act("admit", { name }, `${name} is admitted.`) }, "Admit"),
          h("button", { type: "button", class: "danger", "aria-label": `Remove ${name}`, onclick: () => remove(page, name) }, "Remove …"))))))));
}

function known(page, classes) {
  const counted = classes.classes.some((row) => "samples" in row);
  return h("section", { class: "card" }, h("h2", {}, "Classes"),
    h("table", { class: "stack" },
      h("thead", {}, h("tr", {}, ["Class", counted ? "Samples" : "Prototypes", ...(counted ? ["Devices"] : []), "Standing", ""].map((name, i) => h("th", { scope: "col", class: i === 1 || (counted && i === 2) ? "number" : null }, name || h("span", { class: "hidden" }, "Do"))))),
      h("tbody", {}, classes.classes.map((row) => h("tr", { "data-key": row.name },
        h("th", { scope: "row" }, row.name),
        h("td", { class: "number", "data-label": counted ? "samples" : "prototypes" }, String(counted ? row.samples : row.rows)),
        counted && h("td", { class: "number", "data-label": "devices" }, String(row.devices)),
        h("td", {}, standing(row)),
        h("td", {}, h("div", { class: "actions" },
          row.removed ? h("button", { type: "button", "aria-label": `Let ${row.name} in again`, onclick: () => page.act("admit", { name: row.name }, `${row.name} is back.`) }, "Let in again") : [
            h("button", { type: "button", "aria-label": `Rename ${row.name}`, onclick: () => rename(page, row.name) }, "Rename …"),
            h("button", { type: "button", class: "danger", "aria-label": `Remove ${row.name}`, onclick: () => remove(page, row.name) }, "Remove …")])))))),
    !classes.classes.length && h("p", { class: "soft" }, "None yet: they come with the devices' samples."));
}

function standing(row) {
  if (row.removed) return h("span", { class: "badge off" }, "removed");
  const by = row.enrolled ? ` brought by ${row.by || "a device"}` : "";
  if ("samples" in row && !row.samples) return h("span", { class: "badge off" }, "nobody has samples");
  if (row.shown === false) return h("span", { class: "badge warn" }, `not shown${by}`);
  return h("span", { class: "badge good" }, `in use${by}`);
}

function versions(page, classes) {
  const newest = classes.versions.length - 1;
  return h("section", { class: "card" }, h("h2", {}, "Versions"),
    h("table", {}, h("thead", { class: "hidden" }, h("tr", {}, ["Version", "Why", "Do"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, [...classes.versions].reverse().slice(0, 30).map((row) => h("tr", { "data-key": `v${row.version}` },
        h("th", { scope: "row", class: "number" }, String(row.version)), h("td", {}, row.why),
        h("td", {}, row.version === newest ? h("span", { class: "badge good" }, "now") : h("button", { type: "button", "aria-label": `Go back to version ${row.version}`, onclick: () => back(page, row) }, "Go back …")))))));
}

function enrol(classes) {
  return h("section", { class: "card" }, h("h2", {}, "A new class"),
    h("p", {}, POLICY[classes.policy]),
    h("p", {}, "Photos never leave a device, so a class begins on one: on its page, or there with"),
    h("p", {}, h("code", {}, "edge-agent enroll NAME photos/*.jpg --offer")),
    h("p", { class: "soft small" }, `Bundle ${classes.bundle.slice(0, 16) || "none"}, lineage ${classes.lineage.slice(0, 26) || "none yet"}.`),
    classes.awaited.length ? h("p", {}, `Still to contribute: ${classes.awaited.slice(0, 10).join(", ")}${classes.awaited.length > 10 ? ` and ${classes.awaited.length - 10} more` : ""}.`) : null);
}

async function rename(page, name) {
  const words = await asked({ title: `Rename ${name}`, text: "On every device that follows.", fields: [{ name: "to", label: "Its new name", value: name }], yes: "Rename" });
  if (words && words.to !== name) await page.act("rename", { name, to: words.to }, `${name} is ${words.to} now.`);
}

async function remove(page, name) {
  const sure = await asked({ title: `Remove ${name}?`, text: "No device answers it any more. It can be let in again, or you go back a version.", yes: "Remove it", danger: true });
  if (sure) await page.act("remove", { name }, `${name} is removed.`);
}

async function back(page, row) {
  const sure = await asked({ title: `Go back to version ${row.version}?`, text: `“${row.why}”. Nothing is lost: what came since stays in the list.`, yes: "Go back" });
  if (sure) await page.act("back", { version: row.version }, `Back at version ${row.version}.`);
}
