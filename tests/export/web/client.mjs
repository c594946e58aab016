// Classify raw samples with a bundle's folder, before and after each swap: node client.mjs PAGE BUNDLE SAMPLES N SWAP...
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { Classifier, prepared } from "../../../export/web/protofleet.mjs";
import { asked } from "./told.mjs";

const [page, bundle, samples, count, ...files] = process.argv.slice(2);
const read = async (name) => new Uint8Array(await readFile(name));
const code = await read(`${page}/ort-wasm-simd-threaded.wasm.gz`);
const runtime = async () => prepared(await import(pathToFileURL(`${page}/ort.wasm.bundle.min.mjs`).href), { wasm: code });
const classifier = await Classifier.open(runtime, (name) => read(`${bundle}/${name}`), {}, { unknown: true });
const swaps = await Promise.all(files.map(read));
classifier.expect(JSON.parse(process.env.PRIOR ?? "null"));
const answers = await asked(classifier, await read(samples), Number(count), swaps);
let refused = "";
try {
  await classifier.swap(swaps[0].slice(0, -3));
} catch (error) {
  refused = error.message;
}
// A class more by a few photos; beside the same state again; and gone once a state has it itself.
const enrolled = [];
if (process.env.ENROL) {
  const { total, photos, n, label } = JSON.parse(process.env.ENROL);
  const say = async () => enrolled.push(...(await asked(classifier, await read(samples), Number(count), [])));
  const errors = [];
  await classifier.swap(swaps[0]);
  const attempts = [
    () => classifier.enroll(label, photos, n),
    async () => classifier.sums((await read(total)).slice(0, -1)),
    async () => classifier.sums(await read(total)),
    async () => classifier.enroll(label, (await read(photos)).slice(1), n),
    async () => classifier.enroll(label, await read(photos), n),
    async () => classifier.enroll(label, await read(photos), n),
  ];
  for (const attempt of attempts) errors.push(await attempt().then(() => "", (error) => error.message));
  await say();
  await classifier.swap(swaps[0]);
  await say();
  await classifier.swap(swaps[1]);
  await say();
  await classifier.swap(swaps[0]);
  await classifier.forget(label);
  await say();
  enrolled.push(errors);
}
// A pipe takes it in pieces: who ends before the last one cuts it short.
process.stdout.write(JSON.stringify({ answers, refused, enrolled }), () => process.exit(0));
