// Published points as the inputs of a bundle's graph, and what its scores say of classes: the arithmetic of
// edge_agent/inference/inputs.py.

import { BundleError } from "./cbor.mjs";

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

/** What the graph's last step makes of a feature. */
export function linearly(x, { proto_w: [w], proto_b: [b] }) {
  return Array.from(b, (bias, p) => x.reduce((sum, v, i) => sum + v * w[i * b.length + p], bias));
}

export function squared(feature) {
  return feature.reduce((sum, v) => sum + v * v, 0);
}

/** Scores of points to scores of classes: the best of a class's prototypes, or all its Gaussians together. */
export function byClass({ rows, kind }, held, score) {
  const places = new Map(held.map((c, place) => [c, place]));
  const [top, sum] = [new Array(held.length).fill(-Infinity), new Array(held.length).fill(0)];
  rows.forEach((c, i) => (top[places.get(c)] = Math.max(top[places.get(c)], score[i])));
  if (kind !== "mixtures") return top;
  rows.forEach((c, i) => (sum[places.get(c)] += Math.exp(score[i] - top[places.get(c)])));
  return top.map((t, place) => t + Math.log(sum[place]));
}
