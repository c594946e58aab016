#!/usr/bin/env node
// onnxruntime-web's machine code, packed, into the folder that a site's files come from: npx protofleet-wasm public
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const NAME = "ort-wasm-simd-threaded.wasm";
const [folder, ...more] = process.argv.slice(2);
if (!folder || folder.startsWith("-") || more.length) {
  console.error(`usage: protofleet-wasm FOLDER\n\nWrites ${NAME}.gz of the onnxruntime-web that is installed here, for prepared(ort, { wasm }).`);
  process.exit(2);
}
try {
  const code = await readFile(createRequire(resolve("package.json")).resolve(`onnxruntime-web/${NAME}`));
  const packed = gzipSync(code, { level: 9 });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${NAME}.gz`), packed);
  console.log(`${join(folder, NAME)}.gz: ${packed.length} bytes of ${code.length}`);
} catch (error) {
  console.error(error.code === "MODULE_NOT_FOUND" ? "onnxruntime-web is not installed here: npm install onnxruntime-web" : error.message);
  process.exit(1);
}
