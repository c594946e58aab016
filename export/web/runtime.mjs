// onnxruntime's machine code for browsers is most of what a page loads. A server that compresses nothing sends 14 MB; packed
// beforehand it is a quarter of that, and the browser unpacks it.

import { BundleError } from "./cbor.mjs";
import { inflated } from "./zipped.mjs";

const LARGEST = 128 << 20;

/** onnxruntime-web ready to run: on so many threads, with machine code from `wasm`, which is a `.wasm` or a `.wasm.gz`, as an
 *  address or as bytes. */
export async function prepared(ort, { wasm = null, threads = 1 } = {}) {
  ort.env.wasm.numThreads = threads;
  if (wasm !== null) ort.env.wasm.wasmBinary = await code(wasm instanceof Uint8Array ? wasm : await fetched(wasm));
  return ort;
}

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new BundleError(`${address}: the server says ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

// Some servers say of a file `.gz` that it is compressed, and then the browser has unpacked it already.
async function code(bytes) {
  const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? await inflated(bytes, "gzip", LARGEST) : bytes;
  if (plain?.[0] !== 0 || plain[1] !== 0x61 || plain[2] !== 0x73 || plain[3] !== 0x6d) throw new BundleError("this is no machine code for browsers");
  return plain;
}
