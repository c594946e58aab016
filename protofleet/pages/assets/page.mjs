// What every page of ours is made of: elements, documents that stay new, words that steer, signing in.
//
//   h("p", {class: "soft"}, "text")     an element; text is text and never markup
//   show(place, ...elements)            what stands there is made like these, and keeps focus and input
//   await begin()                       who am I; a token behind the # of the address signs in
//   watch(["status"], (name, doc) =>    documents that stay new (server-sent events); returns `close`
//   await act("pause", {})              an action; throws an Error with what the service says
//   await asked({title, text, fields})  a dialog: null, or what was filled in
//   say("Done.") / say("No.", true)     one line, read out to who cannot see it

const LIVING = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "onerror", "onload"];

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  return filled(element, properties, children);
}

export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "value") { element.value = value; element.setAttribute("value", value); }
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function show(place, ...elements) {
  const fresh = document.createDocumentFragment();
  fresh.append(...elements.flat(Infinity).filter(Boolean));
  same(place, fresh);
}

// What is there becomes like what is fresh, node by node: whoever types or reads is not disturbed.
function same(place, fresh) {
  const keyed = new Map();
  for (const node of place.childNodes) if (node.nodeType === 1 && node.dataset.key) keyed.set(node.dataset.key, node);
  let here = place.firstChild;
  for (const node of [...fresh.childNodes]) {
    const key = node.nodeType === 1 ? node.dataset.key : undefined;
    const known = key === undefined ? here : keyed.get(key);
    if (known && alike(known, node) && (key !== undefined || !known.dataset?.key)) {
      if (known !== here) place.insertBefore(known, here);
      else here = here.nextSibling;
      become(known, node);
    } else place.insertBefore(node, here);
  }
  while (here) { const next = here.nextSibling; here.remove(); here = next; }
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

function become(known, fresh) {
  if (known.nodeType !== 1) {
    if (known.data !== fresh.data) known.data = fresh.data;
    return;
  }
  for (const { name } of [...known.attributes]) if (!fresh.hasAttribute(name) && name !== "open") known.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (known.getAttribute(name) !== value) known.setAttribute(name, value);
  for (const name of LIVING) if (known[name] !== fresh[name]) known[name] = fresh[name];
  if (["INPUT", "SELECT", "TEXTAREA"].includes(known.nodeName)) {
    if (known.nodeName === "SELECT" && known !== document.activeElement) { same(known, fresh); known.value = fresh.value; }
    return; // what somebody fills in is theirs
  }
  same(known, fresh);
}

export const me = { page: "", by: "nobody", name: "", csrf: "", looks: false, steers: false };

export async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    await signIn(token).catch((error) => say(error.message, true));
  }
  return refresh();
}

async function refresh() {
  Object.assign(me, await answerOf(await fetch("/session", { cache: "no-store" })));
  return me;
}

export async function signIn(token) {
  await answerOf(await fetch("/session", posted({ token })));
  return refresh();
}

export async function signOut() {
  await answerOf(await fetch("/session", { ...posted({}), method: "DELETE" }));
  return refresh();
}

export async function act(name, words = {}) {
  return answerOf(await fetch(`/do/${name}`, posted(words)));
}

function posted(words) {
  return { method: "POST", headers: { "content-type": "application/json", "x-csrf": me.csrf }, body: JSON.stringify(words) };
}

async function answerOf(response) {
  const text = await response.text();
  let document = {};
  try { document = JSON.parse(text); } catch { /* not one of ours */ }
  if (!response.ok) throw new Error([document.error || `the page answers ${response.status}`, document.hint].filter(Boolean).join("; "));
  return document;
}

// Documents by name, asked for when their tag changes. `state` hears "live", "lost" and why.
export function watch(names, onchange, state = () => {}) {
  const tags = {};
  for (const name of names) read(name); // at once: a stream takes its time to begin
  const stream = new EventSource(`/api/live?of=${names.join(",")}`);
  stream.onmessage = (event) => {
    state("live");
    for (const [name, tag] of Object.entries(JSON.parse(event.data))) {
      if (tags[name] === tag) continue;
      tags[name] = tag; // so that it is asked for once
      read(name);
    }
  };
  stream.onerror = () => state("lost", "the page's process does not answer");
  async function read(name) {
    try {
      const response = await fetch(`/api/${name}`);
      const document = await response.json();
      tags[name] = (response.headers.get("etag") || "").replaceAll('"', "");
      onchange(name, response.ok ? document : null, response.ok ? "" : document.error);
    } catch (error) {
      delete tags[name];
      state("lost", String(error.message || error));
    }
  }
  return { close: () => stream.close(), again: (name) => read(name) };
}

let quiet = 0;
export function say(text, bad = false) {
  const place = document.getElementById("word");
  place.textContent = text;
  place.className = bad ? "bad" : "";
  clearTimeout(quiet);
  quiet = setTimeout(() => { place.textContent = ""; }, bad ? 12_000 : 5_000);
}

// A question before something is done. `fields`: {name, label, value, type, hint}; `danger` for what is not undone.
export function asked({ title, text = "", fields = [], yes = "OK", danger = false }) {
  const dialog = h("dialog", { "aria-labelledby": "asked" });
  const inputs = fields.map(({ name, label, value = "", type = "text", options, required = true }) => h("div", { class: "field" },
    h("label", { for: `asked-${name}` }, label),
    options
      ? h("select", { id: `asked-${name}`, name }, options.map((option) => h("option", { value: option }, option)))
      : h("input", { id: `asked-${name}`, name, type, value, required, autocomplete: "off", spellcheck: "false" })));
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); end(Object.fromEntries(new FormData(form))); } },
      h("h2", { id: "asked" }, title), text && h("p", {}, text), inputs,
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => end(null) }, "Cancel"),
        h("button", { type: "submit", class: danger ? "danger" : "main" }, yes)));
    function end(answer) { dialog.close(); dialog.remove(); resolve(answer); }
    dialog.addEventListener("cancel", () => end(null));
    dialog.append(form);
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("input, select, button.main, button")?.focus();
  });
}

export function ago(seconds) {
  if (!Number.isFinite(seconds)) return "never";
  if (seconds < 10) return "now";
  if (seconds < 90) return `${Math.round(seconds / 10) * 10} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129_600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86_400)} d ago`;
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${unit && number < 100 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

export function percent(share, digits = 1) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`;
}

export function when(seconds) {
  const at = new Date(1000 * seconds);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString(undefined, today ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" });
}
