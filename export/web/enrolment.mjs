// A class more from a few photos: the arithmetic of protofleet/statistics/addition.py and contribution.py, in double
// precision. A device that is shown five photos answers them at once, with the row that the fleet would make.

import { BundleError } from "./cbor.mjs";

const [BELIEVED, USUAL] = [32, 20]; // as closed_form.py has them
const MEAN_STEPS = 2 ** 15;

/** The mean of n rows that lie one after another, on the grid that contributions travel on. */
export function meanOf(features, n) {
  const d = features.length / n;
  if (!Number.isInteger(d) || !d) throw new BundleError("photos of one size are due");
  const sums = new Float64Array(d);
  let largest = 0;
  for (let row = 0; row < n; row++) {
    for (let i = 0; i < d; i++) {
      const v = features[row * d + i];
      if (!Number.isFinite(v)) throw new BundleError("a feature is not finite");
      sums[i] += v;
      largest = Math.max(largest, Math.abs(v));
    }
  }
  const step = 2 ** (largest < MEAN_STEPS * 2 ** -10 ? -10 : over(largest));
  const most = MEAN_STEPS - 1;
  return sums.map((sum) => Math.min(Math.max(toEven(toHalf(sum / n) / step), -most), most) * step);
}

function over(largest) {
  return Math.min(Math.max(Math.ceil(Math.log2((2 * largest) / MEAN_STEPS)), -10), 8);
}

function toEven(v) {
  const down = Math.floor(v);
  const rest = v - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

/** The nearest number of half precision. */
function toHalf(v) {
  if (!v) return v;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(v))), -14) - 10);
  return toEven(v / step) * step;
}

/** The bank with a class more, under a number of its own. */
export function withClass(bank, total, own) {
  const named = bank.classes.includes(own.label);
  const classes = named ? bank.classes : [...bank.classes, own.label];
  const id = classes.indexOf(own.label);
  if (bank.kind === "prototypes") return { ...bank, ...placed(bank, id, { vectors: [own.mean] }), classes };
  const sure = bank.calibration;
  // Of a head's classes nothing but rows is here: without the sums there is no telling a new one's.
  if (!total || !(sure?.shrinkage > 0)) return bank;
  const [row, bias] = rowOf(total, sure, own);
  return { ...bank, ...placed(bank, id, { weight: [row], bias: [bias] }), classes };
}

/** Points with one more, in the order of class numbers. */
function placed(bank, id, more) {
  const at = bank.rows.filter((c) => c <= id).length;
  const points = Object.fromEntries(
    Object.entries(bank.points).map(([name, { shape, data }]) => {
      if (!more[name]) return [name, { shape, data }];
      const width = shape[1] ?? 1;
      const fresh = shape.length > 1 ? more[name][0] : more[name];
      const all = Float64Array.from([...data.slice(0, at * width), ...fresh, ...data.slice(at * width)]);
      return [name, { shape: [shape[0] + 1, ...shape.slice(1)], data: all }];
    }),
  );
  return { points, rows: [...bank.rows.slice(0, at), id, ...bank.rows.slice(at)] };
}

/** The new class's row and bias: `with_class` of addition.py. */
function rowOf(total, { shrinkage, distance }, own) {
  const [d, k] = [total.width, total.counts.length];
  if (own.mean.length !== d) throw new BundleError("the sums are of another extractor");
  const centre = new Float64Array(d);
  for (let c = 0; c < k; c++) for (let i = 0; i < d; i++) centre[i] += total.means[c * d + i] / k;
  const offsets = Array.from({ length: k + 1 }, (_, c) =>
    Float64Array.from({ length: d }, (_, i) => (c < k ? total.means[c * d + i] : own.mean[i]) - centre[i]),
  );
  const lower = factor(total, shrinkage);
  const apart = offsets.map((offset) => {
    // ‖L⁻¹ x‖² is xᵀ S⁻¹ x: half of what solving takes, and the row is of the new class alone.
    return forward(lower, d, offset).reduce((sum, v) => sum + v * v, 0);
  });
  const counts = [...total.counts, own.samples];
  const sorted = [...counts].sort((a, b) => a - b);
  const median = (sorted[(k + 1 - 1) >> 1] + sorted[(k + 1) >> 1]) / 2;
  const usual = counts.map((n, c) => [n, apart[c]]).filter(([n]) => n >= Math.min(USUAL, median));
  const mean = usual.reduce((sum, [n, far]) => sum + far - distance / n, 0) / usual.length;
  const between = Math.max(mean, distance / BELIEVED, 1e-9);
  const share = between / (between + distance / own.samples);
  const row = backward(lower, d, forward(lower, d, offsets[k])).map((v) => share * v);
  const bias = 0.5 * (between * (1 - share) - share ** 2 * apart[k]) - row.reduce((sum, v, i) => sum + v * centre[i], 0);
  return [row.map(Math.fround), Math.fround(bias)];
}

const factors = new WeakMap(); // of the sums that are in use: a second's work at 1,280 numbers

/** The Cholesky factor of S_ρ, row by row, its lower half alone. */
function factor(total, shrinkage) {
  const made = factors.get(total);
  if (made?.shrinkage === shrinkage) return made.lower;
  const d = total.width;
  let trace = 0;
  for (let i = 0, at = 0; i < d; at += d - i, i++) trace += total.within[at];
  const floor = shrinkage * Math.max(trace / d, 1e-12);
  const lower = new Float64Array((d * (d + 1)) / 2);
  for (let i = 0; i < d; i++) {
    const own = (i * (i + 1)) / 2;
    for (let j = 0; j <= i; j++) {
      const other = (j * (j + 1)) / 2;
      // Entry (j, i) of the upper triangle, whose row j begins at j d − j (j − 1) / 2.
      let sum = total.within[j * d - (j * (j - 1)) / 2 + i - j] + (i === j ? floor : 0);
      for (let t = 0; t < j; t++) sum -= lower[own + t] * lower[other + t];
      if (i === j && !(sum > 0)) throw new BundleError("the sums have no inverse");
      lower[own + j] = i === j ? Math.sqrt(sum) : sum / lower[other + j];
    }
  }
  factors.set(total, { shrinkage, lower });
  return lower;
}

/** L⁻¹ b. */
function forward(lower, d, b) {
  const x = Float64Array.from(b);
  for (let i = 0; i < d; i++) {
    const own = (i * (i + 1)) / 2;
    for (let t = 0; t < i; t++) x[i] -= lower[own + t] * x[t];
    x[i] /= lower[own + i];
  }
  return x;
}

/** L⁻ᵀ b. */
function backward(lower, d, b) {
  const x = Float64Array.from(b);
  for (let i = d - 1; i >= 0; i--) {
    const own = (i * (i + 1)) / 2;
    x[i] /= lower[own + i];
    for (let t = 0; t < i; t++) x[t] -= lower[own + t] * x[i];
  }
  return x;
}
