// A zip that somebody else made: how much is in it is known before anything of it is unpacked. The rules are those of
// protofleet/exchange/zipped.py.

import { BundleError, TEXT, joined } from "./cbor.mjs";

const [END, END64, ENTRY] = [0x06054b50, 0x07064b50, 0x02014b50];
const [TAIL, LOCATOR, HEADER, LOCAL] = [22, 20, 46, 30]; // bytes of each
const ENTRIES = 64;
const TABLE = ENTRIES * 512;
const [FREE, RATIO] = [64 << 20, 8]; // what any zip may unpack to, and how much more for each byte of its own

/** Its entries by name, each unpacked when `read(name)` asks for it. */
export function opened(bytes, what = "a file of arrays") {
  const wrong = (words) => new BundleError(`${what} is not readable: ${words}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length - TAIL;
  if (end < 0 || view.getUint32(end, true) !== END) throw wrong("it does not end as a zip does");
  const [disk, first, here, count, comment] = [4, 6, 8, 10, 20].map((at) => view.getUint16(end + at, true));
  const [table, start] = [view.getUint32(end + 12, true), view.getUint32(end + 16, true)];
  const second = end >= LOCATOR && view.getUint32(end - LOCATOR, true) === END64;
  const plain = !second && !disk && !first && here === count && !comment && start + table === end;
  if (!plain || count > ENTRIES || table > TABLE) throw wrong(`${count} entries in ${table} bytes`);
  const entries = new Map();
  let [at, total] = [start, 0];
  for (let i = 0; i < count; i++) {
    if (at + HEADER > end || view.getUint32(at, true) !== ENTRY) throw wrong("its table is torn");
    const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
    const [packed, size, local] = [20, 24, 42].map((offset) => view.getUint32(at + offset, true));
    const [long, extra, note] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const name = TEXT.decode(bytes.subarray(at + HEADER, at + HEADER + long));
    if (entries.has(name)) throw wrong("two entries of one name");
    if (flags & 1 || (method !== 0 && method !== 8)) throw wrong("an entry is packed in a way of its own");
    if (local + LOCAL > start) throw wrong("an entry lies outside of it");
    const begin = local + LOCAL + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    if (begin + packed > start) throw wrong("an entry lies outside of it");
    entries.set(name, { method, size, packed: bytes.subarray(begin, begin + packed) });
    total += size;
    at += HEADER + long + extra + note;
  }
  if (total > FREE + RATIO * bytes.length) throw wrong(`${bytes.length} bytes that unpack to ${total}`);
  return {
    names: () => [...entries.keys()],
    async read(name, largest = Infinity) {
      const entry = entries.get(name);
      if (!entry) throw wrong(`${name} is missing`);
      if (entry.size > largest) throw wrong(`${name} holds ${entry.size} bytes`);
      const data = entry.method ? await inflated(entry.packed, "deflate-raw", entry.size) : entry.packed;
      if (data?.length !== entry.size) throw wrong(`${name} is not as large as it says`);
      return data;
    },
  };
}

/** Unpacked bytes, null where they are no such stream or become more than `largest`. */
export async function inflated(packed, form, largest) {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream(form)).getReader();
  const parts = [];
  let size = 0;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.length;
      if (size > largest) return null;
      parts.push(part.value);
    }
  } catch {
    return null;
  } finally {
    reader.cancel().catch(() => {});
  }
  return joined(parts, size);
}
