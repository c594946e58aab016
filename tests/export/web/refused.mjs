// What is wrong with each published message, or nothing: node refused.mjs DRIFT FILE...
import { readFile } from "node:fs/promises";
import { readNpz } from "../../../export/web/npz.mjs";
import { ready } from "../../../export/web/inputs.mjs";
import { readPublished } from "../../../export/web/protofleet.mjs";

const bytes = async (file) => new Uint8Array(await readFile(file));
const [drift, ...files] = process.argv.slice(2);
const moves = await readNpz(await bytes(drift));
const words = [];
for (const file of files) {
  try {
    const bank = readPublished(await bytes(file));
    ready(bank, { by: "prototypes", metric: "euclidean", of_unit: false, through: "" }, moves);
    words.push("");
  } catch (error) {
    words.push(error.message);
  }
}
process.stdout.write(JSON.stringify(words));
