// Classify raw samples with a bundle's folder, before and after each swap: node client.mjs ORT BUNDLE SAMPLES N SWAP...
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { Classifier } from "../../../export/web/protofleet.mjs";
import { asked } from "./told.mjs";

const [runtime, bundle, samples, count, ...files] = process.argv.slice(2);
const ort = await import(pathToFileURL(runtime).href);
ort.env.wasm.numThreads = 1;
const read = async (name) => new Uint8Array(await readFile(name));
const classifier = await Classifier.open(ort, (name) => read(`${bundle}/${name}`), {}, { unknown: true });
const swaps = await Promise.all(files.map(read));
classifier.expect(JSON.parse(process.env.PRIOR ?? "null"));
const answers = await asked(classifier, await read(samples), Number(count), swaps);
let refused = "";
try {
  await classifier.swap(swaps[0].slice(0, -3));
} catch (error) {
  refused = error.message;
}
// A pipe takes it in pieces: who ends before the last one cuts it short.
process.stdout.write(JSON.stringify({ answers, refused }), () => process.exit(0));
