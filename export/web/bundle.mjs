// A bundle's files, from a folder or one `.pfb`: held to the hashes of the manifest, and the manifest to what this client
// knows, before anything is used. docs/bundle.md has the format.

import { BundleError, TEXT } from "./cbor.mjs";
import { readPublished } from "./published.mjs";
import { sha256 } from "./sha256.mjs";
import { opened } from "./zipped.mjs";

const SCHEMA = "protofleet-bundle/1";
const [MANIFEST, MODEL, PROTOTYPES, SELFTEST] = ["manifest.json", "model.onnx", "prototypes.cbor", "selftest.npz"];
const LONGEST = 4 << 20; // bytes of a manifest, which is read before anything is known of it
const FILES = 64;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$/;
const TOLERANCE = { fp32: 1e-3, fp16: 1e-2, int8: 1e-1 }; // of the self-test, at most

/** A loader of files beside each other, for `Classifier.open`: in a browser, or wherever `fetch` brings this address. */
export function folder(url) {
  const at = new URL(url.endsWith("/") ? url : `${url}/`, globalThis.location?.href);
  return async (name) => {
    const answer = await fetch(new URL(name, at));
    if (!answer.ok) throw new BundleError(`${name}: the server says ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  };
}

/** A bundle of whatever gives its files by name; of those that may be left out only the ones in `also`. */
export async function read(load, also = []) {
  return checked(load, (name) => [MODEL, PROTOTYPES, "drift.npz", ...also].includes(name));
}

/** The same of one `.pfb`, every file of it held to its hash. With `name` it must be the bundle of this name. */
export async function unpacked(pfb, name = "") {
  const packed = opened(pfb, "this .pfb");
  const bundle = await checked((file) => packed.read(file, file === MANIFEST ? LONGEST : undefined), () => true);
  if (name && bundle.digest !== name) throw new BundleError(`this is the bundle ${bundle.digest.slice(0, 16)}, not ${name.slice(0, 16)}`);
  return bundle;
}

async function checked(load, due) {
  const text = await load(MANIFEST);
  const [manifest, digest] = [document(text), await sha256(text)];
  const files = {};
  for (const [name, hash] of Object.entries(manifest.files)) {
    if (!due(name)) continue;
    const data = await load(name);
    if ((await sha256(data)) !== hash) throw new BundleError(`${name} is damaged`);
    files[name] = data;
  }
  const published = readPublished(files[PROTOTYPES]);
  // The hashes vouch for each file, not for their belonging together.
  if ((await sha256(published.body)) !== manifest.state) throw new BundleError(`${PROTOTYPES} is not the state that the manifest names`);
  return { manifest, digest, files, published };
}

function document(bytes) {
  if (bytes.length > LONGEST) throw new BundleError(`${MANIFEST} is too long`);
  let manifest;
  try {
    manifest = JSON.parse(TEXT.decode(bytes));
  } catch {
    throw new BundleError(`${MANIFEST}: not JSON`);
  }
  if (manifest?.schema !== SCHEMA) throw new BundleError(`schema ${String(manifest?.schema).slice(0, 60)} is not known here`);
  const text = (value) => typeof value === "string" && value.length > 0;
  const texts = (value) => Array.isArray(value) && value.every(text);
  const whole = (value) => Number.isInteger(value) && value > 0;
  const { input, reading, files, unknown = {} } = manifest;
  const due = {
    files: files && typeof files === "object" && Object.values(files).every(text) && Object.keys(files).length < FILES,
    input: ["image", "vector", "series"].includes(input?.kind) && Array.isArray(input.shape) && input.shape.every(whole),
    embedding: whole(manifest.embedding),
    classes: texts(manifest.classes),
    reading: ["prototypes", "mixtures", "head"].includes(reading?.by),
    lineages: texts(manifest.lineages) && manifest.lineages.length > 0,
    state: text(manifest.state),
    precision: Object.hasOwn(TOLERANCE, manifest.precision),
    tolerance: manifest.tolerance >= 0 && manifest.tolerance <= TOLERANCE[manifest.precision],
    unknown: unknown.keep === undefined || (unknown.keep >= 0 && unknown.keep <= 1),
  };
  const wrong = Object.keys(due).find((name) => !due[name]);
  if (wrong) throw new BundleError(`${MANIFEST}: ${wrong} is not as it should be`);
  const missing = [MODEL, PROTOTYPES, SELFTEST].find((name) => !files[name]);
  if (missing) throw new BundleError(`${MANIFEST}: it names no ${missing}`);
  const bad = Object.keys(files).find((name) => !NAME.test(name));
  if (bad) throw new BundleError(`${MANIFEST}: a name that no file of a bundle has`);
  return { ...manifest, unknown: { keep: 0.99, ...unknown } };
}
