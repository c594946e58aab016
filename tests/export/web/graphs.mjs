// What is wrong with each graph, or nothing, and the operators that are let in: node graphs.mjs FILE, a base64 a line.
import { readFile } from "node:fs/promises";
import { OPERATORS, check } from "../../../export/web/graph.mjs";

const words = (await readFile(process.argv[2], "utf8")).split("\n").map((line) => {
  try {
    check(new Uint8Array(Buffer.from(line, "base64")));
    return "";
  } catch (error) {
    return error.message;
  }
});
console.log(JSON.stringify({ words, operators: [...OPERATORS] }));
