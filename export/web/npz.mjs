// numpy's .npz with arrays of bytes and of floats in full or half precision, as bundles keep them: { name: array }.

import { BundleError, TEXT, half } from "./cbor.mjs";

const END = 0x06054b50;

export async function readNpz(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== END) end--;
  if (end < 0) throw new BundleError("a file of arrays is not readable");
  const found = Object.create(null); // by names of classes, which may be those of an object's own methods
  let at = view.getUint32(end + 16, true);
  for (let i = 0; i < view.getUint16(end + 10, true); i++) {
    const [method, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true)];
    const [name, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const local = view.getUint32(at + 42, true);
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const packed = bytes.subarray(start, start + size);
    const array = values(method === 8 ? await inflated(packed) : packed);
    found[TEXT.decode(bytes.subarray(at + 46, at + 46 + name)).replace(/\.npy$/, "")] = array;
    at += 46 + name + extra + comment;
  }
  return found;
}

async function inflated(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function values(npy) {
  const length = new DataView(npy.buffer, npy.byteOffset).getUint16(8, true);
  const head = TEXT.decode(npy.subarray(10, 10 + length));
  const type = /'descr': '([^']+)'/.exec(head)?.[1];
  const [body, plain] = [npy.slice(10 + length), head.includes("'fortran_order': False")];
  const read = {
    "<f4": () => new Float32Array(body.buffer),
    "<f2": () => Float32Array.from(new Uint16Array(body.buffer), half),
    "|u1": () => body,
  }[type];
  if (npy[6] !== 1 || !read || !plain) throw new BundleError("a file of arrays is not of the known form");
  return read();
}
