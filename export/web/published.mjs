// What a fleet publishes, from its bytes: points and class names, and the sums that heads are made of. docs/wire.md has both.

import { BundleError, TEXT, decodeCbor, half } from "./cbor.mjs";
import { sound } from "./certainty.mjs";

const TYPED = { 64: 1, 72: 1, 79: 8, 84: 2, 85: 4 }; // RFC 8746 tag: bytes a value
const MOST_CLASSES = 65536;
const LARGEST_TOTAL = 32 << 20; // bytes: sums over 4,096 numbers are half of it

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

/** The parts of a message, its body's bytes and what it says of itself. */
function opened(bytes, what) {
  const message = decodeCbor(bytes);
  const body = message instanceof Map ? message.get("body") : null;
  if (message.get?.("v") !== 1 || message.get("t") !== "global" || body?.tag !== 24) {
    throw new BundleError(`these bytes are no ${what}`);
  }
  const parts = decodeCbor(body.value);
  const json = parts.get?.("about")?.get("arrays")?.get("json");
  if (!json) throw new BundleError(`the ${what} do not say what they are`);
  return { parts, body: body.value, about: JSON.parse(TEXT.decode(Uint8Array.from(array(json).data))) };
}

/** The sums of a fleet, as devices count against them: class names, each one's samples and mean, and S as a triangle of
 *  its upper half, row by row. */
export function readTotal(bytes) {
  if (bytes.length > LARGEST_TOTAL) throw new BundleError("the sums are too large");
  const { parts, about } = opened(bytes, "published sums");
  const [means, within] = [parts.get("means"), parts.get("within")?.get("arrays")];
  if (!means?.has("vectors") || !means.has("counts") || !within?.has("entries") || !within.has("exponent")) {
    throw new BundleError("the sums lack means or spread");
  }
  const [vectors, counts, entries, exponent] = [means.get("vectors"), means.get("counts"), within.get("entries"), within.get("exponent")].map(array);
  const [k, d] = vectors.shape;
  if (!k || counts.data.length !== k || counts.data.some((n) => !(n > 0)) || entries.data.length !== (d * (d + 1)) / 2) {
    throw new BundleError("the sums contradict themselves");
  }
  const scale = 2 ** (Math.min(Math.max(exponent.data[0], 0), 128) - 64);
  return { lineage: about.lineage, width: d, counts: counts.data, means: vectors.data, within: entries.data.map((v) => v * scale) };
}

/** What the fleet publishes: class names, lineage and points. */
export function readPublished(bytes) {
  const { parts, body, about } = opened(bytes, "published prototypes");
  const kind = ["prototypes", "mixtures", "head"].find((name) => parts.has(name));
  if (!kind) throw new BundleError("the published prototypes do not say what they are");
  const named = Array.isArray(about.classes) && about.classes.every((name) => name && typeof name === "string");
  if (typeof about.lineage !== "string" || !about.lineage) throw new BundleError("the published prototypes are of no lineage");
  if (!named || about.classes.length > MOST_CLASSES || new Set(about.classes).size < about.classes.length) {
    throw new BundleError("class names that differ are due");
  }
  const points = Object.fromEntries([...parts.get(kind)].filter(([name]) => name !== "kind").map(([n, raw]) => [n, array(raw)]));
  const rows = Array.from(points.classes.data);
  if (about.calibration && !sound(about.calibration)) throw new BundleError("the calibration contradicts itself");
  if (rows.some((c) => !(c < about.classes.length))) throw new BundleError("a prototype is of no class");
  return { ...about, kind, points, rows, body };
}
