import { Classifier, folder, follow, look, prepared, watch } from "./protofleet.mjs";

const at = (id) => document.getElementById(id);
const say = (words) => (at("said").textContent = words);
const here = (name) => new URL(name, import.meta.url).href;
const runtime = async () => prepared(await import("./ort.wasm.bundle.min.mjs"), { wasm: here("./ort-wasm-simd-threaded.wasm.gz") });

let last = null; // the picture in view, to be looked at again after a swap
let filming = null;
let following = null;

function show({ label, labels, scores, distances, probabilities, unknown }) {
  const order = scores.map((_, i) => i).sort((a, b) => scores[b] - scores[a]);
  const nearest = labels[order[0]];
  at("label").textContent = !nearest ? "no class is known yet" : unknown ? `unknown, nearest ${nearest}` : label;
  // Distances and scores are of no common measure: a bar would say what nobody knows.
  const bare = `${distances ? "distances" : "scores"}, and no probabilities: the fleet has not calibrated these classes`;
  at("measure").textContent = probabilities || !nearest ? "" : bare;
  at("classes").replaceChildren(
    ...order.slice(0, 20).map((i, place) => {
      const row = document.createElement("tr");
      row.className = place ? "" : "best";
      const [name, bar, number] = ["", "bar", "number"].map((kind) => Object.assign(document.createElement("td"), { className: kind }));
      name.textContent = labels[i];
      if (probabilities) {
        const fill = document.createElement("div");
        fill.style.width = `${100 * probabilities[i]}%`;
        bar.append(fill);
      }
      number.textContent = probabilities ? `${(100 * probabilities[i]).toFixed(1)} %` : (distances ?? scores)[i].toFixed(3);
      row.append(name, bar, number);
      return row;
    }),
  );
}

/** Picture and answer change together. */
function put({ frame, answer }) {
  const { width, height } = frame;
  Object.assign(at("seen"), { width, height }).getContext("2d").putImageData(frame, 0, 0);
  show(answer);
}

async function looked(source) {
  last = source;
  put(await look(classifier, source));
}

async function take(file) {
  try {
    if (file.name.endsWith(".cbor")) {
      await swapped(new Uint8Array(await file.arrayBuffer()));
    } else {
      // Colours as they are stored: devices do not convert them either.
      await looked(await createImageBitmap(file, { colorSpaceConversion: "none" }));
      say(file.name);
    }
  } catch (error) {
    say(error.message);
  }
}

async function swapped(bytes) {
  await classifier.swap(bytes);
  await changed();
}

async function changed() {
  about();
  say(`new prototypes: ${classifier.loaded.labels.length} classes`);
  if (last) await looked(last);
}

function about() {
  const { manifest, loaded } = classifier;
  at("about").textContent = `${manifest.method}, ${manifest.backbone}, ${loaded.labels.length} classes, state ${loaded.state.slice(0, 16)}, ${manifest.lineages[0]}`;
}

async function film() {
  if (filming) return filming.abort();
  filming = new AbortController();
  last = null;
  await watch(classifier, { show: put, say, signal: filming.signal }).catch((error) => say(`no camera: ${error.message}`));
  filming = null;
}

async function listen() {
  const { default: mqtt } = await import("./mqtt.esm.mjs");
  const query = new URLSearchParams(location.search);
  following?.stop();
  const client = mqtt.connect(at("broker").value, { protocolVersion: 5, clean: true });
  client.on("connect", () => say("connected"));
  client.on("error", (error) => say(error.message));
  client.on("close", () => say("no connection, trying on"));
  const fleet = query.get("fleet") ?? classifier.manifest.fleet;
  following = follow(classifier, client, { fleet, channel: query.get("channel") ?? "stable", changed, say });
}

let classifier = null;
try {
  classifier = await Classifier.open(runtime, folder(here("./bundle")), {}, { unknown: true });
  about();
  at("label").textContent = "ready";
} catch (error) {
  say(error.message);
}
at("file").addEventListener("change", (event) => take(event.target.files[0]));
at("look").addEventListener("click", film);
at("follow").addEventListener("click", () => listen().catch((error) => say(error.message)));
for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  at("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", over);
    if (kind === "drop") for (const file of event.dataTransfer.files) take(file);
  });
}
globalThis.protofleet = { classifier, take, ready: true };
