// A program of Node's: node out/node.js BUNDLE.pfb SAMPLES N
import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web/wasm";
import { Classifier, prepared, unpacked } from "protofleet";

const [pfb = "", samples = "", n = "1"] = process.argv.slice(2);
const read = async (name: string) => new Uint8Array(await readFile(name));
const classifier = await Classifier.of(() => prepared(ort), await unpacked(await read(pfb)), {}, { unknown: true });
const answers = await classifier.classify(await read(samples), Number(n));
process.stdout.write(JSON.stringify({ bundle: classifier.bundle, answers }), () => process.exit(0));
