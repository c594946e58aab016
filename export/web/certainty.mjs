// How sure an answer is, and what is unknown: the arithmetic of protofleet/statistics/reliability.py, to its last digits.

const COLDEST = 2 ** -20; // a temperature: scores divided by one next to 0 are no numbers

/** Whether a calibration is one: it comes over the wire. */
export function sound({ temperature, confidences = [], probabilities: shares = [], usual = null }) {
  const rising = (all) => all.every((v, i) => v >= (all[i - 1] ?? 0) && v <= 1);
  const knots = confidences.length === shares.length && rising(confidences) && rising(shares);
  return temperature >= COLDEST && temperature < Infinity && knots && (usual === null || usual[0] <= usual[1]);
}

/** Of each class, by a fleet's calibration: softmax at its temperature, the best class's share read off its knots, and
 *  the others in what that leaves. */
export function probabilities({ temperature, confidences = [], probabilities: shares = [] }, scores) {
  const top = Math.max(...scores);
  const raised = scores.map((s) => Math.exp(s / temperature - top / temperature));
  const sum = raised.reduce((a, b) => a + b, 0);
  const plain = raised.map((r) => r / sum);
  if (!confidences.length) return plain;
  const best = scores.indexOf(top);
  const mapped = between(plain[best], confidences, shares);
  const others = plain.reduce((a, b, i) => (i === best ? a : a + b), 0);
  return plain.map((p, i) => (i === best ? mapped : Math.min(mapped, p * ((1 - mapped) / Math.max(others, 1e-300)))));
}

/** Scores where a device's own counts of each class are its prior: the arithmetic of protofleet/statistics/prior.py. As they
 *  are where it labelled none of these. */
export function withPrior({ temperature }, scores, labels, { counts, smooth = 2 }) {
  const own = labels.map((label) => (Object.hasOwn(counts, label) ? counts[label] : 0));
  if (!own.some((n) => n > 0)) return null;
  const all = own.reduce((sum, n) => sum + n + smooth, 0);
  return scores.map((s, i) => s / Math.min(temperature, 2) + Math.log((own[i] + smooth) / all));
}

/** Between knots in rising order, and flat beyond them (numpy's interp). */
function between(x, knots, values) {
  if (x <= knots[0]) return values[0];
  for (let i = 1; i < knots.length; i++) {
    if (x >= knots[i]) continue;
    return values[i - 1] + ((values[i] - values[i - 1]) / (knots[i] - knots[i - 1])) * (x - knots[i - 1]);
  }
  return values.at(-1);
}

/** Whether these scores lie outside of what is usual in the fleet. */
export function unusual({ usual: [least, most] }, scores) {
  const odd = -Math.max(...scores);
  return odd < least || odd > most;
}

/** How little a sample is like any class, by a bundle's own check samples: squared distance, minus log likelihood, or a
 *  head's energy. `square` is the feature's own. */
export function oddness(kind, square, scores) {
  const top = Math.max(...scores);
  if (kind === "prototypes") return square - top;
  if (kind === "mixtures") return -top;
  return -(top + Math.log(scores.reduce((sum, s) => sum + Math.exp(s - top), 0)));
}

/** What the share `keep` of these lies below (numpy's quantile). */
export function quantile(values, keep) {
  const sorted = Float64Array.from(values).sort();
  const place = keep * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}
