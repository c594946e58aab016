import * as ort from "./ort.wasm.min.mjs";
import { Follower } from "./follow.mjs";
import { Classifier, fromPicture } from "./protofleet.mjs";

ort.env.wasm.wasmPaths = new URL("./", import.meta.url).href;
ort.env.wasm.numThreads = 1;

const at = (id) => document.getElementById(id);
const say = (words) => (at("said").textContent = words);
const load = async (name) => {
  const answer = await fetch(new URL(`./bundle/${name}`, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
};

const FRAME = 100; // ms between two looks of the camera, at least

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

async function look(source) {
  last = source;
  // At its own size: how a canvas makes pictures smaller is the browser's business, and not the one of the network.
  const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(source, 0, 0);
  const picture = context.getImageData(0, 0, width, height);
  const [answer] = await classifier.classify(fromPicture(picture.data, width, height, classifier.manifest.input.shape));
  // Picture and answer change together.
  Object.assign(at("seen"), { width, height }).getContext("2d").putImageData(picture, 0, 0);
  show(answer);
}

async function take(file) {
  try {
    if (file.name.endsWith(".cbor")) {
      await swapped(new Uint8Array(await file.arrayBuffer()));
    } else {
      // Colours as they are stored: devices do not convert them either.
      await look(await createImageBitmap(file, { colorSpaceConversion: "none" }));
      say(file.name);
    }
  } catch (error) {
    say(error.message);
  }
}

async function swapped(bytes) {
  await classifier.swap(bytes);
  about();
  say(`new prototypes: ${classifier.loaded.labels.length} classes`);
  if (last) await look(last);
}

function about() {
  const { manifest, loaded } = classifier;
  at("about").textContent = `${manifest.method}, ${manifest.backbone}, ${loaded.labels.length} classes, state ${loaded.state.slice(0, 16)}, ${manifest.lineages[0]}`;
}

async function film() {
  if (filming) {
    filming.getTracks().forEach((track) => track.stop());
    filming = null;
    return;
  }
  let stream;
  try {
    stream = filming = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    return say(`no camera: ${error.message}`);
  }
  const video = at("camera");
  video.srcObject = stream;
  await video.play();
  while (filming === stream) {
    const began = performance.now();
    try {
      await look(video);
    } catch (error) {
      say(error.message);
    }
    // Half of the time is the device's own: a phone that computes without a pause gets hot and slow.
    await new Promise((done) => setTimeout(done, Math.max(FRAME, performance.now() - began)));
    if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

async function follow() {
  const { default: mqtt } = await import("./mqtt.esm.mjs");
  const query = new URLSearchParams(location.search);
  following?.stop();
  const client = mqtt.connect(at("broker").value, { protocolVersion: 5, clean: true });
  client.on("connect", () => say("connected"));
  client.on("error", (error) => say(error.message));
  client.on("close", () => say("no connection, trying on"));
  const channel = query.get("channel") ?? "stable";
  following = new Follower(client, { fleet: query.get("fleet") ?? classifier.manifest.fleet, channel, take: swapped, say });
}

let classifier = null;
try {
  classifier = await Classifier.open(ort, load, {}, { unknown: true });
  about();
  at("label").textContent = "ready";
} catch (error) {
  say(error.message);
}
at("file").addEventListener("change", (event) => take(event.target.files[0]));
at("look").addEventListener("click", film);
at("follow").addEventListener("click", () => follow().catch((error) => say(error.message)));
for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  at("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", over);
    if (kind === "drop") for (const file of event.dataTransfer.files) take(file);
  });
}
globalThis.protofleet = { classifier, take, ready: true };
