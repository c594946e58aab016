// The operator's page: which view is shown, what it follows, and what stands above all of them.

import { act, asked, begin, h, me, say, show, signIn, signOut, watch } from "./base/page.mjs";
import * as classes from "./classes.mjs";
import * as device from "./device.mjs";
import * as events from "./events.mjs";
import * as fleet from "./fleet.mjs";
import * as learning from "./learning.mjs";
import * as rollouts from "./rollouts.mjs";

const VIEWS = { fleet, learning, classes, rollouts, events, device };
const TABS = ["fleet", "learning", "classes", "rollouts", "events"];
const at = (id) => document.getElementById(id);

const page = { documents: {}, errors: {}, words: {}, view: "fleet", rest: "", lost: "", draw, act: perform, again: () => {} };
let feed = { close() {} };

function route() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return { view: view in VIEWS ? view : "fleet", rest: rest.map(decodeURIComponent).join("/") };
}

function open() {
  const { view, rest } = route();
  if (view !== page.view || rest !== page.rest) window.scrollTo(0, 0);
  Object.assign(page, { view, rest, words: {}, shown: 0 });
  feed.close();
  page.errors = {};
  if (!me.looks) return draw();
  const names = [...new Set(["status", ...VIEWS[view].follows])];
  feed = watch(names, (name, document, error) => {
    page.documents[name] = document;
    page.errors[name] = error;
    if (name === "status") page.lost = error;
    VIEWS[page.view].changed?.(page, name);
    draw();
  }, (state, why) => {
    page.lost = state === "lost" ? why : page.errors.status || "";
    drawHead();
  });
  VIEWS[view].open?.(page);
  draw();
}

function draw() {
  drawHead();
  const place = at("main");
  if (!me.looks) return show(place, signing());
  const view = VIEWS[page.view];
  show(place, alerts(), page.documents.status || page.lost ? view.render(page) : h("p", { class: "soft" }, "Asking the coordinator …"));
}

function drawHead() {
  const { status } = page.documents;
  const name = status ? status.fleet : "Fleet";
  at("fleet").textContent = name;
  document.title = `${VIEWS[page.view].title(page)} – ${name}`;
  const words = page.lost ? ["bad", page.lost] : !status ? ["off", "connecting"] : status.connected ? ["good", "live"] : ["bad", "no broker"];
  show(at("standing"), h("span", { class: `badge ${words[0]}` }, words[1]));
  const current = page.view === "device" ? "fleet" : page.view;
  show(at("tabs"), TABS.map((tab) => h("a", { href: `#/${tab}`, "aria-current": tab === current ? "page" : null }, VIEWS[tab].title({}))));
  const who = me.by === "proxy" ? h("span", { class: "soft small" }, me.name) : null;
  const button = me.by === "session" ? h("button", { type: "button", class: "plain", onclick: leave }, "Sign out")
    : me.steers || !me.looks ? null : h("button", { type: "button", onclick: enter }, "Sign in to steer");
  show(at("visitor"), who, button);
}

// On the first view all that is wrong, elsewhere how much there is of it.
function alerts() {
  const { status } = page.documents;
  if (!status) return null;
  const rows = status.alerts;
  const body = page.view === "fleet" ? (rows.length ? h("ul", { class: "alerts" }, rows.map(alert)) : h("p", { class: "card calm" }, "Nothing is wrong."))
    : rows.length ? h("p", { class: "card brief" }, h("span", { class: `badge ${rows[0].level}` }, `${rows.length} ${rows.length > 1 ? "things are" : "thing is"} wrong`), h("span", {}, rows[0].sentence), h("a", { href: "#/fleet" }, "See what to do")) : null;
  return h("section", { "aria-label": "What is wrong", "aria-live": "polite", hidden: !body }, body);
}

function alert({ kind, subject, sentence, suggestion, level }) {
  const place = kind === "waiting" ? "#/classes" : kind === "accuracy" ? "#/learning" : subject ? `#/device/${encodeURIComponent(subject)}` : null;
  return h("li", { class: level, "data-key": `${kind} ${subject}` }, h("span", { class: "what" }, sentence), h("span", { class: "do" }, suggestion),
    place && h("a", { href: place, "aria-label": `Look at ${subject || kind}` }, "Look"));
}

function signing() {
  return h("section", { class: "card" },
    h("h2", {}, "Sign in"),
    h("p", {}, "This page is shown to who has its token. It was printed when the page first started, and stands in page.token in the coordinator's directory."),
    h("form", { onsubmit: (event) => { event.preventDefault(); come(new FormData(event.target).get("token")); } },
      h("div", { class: "field" }, h("label", { for: "token" }, "Token"),
        h("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true })),
      h("button", { class: "main", type: "submit" }, "Sign in")));
}

async function enter() {
  const words = await asked({ title: "Sign in to steer", text: "The token was printed when the page first started, and stands in page.token in the coordinator's directory.", fields: [{ name: "token", label: "Token", type: "password" }], yes: "Sign in" });
  if (words) await come(words.token);
}

async function come(token) {
  try { await signIn(token); say("You may steer now."); open(); } catch (error) { say(error.message, true); }
}

async function leave() {
  await signOut();
  open();
}

// Does something, says how it went, and shows what came of it.
async function perform(name, words, done) {
  if (!me.steers) { await enter(); if (!me.steers) return false; }
  try {
    await act(name, words);
    say(done);
    for (const followed of ["status", ...VIEWS[page.view].follows]) feed.again(followed);
    VIEWS[page.view].open?.(page);
    return true;
  } catch (error) {
    say(error.message, true);
    return false;
  }
}

window.addEventListener("hashchange", () => { open(); at("main").focus({ preventScroll: true }); });
await begin();
if (!location.hash) history.replaceState(null, "", "#/fleet");
open();
