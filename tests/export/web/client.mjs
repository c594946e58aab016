// Classify raw samples with a bundle's folder, before and after a swap: node client.mjs ORT BUNDLE SAMPLES N SWAP
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { Classifier } from "../../../export/web/protofleet.mjs";

const [runtime, bundle, samples, count, swap] = process.argv.slice(2);
const ort = await import(pathToFileURL(runtime).href);
ort.env.wasm.numThreads = 1;
const load = async (name) => new Uint8Array(await readFile(`${bundle}/${name}`));
const classifier = await Classifier.open(ort, load);
const x = new Uint8Array(await readFile(samples));
const before = await classifier.classify(x, Number(count));
await classifier.swap(new Uint8Array(await readFile(swap)));
const after = await classifier.classify(x, Number(count));
const told = (answers) => ({ labels: answers.map((a) => a.label), scores: answers.map((a) => a.scores), state: answers[0].state });
let refused = "";
try {
  await classifier.swap(new Uint8Array(await readFile(swap)).slice(0, -3));
} catch (error) {
  refused = error.message;
}
console.log(JSON.stringify({ before: told(before), after: told(after), refused }));
process.exit(0);
