// numpy's .npz with arrays of bytes and of floats in full or half precision, as bundles keep them: { name: array }.

import { BundleError, TEXT, half } from "./cbor.mjs";
import { opened } from "./zipped.mjs";

export async function readNpz(bytes) {
  const packed = opened(bytes);
  const arrays = Object.create(null); // by names of classes, which may be those of an object's own methods
  for (const name of packed.names()) arrays[name.replace(/\.npy$/, "")] = values(await packed.read(name));
  return arrays;
}

function values(npy) {
  const unknown = () => new BundleError("a file of arrays is not of the known form");
  if (npy.length < 10 || npy[6] !== 1) throw unknown();
  const length = new DataView(npy.buffer, npy.byteOffset).getUint16(8, true);
  const head = TEXT.decode(npy.subarray(10, 10 + length));
  const type = /'descr': '([^']+)'/.exec(head)?.[1];
  const shape = /'shape': \(([\d, ]*)\)/.exec(head)?.[1];
  const [body, plain] = [npy.slice(10 + length), head.includes("'fortran_order': False")];
  const [size, read] =
    {
      "<f4": [4, () => new Float32Array(body.buffer)],
      "<f2": [2, () => Float32Array.from(new Uint16Array(body.buffer), half)],
      "|u1": [1, () => body],
    }[type] ?? [];
  if (!read || !plain || shape === undefined) throw unknown();
  const sizes = shape.split(",").filter((part) => part.trim());
  if (sizes.reduce((product, part) => product * Number(part), size) !== body.length) throw unknown();
  return read();
}
