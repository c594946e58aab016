// Answers a conformance folder, in Node: node conformance.mjs ORT CLIENT FOLDER; `answered` is the page's, too.

/** `bytes(name)` gives a file of the folder. */
export async function answered(ort, { Classifier, fromPicture }, bytes) {
  const json = async (name) => JSON.parse(new TextDecoder().decode(await bytes(name)));
  const [expected, manifest] = [await json("expected.json"), await json("bundle/manifest.json")];
  const unknown = (manifest.unknown.threshold ?? null) !== null;
  const classifier = await Classifier.open(ort, (name) => bytes(`bundle/${name}`), {}, { unknown });
  const inputs = [];
  for (const { file, kind } of expected.inputs) {
    const raw = await bytes(file);
    inputs.push(kind === "photo" ? photo(raw, fromPicture, manifest.input.shape) : new Float32Array(raw.slice().buffer));
  }
  const [states, refused] = [[], []];
  for (const { file } of expected.states) {
    await classifier.swap(await bytes(file));
    const answers = [];
    for (const input of inputs) {
      const [{ labels, scores, probabilities, unknown }] = await classifier.classify(input);
      const label = labels[scores.indexOf(Math.max(...scores))] ?? null; // also of what is unknown
      answers.push({ label, scores, probabilities, unknown });
    }
    states.push({ answers });
  }
  for (const file of expected.refused) {
    refused.push(await classifier.swap(await bytes(file)).then(() => "", (error) => error.message));
  }
  return { states, refused };
}

function photo(ppm, fromPicture, shape) {
  const [head, width, height] = /^P6\s+(\d+)\s+(\d+)\s+255\s/.exec(String.fromCharCode(...ppm.subarray(0, 32)));
  const rgba = new Uint8Array(width * height * 4).fill(255);
  for (let i = 0; i < width * height; i++) rgba.set(ppm.subarray(head.length + 3 * i, head.length + 3 * i + 3), 4 * i);
  return fromPicture(rgba, Number(width), Number(height), shape);
}

if (globalThis.process?.argv?.[4]) {
  const { readFile } = await import("node:fs/promises");
  const { pathToFileURL } = await import("node:url");
  const [runtime, client, folder] = process.argv.slice(2);
  const ort = await import(pathToFileURL(runtime).href);
  ort.env.wasm.numThreads = 1;
  const bytes = async (name) => new Uint8Array(await readFile(`${folder}/${name}`));
  const answers = await answered(ort, await import(pathToFileURL(client).href), bytes);
  // A pipe takes it in pieces: who ends before the last one cuts it short.
  process.stdout.write(JSON.stringify(answers), () => process.exit(0));
}
