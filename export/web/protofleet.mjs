// A bundle in JavaScript: the browser's and Node's client, with any build of onnxruntime passed in.
// docs/bundle.md has the format. Nothing here is specific to a page.

import { BundleError, TEXT, decodeCbor } from "./cbor.mjs";
import { oddness, probabilities, quantile, unusual, withPrior } from "./certainty.mjs";
import { meanOf, withClass } from "./enrolment.mjs";
import { readNpz } from "./npz.mjs";
import { readPublished, readTotal } from "./published.mjs";
import { resized } from "./resize.mjs";
import { sha256 } from "./sha256.mjs";

export { BundleError, decodeCbor, readPublished, sha256 };

const BLOCK = 64; // samples a call
const MOST_PHOTOS = 1000; // of a class that is enrolled
const LONGEST_NAME = 64;
const LARGEST = 1e30; // what a graph is given: of more no score is a number

/** The inputs of the graph for these points; `drift` moves a class's points to where a quantised extractor sees them. */
export function ready(bank, reading, drift = null) {
  // A head's rows read plain features, too, which is what an extractor gives.
  const plain = reading.by === "prototypes" && reading.metric === "euclidean" && !reading.of_unit && !reading.through;
  if (bank.kind !== reading.by && !(bank.kind === "head" && plain)) {
    throw new BundleError(`this bundle classifies by ${reading.by}, these are ${bank.kind}`);
  }
  const build = { prototypes: nearest, head: linear, mixtures: likeliest }[bank.kind];
  const inputs = build(drift ? moved(bank, drift) : bank.points, reading);
  const apt = Object.values(inputs).every(([data]) => data.every((v) => Math.abs(v) <= LARGEST));
  if (!apt) throw new BundleError("points so large, or so narrow, that no score of them is a number");
  return inputs;
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

/** A bundle in use. `load(name)` gives a file of it as bytes. With `unknown` what is like no class has no label; `check`
 *  runs the exporter's self-test first. `prior`, as `{ counts: { apple: 40 }, smooth: 2 }`: what this device labelled often
 *  is likely beforehand, where a fleet calibrated its scores. */
export class Classifier {
  static async open(ort, load, options = {}, { unknown = false, check = true, prior = null } = {}) {
    const manifest = JSON.parse(TEXT.decode(await load("manifest.json")));
    if (manifest.schema !== "protofleet-bundle/1") throw new BundleError(`schema ${manifest.schema} is not known here`);
    const files = {};
    const others = [...(check ? ["selftest.npz"] : []), ...(unknown ? ["calibration.npz"] : [])];
    for (const name of ["model.onnx", "prototypes.cbor", "drift.npz", ...others]) {
      if (!manifest.files[name]) continue;
      files[name] = await load(name);
      if ((await sha256(files[name])) !== manifest.files[name]) throw new BundleError(`${name} is damaged`);
    }
    const session = await ort.InferenceSession.create(files["model.onnx"], options);
    const arrays = async (name) => (files[name] ? readNpz(files[name]) : null);
    const seen = (await arrays("calibration.npz"))?.features ?? null;
    const made = new Classifier(ort, manifest, session, await arrays("drift.npz"), { unknown, seen, prior });
    await made.swap(files["prototypes.cbor"]);
    if (check) await made.tested(await arrays("selftest.npz"));
    return made;
  }

  constructor(ort, manifest, session, drift, { unknown = false, seen = null, prior = null } = {}) {
    Object.assign(this, { ort, manifest, session, drift, unknown, seen, loaded: null });
    Object.assign(this, { published: null, total: null, enrolled: [] });
    this.expect(prior);
  }

  /** The fleet's sums (its channel `total`, or a device's `fleet.pfb.total.cbor`): a class that is enrolled beside a head
   *  needs them. */
  async sums(bytes) {
    const total = readTotal(bytes);
    if (!this.manifest.lineages.includes(total.lineage) || total.width !== this.manifest.embedding) {
      throw new BundleError("these sums are of another extractor");
    }
    this.total = total;
    if (this.published) await this.use(...this.published);
  }

  /** A new class from `n` photos, one after another as `classify` takes them: in use from the next answer on, and beside
   *  whatever is swapped in until that has the class itself. */
  async enroll(label, samples, n) {
    const { bank } = this.loaded;
    if (this.loaded.labels.includes(label)) throw new BundleError(`there is a class ${label} already`);
    if (typeof label !== "string" || !label || label.length > LONGEST_NAME) throw new BundleError("a name is due");
    if (!(n >= 1 && n <= MOST_PHOTOS) || bank.kind === "mixtures") throw new BundleError("a few photos are due, and no mixtures");
    if (bank.kind === "head" && !this.total) throw new BundleError("beside a head the fleet's sums are due");
    this.must(samples, n);
    const [off, d] = [this.drift?.[""], this.manifest.embedding];
    const features = new Float64Array(n * d);
    let at = 0;
    // As the float extractor would have seen them, which is what a fleet shares.
    for await (const { feature: { data } } of this.blocks(samples, this.loaded)) {
      for (let i = 0; i < data.length; i++, at++) features[at] = data[i] - (off ? off[at % d] : 0);
    }
    const mean = meanOf(features, n);
    this.enrolled = [...this.enrolled, { label, samples: n, mean }];
    try {
      await this.use(...this.published);
      if (!this.loaded.labels.includes(label)) throw new BundleError("these classes were made of no sums: a row cannot be told");
    } catch (error) {
      this.enrolled = this.enrolled.slice(0, -1);
      throw error;
    }
  }

  /** Take back a class that was enrolled here; whether there was one. */
  async forget(label) {
    const others = this.enrolled.filter((own) => own.label !== label);
    if (others.length === this.enrolled.length) return false;
    this.enrolled = others;
    await this.use(...this.published);
    return true;
  }

  /** From the next answer on these classes are likely beforehand; null: all alike. */
  expect(prior) {
    if (prior !== null) {
      const { counts, smooth = 2 } = prior;
      if (!(smooth > 0) || !Object.values(counts).every((n) => n >= 0)) {
        throw new BundleError("a prior: counts from 0 up are due, and more than 0 to add");
      }
    }
    this.prior = prior;
  }

  /** The exporter's inputs must give the exporter's scores; where there is no class yet, its features. */
  async tested(vectors) {
    const [which, loaded] = [this.loaded.labels.length ? "score" : "feature", this.loaded];
    const due = vectors?.[which];
    if (!due || !vectors.image) throw new BundleError(`the self-test needs inputs and ${which}s`);
    let [apart, largest, at] = [0, 0, 0];
    for await (const { [which]: { data } } of this.blocks(vectors.image, loaded)) {
      for (let i = 0; i < data.length; i++, at++) {
        apart = Math.max(apart, Math.abs(data[i] - due[at]));
        largest = Math.max(largest, Math.abs(due[at]));
      }
    }
    // Not the other way round: what is no number must fail.
    const same = at === due.length && apart <= this.manifest.tolerance * largest;
    if (!same) throw new BundleError(`the self-test fails: ${which}s differ by ${(apart / largest).toExponential(1)} of the largest`);
  }

  /** Classify by these prototypes from the next call on; what does not fit is refused and nothing changes. */
  async swap(bytes) {
    const bank = readPublished(bytes);
    const state = await sha256(bank.body);
    await this.use(bank, state);
    this.published = [bank, state];
    return state;
  }

  /** The same of a bank that was read, and the classes that were enrolled here and are not in it. */
  async use(plain, state) {
    const bank = this.withEnrolled(plain);
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
    const loaded = { bank, tensors: Object.fromEntries(tensors), held, labels: held.map((c) => bank.classes[c]), state };
    this.loaded = Object.freeze({ ...loaded, inputs, judge: this.judge(loaded, inputs) });
  }

  withEnrolled(plain) {
    const present = new Set(plain.rows.map((c) => plain.classes[c]));
    const absent = this.enrolled.filter((own) => !present.has(own.label)).sort((a, b) => (a.label < b.label ? -1 : 1));
    return absent.reduce((bank, own) => withClass(bank, this.total, own), plain);
  }

  /** What tells unknown things with these classes: the fleet's calibration, else the bundle's check samples. */
  judge({ bank, held }, inputs) {
    if (!held.length) return null;
    if (bank.calibration?.usual) return (square, scores) => unusual(bank.calibration, scores);
    if (!this.seen?.length) return null;
    const [d, [c]] = [this.manifest.embedding, inputs.proto_c ?? []];
    const odd = Array.from({ length: this.seen.length / d }, (_, row) => {
      const f = this.seen.subarray(row * d, (row + 1) * d);
      const away = c ? f.map((v, i) => v - c[i]) : f;
      const x = c ? [...away.map((v) => v * v), ...away] : away;
      return oddness(bank.kind, squared(f), byClass(bank, held, linearly(x, inputs)));
    });
    const cut = quantile(odd, this.manifest.unknown.keep);
    return (square, scores) => oddness(bank.kind, square, scores) > cut;
  }

  /** The graph's answers to samples, some at a time. */
  async *blocks(samples, loaded) {
    const { kind, shape } = this.manifest.input;
    const [size, type] = [shape.reduce((a, b) => a * b, 1), kind === "image" ? "uint8" : "float32"];
    for (let start = 0; start < samples.length; start += BLOCK * size) {
      const block = samples.slice(start, start + BLOCK * size);
      const image = new this.ort.Tensor(type, block, [block.length / size, ...shape]);
      yield await this.session.run({ image, ...loaded.tensors });
    }
  }

  must(samples, n) {
    const { shape } = this.manifest.input;
    if (samples.length !== n * shape.reduce((a, b) => a * b, 1)) throw new BundleError(`${n} samples of ${shape.join("×")} are due`);
  }

  /** `samples`: n of the bundle's inputs one after another, uint8 for images. One answer each, without a label while no
   *  class is known. */
  async classify(samples, n = 1) {
    const [loaded, answers] = [this.loaded, []];
    this.must(samples, n);
    for await (const { score, feature } of this.blocks(samples, loaded)) {
      for (let row = 0; row < feature.dims[0]; row++) answers.push(this.answer(loaded, score, feature, row));
    }
    return answers;
  }

  /** `probabilities` are null where nobody calibrated these scores, `unknown` where there is nothing to tell it by. */
  answer({ bank, held, labels, state, judge, inputs }, score, feature, row) {
    const [p, d] = [bank.rows.length, feature.dims[1]];
    const seen = feature.data.subarray(row * d, (row + 1) * d);
    // A head's rows are differences of large numbers: single precision would be seen in a probability.
    const precise = bank.calibration && bank.kind === "head";
    const mine = precise ? linearly(seen, inputs) : score.data.subarray(row * p, (row + 1) * p);
    const [plain, square] = [byClass(bank, held, mine), squared(seen)];
    const unknown = judge ? judge(square, plain) : null;
    const expected = this.prior && precise && held.length ? withPrior(bank.calibration, plain, labels, this.prior) : null;
    const scores = expected ?? plain;
    const best = scores.indexOf(Math.max(...scores));
    const sure = bank.calibration && held.length ? probabilities(expected ? { temperature: 1 } : bank.calibration, scores) : null;
    return {
      label: this.unknown && unknown ? null : (labels[best] ?? null),
      labels,
      scores,
      distances: bank.kind === "prototypes" ? scores.map((s) => Math.sqrt(Math.max(square - s, 0))) : null,
      probabilities: sure,
      probability: sure?.[best] ?? null,
      unknown,
      state,
    };
  }
}

/** What the graph's last step makes of a feature. */
function linearly(x, { proto_w: [w], proto_b: [b] }) {
  return Array.from(b, (bias, p) => x.reduce((sum, v, i) => sum + v * w[i * b.length + p], bias));
}

function squared(feature) {
  return feature.reduce((sum, v) => sum + v * v, 0);
}

/** Scores of points to scores of classes: the best of a class's prototypes, or all its Gaussians together. */
function byClass({ rows, kind }, held, score) {
  const places = new Map(held.map((c, place) => [c, place]));
  const [top, sum] = [new Array(held.length).fill(-Infinity), new Array(held.length).fill(0)];
  rows.forEach((c, i) => (top[places.get(c)] = Math.max(top[places.get(c)], score[i])));
  if (kind !== "mixtures") return top;
  rows.forEach((c, i) => (sum[places.get(c)] += Math.exp(score[i] - top[places.get(c)])));
  return top.map((t, place) => t + Math.log(sum[place]));
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
