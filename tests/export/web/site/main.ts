// Somebody's page: it classifies, swaps and follows, and tells at each step what it sees.
import { Classifier, folder, follow, prepared, type Answer } from "protofleet";

const query = new URLSearchParams(location.search);
const n = Number(query.get("n"));
const tell = (step: string, more: object) => fetch("/answers", { method: "POST", body: JSON.stringify({ step, ...more }) });
const bytes = async (name: string) => new Uint8Array(await (await fetch(name)).arrayBuffer());
// Nothing of the runtime is loaded before somebody wants to classify.
const runtime = async () => prepared(await import("onnxruntime-web/wasm"), { wasm: "/ort-wasm-simd-threaded.wasm.gz" });

function loaded() {
  const all = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
  return Object.fromEntries(all.map((one) => [new URL(one.name).pathname, one.encodedBodySize]));
}

async function run() {
  const before = loaded();
  const classifier = await Classifier.open(runtime, folder("/bundle"), {}, { unknown: true });
  const samples = await bytes("/samples.bin");
  const after = loaded();
  const first = samples.slice(0, samples.length / n);
  await tell("classified", { bundle: classifier.bundle, answers: await classifier.classify(samples, n), before, after });

  // From here on somebody classifies all the time, whatever is exchanged.
  const steady = new Map<string, Answer>();
  const looking = async () => {
    for (;;) {
      const [answer] = await classifier.classify(first);
      if (answer) steady.set(JSON.stringify([answer.state, answer.label, answer.scores]), answer);
      await new Promise((done) => setTimeout(done, 5));
    }
  };
  looking().catch((error: Error) => tell("error", { error: String(error.stack) }));
  const now = async () => ({
    bundle: classifier.bundle,
    state: classifier.loaded.state,
    answers: await classifier.classify(samples, n),
    steady: [...steady.values()],
  });

  await classifier.swap(await bytes("/swap.cbor"));
  await new Promise((done) => setTimeout(done, 300));
  await tell("swapped", await now());

  const { default: mqtt } = await import("mqtt");
  const client = mqtt.connect(query.get("broker") ?? "", { protocolVersion: 5, clean: true });
  follow(classifier, client, {
    changed: async ({ bundle }) => {
      await new Promise((done) => setTimeout(done, 300));
      await tell("followed", { ...(await now()), fetched: bundle?.length ?? 0 });
    },
    say: (words) => void tell("words", { words, bundle: classifier.bundle }),
  });
}

run().catch((error: Error) => tell("error", { error: String(error.stack) }));
