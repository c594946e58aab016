// A bundle in JavaScript: the browser's and Node's client, with any build of onnxruntime passed in.
// docs/bundle.md has the format. Nothing here is specific to a page.

import { BundleError, TEXT, decodeCbor, half } from "./cbor.mjs";
import { readNpz } from "./npz.mjs";
import { resized } from "./resize.mjs";
import { sha256 } from "./sha256.mjs";

export { BundleError, decodeCbor, sha256 };

const TYPED = { 64: 1, 72: 1, 79: 8, 84: 2, 85: 4 }; // RFC 8746 tag: bytes a value
const BLOCK = 64; // samples a call

/** A typed array as { shape, data }, numbers in double precision. */
function array(raw) {
  if (raw instanceof Map) {
    const [q, s] = [array(raw.get("q")), array(raw.get("s"))];
    const width = q.shape[1];
    return { shape: q.shape, data: q.data.map((v, i) => v * s.data[Math.floor(i / width)]) };
  }
  let [shape, typed] = [null, raw];
  if (raw?.tag === 40) [shape, typed] = raw.value;
  const [tag, bytes] = [typed?.tag, typed?.value];
  const size = TYPED[tag];
  if (!size || !(bytes instanceof Uint8Array) || bytes.length % size) throw new BundleError("an array is not of the known form");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = {
    64: (i) => view.getUint8(i),
    72: (i) => view.getInt8(i),
    79: (i) => Number(view.getBigInt64(i, true)),
    84: (i) => half(view.getUint16(i, true)),
    85: (i) => view.getFloat32(i, true),
  }[tag];
  const data = Float64Array.from({ length: bytes.length / size }, (_, i) => read(i * size));
  if (!data.every(Number.isFinite)) throw new BundleError("a number is not finite");
  shape ??= [data.length];
  if (shape.reduce((a, b) => a * b, 1) !== data.length) throw new BundleError("an array's sizes do not fit its values");
  return { shape, data };
}

/** What the fleet publishes: class names, lineage and points. */
export function readPublished(bytes) {
  const message = decodeCbor(bytes);
  const body = message instanceof Map ? message.get("body") : null;
  if (message.get?.("v") !== 1 || message.get("t") !== "global" || body?.tag !== 24) {
    throw new BundleError("these bytes are no published prototypes");
  }
  const parts = decodeCbor(body.value);
  const kind = ["prototypes", "mixtures", "head"].find((name) => parts.has(name));
  const json = parts.get("about")?.get("arrays")?.get("json");
  if (!kind || !json) throw new BundleError("the prototypes do not say what they are");
  const about = JSON.parse(TEXT.decode(Uint8Array.from(array(json).data)));
  const points = Object.fromEntries([...parts.get(kind)].filter(([name]) => name !== "kind").map(([n, raw]) => [n, array(raw)]));
  const rows = Array.from(points.classes.data);
  if (rows.some((c) => !(c < about.classes.length))) throw new BundleError("a prototype is of no class");
  return { kind, ...about, points, rows, body: body.value };
}

/** The inputs of the graph for these points; `drift` moves a class's points to where a quantised extractor sees them. */
export function ready(bank, reading, drift = null) {
  // A head's rows read plain features, too, which is what an extractor gives.
  const plain = reading.by === "prototypes" && reading.metric === "euclidean" && !reading.of_unit && !reading.through;
  if (bank.kind !== reading.by && !(bank.kind === "head" && plain)) {
    throw new BundleError(`this bundle classifies by ${reading.by}, these are ${bank.kind}`);
  }
  const build = { prototypes: nearest, head: linear, mixtures: likeliest }[bank.kind];
  return build(drift ? moved(bank, drift) : bank.points, reading);
}

function moved(bank, drift) {
  if (bank.kind === "head") return shifted(bank.points, drift[""]);
  const name = { prototypes: "vectors", mixtures: "means" }[bank.kind];
  const { shape, data } = bank.points[name];
  const d = shape[1];
  const by = bank.rows.map((c) => drift[bank.classes[c]] ?? drift[""]);
  if (by.some((each) => each?.length !== d)) throw new BundleError("these points have another size");
  return { ...bank.points, [name]: { shape, data: data.map((v, i) => v + by[Math.floor(i / d)][i % d]) } };
}

/** A head's rows were made for what the float extractor sees. */
function shifted(points, by) {
  const [n, d] = points.weight.shape;
  if (by?.length !== d) throw new BundleError("these points have another size");
  const off = Array.from({ length: n }, (_, p) => by.reduce((sum, v, i) => sum + v * points.weight.data[p * d + i], 0));
  return { ...points, bias: { shape: [n], data: points.bias.data.map((v, p) => v - off[p]) } };
}

function transposed(rows, n, d) {
  const w = new Float32Array(n * d);
  for (let p = 0; p < n; p++) for (let i = 0; i < d; i++) w[i * n + p] = rows[p * d + i];
  return w;
}

function nearest(points, reading) {
  const [[n, d], v] = [points.vectors.shape, points.vectors.data];
  const [rows, b] = [new Float64Array(n * d), new Float32Array(n)];
  for (let p = 0; p < n; p++) {
    let square = 0;
    for (let i = 0; i < d; i++) square += v[p * d + i] ** 2;
    const cosine = reading.metric === "cosine";
    const scale = cosine ? 1 / Math.max(Math.sqrt(square), 1e-12) : 1;
    for (let i = 0; i < d; i++) rows[p * d + i] = 2 * v[p * d + i] * scale;
    b[p] = cosine ? -1 : -square;
  }
  return { proto_w: [transposed(rows, n, d), [d, n]], proto_b: [b, [n]] };
}

function linear(points) {
  const [n, d] = points.weight.shape;
  return { proto_w: [transposed(points.weight.data, n, d), [d, n]], proto_b: [Float32Array.from(points.bias.data), [n]] };
}

function likeliest(points) {
  const [[n, d], mean, variance] = [points.means.shape, points.means.data, points.variances.data];
  const [centre, rows, b] = [new Float32Array(d), new Float64Array(n * 2 * d), new Float32Array(n)];
  for (let i = 0; i < d; i++) {
    let sum = 0;
    for (let p = 0; p < n; p++) sum += mean[p * d + i];
    centre[i] = sum / n;
  }
  for (let p = 0; p < n; p++) {
    let constant = Math.max(Math.log(points.weights.data[p]), -1e30);
    for (let i = 0; i < d; i++) {
      const [m, precision] = [mean[p * d + i] - centre[i], 1 / variance[p * d + i]];
      rows[p * 2 * d + i] = -0.5 * precision;
      rows[p * 2 * d + d + i] = m * precision;
      constant += 0.5 * Math.log(precision / (2 * Math.PI)) - 0.5 * m * m * precision;
    }
    b[p] = constant;
  }
  return { proto_w: [transposed(rows, n, 2 * d), [2 * d, n]], proto_b: [b, [n]], proto_c: [centre, [d]] };
}

/** A bundle in use. `load(name)` gives a file of it as bytes. */
export class Classifier {
  static async open(ort, load, options = {}) {
    const manifest = JSON.parse(TEXT.decode(await load("manifest.json")));
    if (manifest.schema !== "protofleet-bundle/1") throw new BundleError(`schema ${manifest.schema} is not known here`);
    const files = {};
    for (const name of ["model.onnx", "prototypes.cbor", "drift.npz"]) {
      if (!manifest.files[name]) continue;
      files[name] = await load(name);
      if ((await sha256(files[name])) !== manifest.files[name]) throw new BundleError(`${name} is damaged`);
    }
    const session = await ort.InferenceSession.create(files["model.onnx"], options);
    const made = new Classifier(ort, manifest, session, files["drift.npz"] ? await readNpz(files["drift.npz"]) : null);
    await made.swap(files["prototypes.cbor"]);
    return made;
  }

  constructor(ort, manifest, session, drift) {
    Object.assign(this, { ort, manifest, session, drift, loaded: null });
  }

  /** Classify by these prototypes from the next call on; what does not fit is refused and nothing changes. */
  async swap(bytes) {
    const bank = readPublished(bytes);
    if (!this.manifest.lineages.includes(bank.lineage)) {
      throw new BundleError(`these prototypes are of ${bank.lineage}, this bundle is of ${this.manifest.lineages[0]}`);
    }
    const inputs = ready(bank, this.manifest.reading, this.drift);
    const width = this.manifest.embedding * (bank.kind === "mixtures" ? 2 : 1);
    // An extractor that came without classes may lose all of them again.
    const none = !bank.rows.length && this.manifest.classes.length > 0;
    if (inputs.proto_w[1][0] !== width || none) throw new BundleError("these points have another size");
    const tensors = Object.entries(inputs).map(([name, [data, shape]]) => [name, new this.ort.Tensor("float32", data, shape)]);
    const held = [...new Set(bank.rows)].sort((a, b) => a - b);
    const state = await sha256(bank.body);
    this.loaded = Object.freeze({ bank, tensors: Object.fromEntries(tensors), held, labels: held.map((c) => bank.classes[c]), state });
    return this.loaded.state;
  }

  /** `samples`: n of the bundle's inputs one after another, uint8 for images. One answer each, without a label while no
   *  class is known. */
  async classify(samples, n = 1) {
    const [loaded, { kind, shape }] = [this.loaded, this.manifest.input];
    const size = shape.reduce((a, b) => a * b, 1);
    const type = kind === "image" ? "uint8" : "float32";
    if (samples.length !== n * size) throw new BundleError(`${n} samples of ${shape.join("×")} are due`);
    const answers = [];
    for (let start = 0; start < n; start += BLOCK) {
      const count = Math.min(BLOCK, n - start);
      const image = new this.ort.Tensor(type, samples.slice(start * size, (start + count) * size), [count, ...shape]);
      const { score, feature } = await this.session.run({ image, ...loaded.tensors });
      for (let row = 0; row < count; row++) answers.push(this.answer(loaded, score, feature, row));
    }
    return answers;
  }

  answer(loaded, score, feature, row) {
    const { rows, kind } = loaded.bank;
    const [p, d] = [rows.length, feature.dims[1]];
    const mine = score.data.subarray(row * p, (row + 1) * p);
    const scores = loaded.held.map((c) => {
      const of = Array.from(mine).filter((_, i) => rows[i] === c);
      const top = Math.max(...of);
      return kind === "mixtures" ? top + Math.log(of.reduce((sum, s) => sum + Math.exp(s - top), 0)) : top;
    });
    let square = 0;
    for (let i = row * d; i < (row + 1) * d; i++) square += feature.data[i] ** 2;
    const distances = kind === "prototypes" ? scores.map((s) => Math.sqrt(Math.max(square - s, 0))) : null;
    return { label: loaded.labels[scores.indexOf(Math.max(...scores))] ?? null, labels: loaded.labels, scores, distances, state: loaded.state };
  }
}

/** A picture's RGBA pixels, upright and at its own size, as one input of a bundle whose `input.shape` this is. */
export function fromPicture(rgba, width, height, [toHeight, toWidth, channels]) {
  return resized(fromRgba(rgba, channels), [height, width], channels, [toHeight, toWidth]);
}

/** RGBA pixels of a canvas as the bundle's channels (grey as Pillow makes it). */
export function fromRgba(rgba, channels) {
  const n = rgba.length / 4;
  const out = new Uint8Array(n * channels);
  for (let i = 0; i < n; i++) {
    const [r, g, b] = [rgba[4 * i], rgba[4 * i + 1], rgba[4 * i + 2]];
    if (channels === 1) out[i] = (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
    else for (let c = 0; c < channels; c++) out[i * channels + c] = rgba[4 * i + c];
  }
  return out;
}
