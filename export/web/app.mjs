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

let last = null; // the picture in view, to be looked at again after a swap
let filming = null;
let following = null;

function show(answer) {
  const far = answer.distances ?? answer.scores.map((s) => -s);
  const order = far.map((_, i) => i).sort((a, b) => far[a] - far[b]);
  const near = (i) => (far[order[0]] + 1e-9) / (far[i] + 1e-9);
  at("label").textContent = answer.label ?? "no class is known yet";
  at("classes").replaceChildren(
    ...order.slice(0, 20).map((i, place) => {
      const row = document.createElement("tr");
      row.className = place ? "" : "best";
      const [name, bar, number] = ["", "bar", "number"].map((kind) => Object.assign(document.createElement("td"), { className: kind }));
      name.textContent = answer.labels[i];
      const fill = document.createElement("div");
      fill.style.width = `${answer.distances ? 100 * near(i) : 100 - (90 * place) / order.length}%`;
      bar.append(fill);
      number.textContent = (answer.distances ?? answer.scores)[i].toFixed(3);
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
  try {
    filming = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    return say(`no camera: ${error.message}`);
  }
  const video = at("camera");
  video.srcObject = filming;
  await video.play();
  const frame = async () => {
    if (!filming) return;
    await look(video);
    requestAnimationFrame(frame);
  };
  frame();
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
  classifier = await Classifier.open(ort, load);
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
