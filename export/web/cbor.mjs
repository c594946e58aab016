// The deterministic subset of CBOR that ProtoFleet speaks: docs/wire.md has it.

export const TEXT = new TextDecoder("utf-8", { fatal: true });
const LONGEST = 64 << 20;

export class BundleError extends Error {}

/** The deterministic subset of CBOR that ProtoFleet writes. */
export function decodeCbor(bytes) {
  if (bytes.length > LONGEST) throw new BundleError("the message is too long");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (n) => {
    if (at + n > bytes.length) throw new BundleError("the message is cut short");
    at += n;
    return at - n;
  };
  const length = (info) => {
    if (info < 24) return info;
    if (info === 24) return view.getUint8(take(1));
    if (info === 25) return view.getUint16(take(2));
    if (info === 26) return view.getUint32(take(4));
    if (info === 27) return Number(view.getBigUint64(take(8)));
    throw new BundleError("the message is not of the known form");
  };
  const slice = (n) => bytes.subarray(take(n), at);
  const value = (depth) => {
    if (depth > 16) throw new BundleError("the message is nested too deep");
    const head = view.getUint8(take(1));
    const [major, info] = [head >> 5, head & 31];
    if (major === 7) {
      if (info === 20 || info === 21) return info === 21;
      if (info === 22) return null;
      if (info === 25) return half(view.getUint16(take(2)));
      if (info === 26) return view.getFloat32(take(4));
      if (info === 27) return view.getFloat64(take(8));
      throw new BundleError("the message is not of the known form");
    }
    const n = length(info);
    if (major === 0) return n;
    if (major === 1) return -1 - n;
    if (major === 2) return slice(n);
    if (major === 3) return TEXT.decode(slice(n));
    if (major === 6) return { tag: n, value: value(depth + 1) };
    if (n > bytes.length) throw new BundleError("the message is cut short");
    if (major === 4) return Array.from({ length: n }, () => value(depth + 1));
    const map = new Map();
    for (let i = 0; i < n; i++) map.set(value(depth + 1), value(depth + 1));
    if (map.size < n) throw new BundleError("a key stands twice");
    return map;
  };
  const found = value(0);
  if (at !== bytes.length) throw new BundleError("the message has bytes to spare");
  return found;
}

export function half(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) throw new BundleError("a number is not finite");
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** Maps (as objects), lists, text, whole numbers, bytes and { tag, value } as bytes; keys in their one order. */
export function encodeCbor(value) {
  const parts = [];
  const head = (major, n) => {
    const bytes = n < 24 ? [n] : n < 256 ? [24, n] : n < 65536 ? [25, n >> 8, n & 255] : null;
    if (bytes) return parts.push(Uint8Array.from([(major << 5) | bytes[0], ...bytes.slice(1)]));
    const view = new DataView(new ArrayBuffer(n < 2 ** 32 ? 5 : 9));
    view.setUint8(0, (major << 5) | (n < 2 ** 32 ? 26 : 27));
    if (n < 2 ** 32) view.setUint32(1, n);
    else view.setBigUint64(1, BigInt(n));
    parts.push(new Uint8Array(view.buffer));
  };
  const text = new TextEncoder();
  const write = (each) => {
    if (each instanceof Uint8Array) {
      head(2, each.length);
      parts.push(each);
    } else if (typeof each === "string") {
      const bytes = text.encode(each);
      head(3, bytes.length);
      parts.push(bytes);
    } else if (Number.isInteger(each) && each >= 0) {
      head(0, each);
    } else if (Array.isArray(each)) {
      head(4, each.length);
      each.forEach(write);
    } else if (each?.tag !== undefined) {
      head(6, each.tag);
      write(each.value);
    } else if (each && typeof each === "object") {
      const entries = Object.entries(each).sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
      head(5, entries.length);
      entries.flat().forEach(write);
    } else {
      throw new BundleError("a value that cannot be sent");
    }
  };
  write(value);
  return joined(parts, parts.reduce((sum, part) => sum + part.length, 0));
}

/** Pieces one after another. */
export function joined(parts, size) {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
