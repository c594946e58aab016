// The owner's page: what this camera sees, which pictures to name, and whether enough was done.
//
// Documents come by name (`watch`), and each is drawn by a function of its own from what is there.
// What is chosen here and nowhere else: the picture that is asked about, pictures put off for later,
// and tiles of a heap that do not belong to it.

import { act, ago, asked, begin, h, me, percent, say, show, signIn, signOut, watch } from "/static/base/page.mjs";
import { meter } from "/static/base/chart.mjs";

const place = (id) => document.getElementById(id);
const docs = { now: null, queue: null, heaps: null, classes: null };
const later = new Set(), left = new Set();
let chosen = "", busy = false, ends = null;

const quoted = (name) => `“${name}”`;
const things = (count) => (count === 1 ? "1 picture" : `${count} pictures`);

// Between a tap and the next word of the device, what was named is gone already.
const done = new Set();
const waiting = () => (docs.queue?.pictures || []).filter(({ key }) => !done.has(key));
function current() {
  const pictures = waiting();
  return pictures.find(({ key }) => key === chosen) || pictures.find(({ key }) => !later.has(key)) || pictures[0];
}

async function doing(name, words, sentence) {
  if (busy) return;
  busy = true;
  try {
    const answer = await act(name, words);
    (words.keys || []).forEach((key) => done.add(key));
    if (name === "undo") done.clear();
    say(sentence(answer));
  } catch (error) {
    say(error.message, true);
  } finally {
    busy = false;
    ["queue", "heaps", "classes"].forEach((one) => ends?.again(one));
    drawAll();
  }
}

const label = (keys, name) => doing("label", { keys, label: name }, (answer) => `${things(answer.pictures)} named ${quoted(answer.label)}.`);
const discard = (keys) => doing("throw", { keys }, (answer) => `${things(answer.pictures)} thrown away.`);
const undo = () => doing("undo", {}, (answer) => `Taken back: ${answer.label ? quoted(answer.label) : "thrown away"}, ${things(answer.pictures)}.`);

function drawAsk() {
  const queue = docs.queue, picture = current();
  const title = h("div", { class: "head" }, h("h2", { id: "ask-title" }, "What is this?"),
    h("span", { class: "soft small" }, queue ? `${things(waiting().length && queue.waiting)} to name` : ""));
  if (!queue) return show(place("ask"), title, h("p", { class: "soft" }, "One moment."));
  if (!picture) {
    return show(place("ask"), title, h("p", {}, queue.why || "Nothing to ask: the fleet is sure of all that this camera saw."),
      h("p", { class: "soft" }, "Pictures come here when the fleet does not know them, or is not sure."));
  }
  const best = picture.best[0];
  const names = queue.classes;
  show(place("ask"), title,
    h("div", { class: "asking", "data-key": "asking" },
      h("div", {}, h("img", { class: "shot", src: `/picture/${picture.key}`, alt: "The picture to name" }),
        h("p", { class: "soft small" }, [picture.source, ago(Date.now() / 1000 - picture.at)].filter(Boolean).join(", "))),
      h("div", {},
        h("p", { class: "guess" }, guess(picture)),
        best && !picture.unknown && me.steers && h("p", {}, h("button", { class: "main", type: "button", onclick: () => label([picture.key], best.name) },
          `Yes, ${best.name} `, h("kbd", {}, "Enter"))),
        h("div", { class: "names", role: "group", "aria-label": "Names" }, names.slice(0, 60).map((name, index) =>
          h("button", { type: "button", "data-key": name, class: name === best?.name && !picture.unknown ? "guessed" : "", disabled: !me.steers, onclick: () => label([picture.key], name) },
            h("span", { class: "text" }, name), index < 9 && h("kbd", {}, String(index + 1))))),
        h("form", { class: "finder", onsubmit: (event) => { event.preventDefault(); named(event.target, [picture.key]); } },
          h("input", { name: "name", id: "new-name", placeholder: names.length ? "Find, or a new name" : "What is it?", "aria-label": "Find, or a new name", autocomplete: "off", maxlength: 64, list: "known", oninput: (event) => find(event.target.value), disabled: !me.steers }),
          h("button", { type: "submit", disabled: !me.steers }, "Name it")),
        h("datalist", { id: "known" }, names.map((name) => h("option", { value: name }))),
        h("div", { class: "after" },
          h("button", { type: "button", onclick: () => put(picture) }, "Later ", h("kbd", {}, "L")),
          h("button", { type: "button", disabled: !me.steers, onclick: () => discard([picture.key]) }, "Throw away ", h("kbd", {}, "X"))))),
    h("div", { class: "strip", role: "group", "aria-label": "Next pictures", "data-key": "strip" }, waiting().slice(0, 16).map((one) =>
      h("button", { type: "button", "data-key": one.key, "aria-pressed": String(one.key === picture.key), onclick: () => { chosen = one.key; drawAsk(); } },
        h("img", { src: `/picture/${one.key}`, loading: "lazy", alt: one.best[0] ? `Perhaps ${one.best[0].name}` : "A picture without a name" })))));
}

function guess(picture) {
  const [first, second] = picture.best;
  if (!first) return "The fleet knows no class yet: you name the first ones.";
  if (picture.unknown) return ["Like nothing that the fleet knows. Nearest: ", h("b", {}, first.name), "."];
  const share = first.share === null ? "" : ` (${percent(first.share, 0)})`;
  const close = second && second.share !== null && first.share - second.share < 0.3;
  return ["The fleet says ", h("b", {}, first.name), share, close ? [", or ", h("b", {}, second.name), ` (${percent(second.share, 0)})`] : "", "."];
}

function put(picture) {
  later.add(picture.key);
  if (waiting().every(({ key }) => later.has(key))) later.clear();
  chosen = "";
  drawAsk();
}

function named(form, keys) {
  const name = form.elements.name.value.trim();
  if (!name) return;
  form.reset();
  find("");
  label(keys, name);
}

function find(text) {
  const wanted = text.trim().toLowerCase();
  for (const button of document.querySelectorAll(".names button")) button.hidden = wanted !== "" && !button.dataset.key.toLowerCase().includes(wanted);
}

function drawNow() {
  const now = docs.now;
  const title = h("h2", { id: "now-title" }, "Seen now");
  if (!now || !now.at) return show(place("now"), title, h("p", { class: "soft" }, now ? now.why : "One moment."));
  const bars = (now.best || []).map(({ name, share }) => h("li", { "data-key": name },
    h("div", {}, h("span", { class: "text" }, name), share === null ? null : h("span", { class: "number" }, percent(share))),
    share === null ? null : meter(share, `${name}: ${percent(share)}`, 0)));
  show(place("now"), title,
    now.picture && h("img", { class: "shot", src: `/picture/now?${now.picture}`, alt: now.best?.[0] ? `What the camera sees: ${now.unknown ? "something unknown" : now.best[0].name}` : "What the camera sees" }),
    now.unknown && h("p", {}, h("span", { class: "badge warn" }, "unknown: like nothing that the fleet knows")),
    bars.length ? h("ul", { class: "bars" }, bars) : h("p", { class: "soft" }, "No class is known yet."),
    h("p", { class: "soft small" }, [now.source, now.old ? `seen ${ago(Date.now() / 1000 - now.at)}` : ""].filter(Boolean).join(", ")));
}

function drawHeaps() {
  const heaps = (docs.heaps?.heaps || []).map((heap) => ({ ...heap, keys: heap.keys.filter((key) => !done.has(key)) })).filter(({ keys }) => keys.length);
  place("heaps").hidden = !heaps.length;
  show(place("heaps"), h("h2", { id: "heaps-title" }, "Things that look alike"),
    h("p", { class: "soft" }, "Name a whole heap at once. Tap a picture that does not belong to it."),
    heaps.map(({ keys }, number) => {
      const chosenKeys = keys.filter((key) => !left.has(key));
      return h("div", { class: "heap", "data-key": keys[0] },
        h("div", { class: "tiles" }, keys.map((key) => h("button", { type: "button", "data-key": key, "aria-pressed": String(!left.has(key)), "aria-label": "Belongs to this heap",
          onclick: () => { left.has(key) ? left.delete(key) : left.add(key); drawHeaps(); } }, h("img", { src: `/picture/${key}`, loading: "lazy", alt: "" })))),
        h("form", { onsubmit: (event) => { event.preventDefault(); named(event.target, chosenKeys); } },
          h("input", { name: "name", "aria-label": `Name of heap ${number + 1}`, placeholder: "What are these?", autocomplete: "off", maxlength: 64, list: "known", disabled: !me.steers }),
          h("button", { type: "submit", class: "main", disabled: !me.steers || !chosenKeys.length }, `Name ${things(chosenKeys.length)}`),
          h("button", { type: "button", disabled: !me.steers || !chosenKeys.length, onclick: () => discard(chosenKeys) }, "Throw away")));
    }));
}

function drawClasses() {
  const document = docs.classes;
  const title = h("h2", { id: "classes-title" }, "Have I done enough?");
  if (!document?.classes.length) return show(place("classes"), title, h("p", { class: "soft" }, "Once pictures have names, it says here how well the fleet knows them, and what ten more would bring."));
  const counted = document.classes.some(({ forecast }) => forecast);
  show(place("classes"), title, summary(document),
    h("table", { class: "stack" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Class"), h("th", { scope: "col", class: "number" }, "Named here"), h("th", { scope: "col", class: "number" }, "In the fleet"),
        h("th", { scope: "col" }, "Right so far"), h("th", { scope: "col", class: "number" }, "Ten more bring"), h("th", { scope: "col" }, ""))),
      h("tbody", {}, document.classes.map((row) => h("tr", { "data-key": row.name },
        h("th", { scope: "row" }, row.name),
        h("td", { class: "number", "data-label": "Named here" }, String(row.own)),
        h("td", { class: "number", "data-label": "In the fleet" }, row.fleet === null ? "–" : String(row.fleet)),
        h("td", { "data-label": "Right so far" }, row.forecast ? [meter(row.forecast.accuracy, `${row.name}: ${percent(row.forecast.accuracy, 0)} right`),
          h("span", { class: "small" }, `${percent(row.forecast.accuracy, 0)} (${row.forecast.right} of ${row.forecast.tested})`)] : h("span", { class: "soft" }, "not counted yet")),
        h("td", { class: "number", "data-label": "Ten more bring" }, row.forecast ? `+ ${(100 * row.forecast.gain).toFixed(1)} points` : "–"),
        h("td", {}, verdict(row)))))),
    counted && h("p", { class: "soft small" }, document.words));
}

function verdict({ verdict: word, few, own }) {
  if (few && own > 0) return h("span", { class: "badge warn" }, "far fewer than the others");
  if (word === "enough") return h("span", { class: "badge good" }, "enough");
  if (word === "more") return h("span", { class: "badge off" }, "more would help");
  return own ? h("span", { class: "badge off" }, "named, not counted yet") : null;
}

function summary({ classes }) {
  const own = classes.filter((row) => row.own), enough = own.filter((row) => row.verdict === "enough");
  const best = classes.filter((row) => row.forecast).sort((a, b) => b.forecast.gain - a.forecast.gain)[0];
  if (!own.length) return h("p", {}, "Nothing was named on this camera yet. The fleet's classes come from others.");
  if (!best) return h("p", {}, "The fleet has not counted yet how well it knows your pictures; that takes a moment after new names.");
  if (enough.length === own.length) return h("p", {}, "Yes: ten more pictures of any class would hardly change anything.");
  const fewest = [...own].sort((a, b) => a.own - b.own)[0];
  if (best.forecast.gain < 0.005) return h("p", {}, "Nearly: all that was counted is right. Name some more of ", h("b", {}, fewest.name), ", of which there are fewest.");
  return h("p", {}, "Not quite: name more of ", h("b", {}, best.name), `. Ten of it would bring about ${(100 * best.forecast.gain).toFixed(1)} points.`);
}

function drawSession() {
  const last = docs.queue?.last, button = place("undo");
  button.disabled = !me.steers || !last;
  button.textContent = last ? `Undo: ${last.label || "thrown away"}` : "Undo";
  button.onclick = undo;
  const session = place("session");
  session.hidden = me.by !== "session";
  session.textContent = "Sign out";
  session.onclick = () => signOut().then(drawAll).catch((error) => say(error.message, true));
  const card = place("sign-in");
  card.hidden = me.steers;
  if (me.steers) return;
  show(card, h("h2", { id: "sign-in-title" }, "Sign in to name pictures"),
    h("p", { class: "soft" }, "The word is in the file page.token on the device, and in the address that it printed at its first start."),
    h("form", { class: "finder", onsubmit: (event) => { event.preventDefault(); signIn(event.target.elements.token.value).then(start).catch((error) => say(error.message, true)); } },
      h("input", { name: "token", type: "password", "aria-label": "The page's token", autocomplete: "current-password", required: true }),
      h("button", { class: "main", type: "submit" }, "Sign in")));
}

function drawAll() { drawSession(); drawAsk(); drawNow(); drawHeaps(); drawClasses(); }

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || typing || !me.steers) return;
  const picture = current(), key = event.key.toLowerCase();
  if (key === "u") return undo();
  if (!picture) return;
  const names = docs.queue.classes;
  if (/^[1-9]$/.test(key) && names[key - 1]) label([picture.key], names[key - 1]);
  else if (key === "enter" && event.target === document.body && picture.best[0] && !picture.unknown) label([picture.key], picture.best[0].name);
  else if (key === "x" || key === "delete") discard([picture.key]);
  else if (key === "l") put(picture);
  else if (key === "n" || key === "/") { event.preventDefault(); place("new-name").focus(); }
});

function state(word, why) {
  const badge = place("state");
  badge.className = word === "live" ? "badge good" : "badge warn";
  badge.textContent = word === "live" ? "live" : "no answer";
  badge.title = why || "";
}

function start() {
  ends?.close();
  drawAll();
  if (!me.looks) return;
  ends = watch(["device", "now", "queue", "heaps", "classes"], (name, document_) => {
    if (!document_) return;
    if (name === "device") { place("name").textContent = document_.name; document.title = `${document_.name} – ProtoFleet`; return; }
    docs[name] = document_;
    if (name === "queue") { const still = new Set(document_.pictures.map(({ key }) => key)); done.forEach((key) => still.has(key) || done.delete(key)); }
    drawAll();
  }, state);
}

await begin();
start();
