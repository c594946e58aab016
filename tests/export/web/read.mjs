// Each prototype of a published message as float32, its class before it: node read.mjs FILE
import { readFile } from "node:fs/promises";
import { readPublished } from "../../../export/web/protofleet.mjs";

const { points, rows } = readPublished(new Uint8Array(await readFile(process.argv[2])));
const [, d] = points.vectors.shape;
const all = rows.flatMap((c, i) => [c, ...points.vectors.data.slice(i * d, (i + 1) * d)]);
process.stdout.write(new Uint8Array(Float32Array.from(all).buffer));
