// What a classifier and a broker hear while messages come in: node exchange.mjs SCRIPT, whose lines are JSON of a topic (or
// "connect") and a payload in base64. A line of answers for each: requests for chunks, states in use, words.
import { readFile } from "node:fs/promises";
import { decodeCbor, follow } from "../../../export/web/protofleet.mjs";

const [log, listeners] = [[], {}];
const client = {
  on: (event, listener) => (listeners[event] = listener),
  subscribe: (topics) => log.push(["subscribe", ...topics]),
  publish: (topic, payload) => {
    const body = decodeCbor(decodeCbor(payload).get("body").value);
    log.push(["ask", topic, body.get("digest"), body.get("missing")]);
  },
  end: () => log.push(["end"]),
};
const classifier = {
  manifest: { lineages: ["extractor:own"], fleet: "f" },
  first: async () => null,
  swap: async () => log.push(["swap"]),
  change: async () => log.push(["change"]),
};
const follower = follow(classifier, client, { who: "w", say: (words) => log.push(["say", words]) });
for (const line of (await readFile(process.argv[2], "utf8")).trim().split("\n")) {
  const [topic, payload] = JSON.parse(line);
  if (topic === "connect") listeners.connect();
  else listeners.message(topic, Buffer.from(payload, "base64"));
  await follower.last;
  console.log(JSON.stringify(log.splice(0)));
}
follower.stop();
listeners.message("pf/1/f/g/stable/proto", Buffer.from([1]));
await follower.last;
console.log(JSON.stringify(log.splice(0)));
