// An extractor ready to run: a bundle's graph in a session of onnxruntime, with what it takes to make published points its
// inputs. Nothing in here changes once it is made; classifier.mjs holds one of these and replaces it as a whole.

import { BundleError } from "./cbor.mjs";
import { oddness, probabilities, quantile, unusual, withPrior } from "./certainty.mjs";
import { check as checkGraph } from "./graph.mjs";
import { byClass, linearly, ready, squared } from "./inputs.mjs";
import { readNpz } from "./npz.mjs";

const [BLOCK, PIXELS] = [64, 1 << 15]; // samples a call, and of large images fewer: what layers hold grows with their size

/** A bundle's engine, its self-test run. `runtime` is onnxruntime, or a function that brings it. */
export async function built(runtime, bundle, options, { unknown, check }) {
  checkGraph(bundle.files["model.onnx"]);
  const ort = await (typeof runtime === "function" ? runtime() : runtime);
  let session;
  try {
    // What was walked is what is loaded: onnxruntime would take the same bytes for its own format.
    const extra = { ...options.extra, session: { ...options.extra?.session, load_model_format: "ONNX" } };
    session = await ort.InferenceSession.create(bundle.files["model.onnx"], { ...options, extra });
  } catch (error) {
    throw new BundleError(`the graph cannot be loaded: ${words(error)}`);
  }
  try {
    const arrays = async (name) => (bundle.files[name] ? readNpz(bundle.files[name]) : null);
    const seen = unknown ? ((await arrays("calibration.npz"))?.features ?? null) : null;
    const engine = new Engine(ort, session, bundle, { drift: await arrays("drift.npz"), seen, unknown });
    if (check) await engine.tested(await arrays("selftest.npz"), bundle.published);
    return engine;
  } catch (error) {
    await session.release?.();
    throw error;
  }
}

class Engine {
  constructor(ort, session, { manifest, digest }, { drift, seen, unknown }) {
    Object.assign(this, { ort, session, manifest, digest, drift, seen, unknown, running: 0, retired: false });
    const [ins, outs] = [["image", "proto_w", "proto_b", ...(manifest.reading.by === "mixtures" ? ["proto_c"] : [])], ["score", "feature"]];
    const same = (all, due) => all.length === due.length && due.every((name) => all.includes(name));
    if (!same(session.inputNames, ins) || !same(session.outputNames, outs)) {
      throw new BundleError("the graph has other inputs or outputs than a bundle's");
    }
    const d = manifest.embedding;
    if (drift && !Object.values(drift).every((row) => row.length === d)) throw new BundleError("drift.npz: rows of the feature's size are due");
    if (seen && seen.length % d) throw new BundleError("calibration.npz: rows of the feature's size are due");
  }

  /** Points as inputs of this graph; what does not fit is refused. */
  load(bank, state) {
    const { lineages, reading, embedding, classes } = this.manifest;
    if (!lineages.includes(bank.lineage)) {
      throw new BundleError(`these prototypes are of ${bank.lineage}, this bundle is of ${lineages[0]}`);
    }
    const inputs = ready(bank, reading, this.drift);
    const width = embedding * (bank.kind === "mixtures" ? 2 : 1);
    // An extractor that came without classes may lose all of them again.
    const none = !bank.rows.length && classes.length > 0;
    if (inputs.proto_w[1][0] !== width || none) throw new BundleError("these points have another size");
    const tensors = Object.entries(inputs).map(([name, [data, shape]]) => [name, new this.ort.Tensor("float32", data, shape)]);
    const held = [...new Set(bank.rows)].sort((a, b) => a - b);
    const loaded = { bank, tensors: Object.fromEntries(tensors), held, labels: held.map((c) => bank.classes[c]), state };
    return Object.freeze({ ...loaded, inputs, judge: this.judge(loaded, inputs) });
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

  must(samples, n) {
    const { kind, shape } = this.manifest.input;
    const type = kind === "image" ? Uint8Array : Float32Array;
    const bytes = kind === "image" && samples instanceof Uint8ClampedArray;
    if (!(samples instanceof type || bytes)) throw new BundleError(`samples in a ${type.name} are due`);
    if (samples.length !== n * shape.reduce((a, b) => a * b, 1)) throw new BundleError(`${n} samples of ${shape.join("×")} are due`);
  }

  /** The graph's answers to samples, some at a time. */
  async *blocks(samples, loaded) {
    const { kind, shape } = this.manifest.input;
    const size = shape.reduce((a, b) => a * b, 1);
    const each = size * Math.max(1, Math.min(BLOCK, Math.floor(PIXELS / (shape.length === 3 ? shape[0] * shape[1] : 1))));
    this.running += 1;
    try {
      for (let start = 0; start < samples.length; start += each) {
        const block = samples.slice(start, start + each);
        const n = block.length / size;
        const image = new this.ort.Tensor(kind === "image" ? "uint8" : "float32", kind === "image" ? Uint8Array.from(block) : block, [n, ...shape]);
        const answer = await this.session.run({ image, ...loaded.tensors }).catch((error) => {
          throw new BundleError(`the graph cannot be run: ${words(error)}`);
        });
        const due = { score: [n, loaded.bank.rows.length], feature: [n, this.manifest.embedding] };
        const sized = Object.entries(due).every(([name, dims]) => answer[name]?.dims.join() === dims.join());
        if (!sized) throw new BundleError("the graph gives scores or features of other sizes than a bundle's");
        yield answer;
      }
    } finally {
      this.running -= 1;
      this.free();
    }
  }

  /** Another one is in use: what runs ends, and then the session's memory goes. */
  retire() {
    this.retired = true;
    this.free();
  }

  free() {
    if (!this.retired || this.running) return;
    this.retired = false;
    Promise.resolve(this.session.release?.()).catch(() => {});
  }

  /** One answer each, without a label while no class is known. */
  async look(samples, n, loaded, { unknown, prior }) {
    const answers = [];
    for await (const { score, feature } of this.blocks(samples, loaded)) {
      for (let row = 0; row < feature.dims[0]; row++) answers.push(this.answer(loaded, { score, feature, row }, { unknown, prior }));
    }
    return answers;
  }

  /** `probabilities` are null where nobody calibrated these scores, `unknown` where there is nothing to tell it by. */
  answer({ bank, held, labels, state, judge, inputs }, { score, feature, row }, { unknown: telling, prior }) {
    const [p, d] = [bank.rows.length, feature.dims[1]];
    const seen = feature.data.subarray(row * d, (row + 1) * d);
    // A head's rows are differences of large numbers: single precision would be seen in a probability.
    const precise = bank.calibration && bank.kind === "head";
    const mine = precise ? linearly(seen, inputs) : score.data.subarray(row * p, (row + 1) * p);
    const [plain, square] = [byClass(bank, held, mine), squared(seen)];
    const unknown = judge ? judge(square, plain) : null;
    const expected = prior && precise && held.length ? withPrior(bank.calibration, plain, labels, prior) : null;
    const scores = expected ?? plain;
    const best = scores.indexOf(Math.max(...scores));
    const sure = bank.calibration && held.length ? probabilities(expected ? { temperature: 1 } : bank.calibration, scores) : null;
    return {
      label: telling && unknown ? null : (labels[best] ?? null),
      labels,
      scores,
      distances: bank.kind === "prototypes" ? scores.map((s) => Math.sqrt(Math.max(square - s, 0))) : null,
      probabilities: sure,
      probability: sure?.[best] ?? null,
      unknown,
      state,
    };
  }

  /** Features of n samples as the float extractor would see them, which is what a fleet shares. */
  async features(samples, n, loaded) {
    const [off, d] = [this.drift?.[""], this.manifest.embedding];
    const all = new Float64Array(n * d);
    let at = 0;
    for await (const { feature: { data } } of this.blocks(samples, loaded)) {
      for (let i = 0; i < data.length; i++, at++) all[at] = data[i] - (off ? off[at % d] : 0);
    }
    return all;
  }

  /** The exporter's inputs must give the exporter's scores; where there is no class yet, its features. */
  async tested(vectors, published) {
    const loaded = this.load(published, "");
    const which = loaded.labels.length ? "score" : "feature";
    const due = vectors?.[which];
    if (!due?.length || !vectors.image) throw new BundleError(`the self-test needs inputs and ${which}s`);
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
}

function words(error) {
  return String(error?.message ?? error).split(/\s+/).join(" ").slice(0, 160);
}
