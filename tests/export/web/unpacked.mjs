// What is wrong with each bundle, or its name: node unpacked.mjs NAME FILE...
import { readFile } from "node:fs/promises";
import { unpacked } from "../../../export/web/protofleet.mjs";

const [name, ...files] = process.argv.slice(2);
const words = [];
for (const file of files) {
  const pfb = new Uint8Array(await readFile(file));
  words.push(await unpacked(pfb, name).then((bundle) => bundle.digest, (error) => error.message));
}
console.log(JSON.stringify(words));
