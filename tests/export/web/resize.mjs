// One picture after another at its size: node resize.mjs FILE, whose lines are JSON of sizes and base64 of pixels.
import { readFile } from "node:fs/promises";
import { fromPicture } from "../../../export/web/protofleet.mjs";

for (const line of (await readFile(process.argv[2], "utf8")).trim().split("\n")) {
  const { width, height, shape, rgba } = JSON.parse(line);
  const fed = fromPicture(new Uint8Array(Buffer.from(rgba, "base64")), width, height, shape);
  console.log(Buffer.from(fed).toString("base64"));
}
