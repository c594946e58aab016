// Classification: prototypes, and whole bundles, are replaced while it runs, by one reference. The rules are those of
// edge_agent/inference/classifier.py.

// There is one thing that changes, the reference `#inUse`, and it points at values that never change: the engine (a
// bundle's graph in a session), what is loaded into it (points as its inputs, labels, what tells unknown things) and the
// prior. A classification reads the reference once and works on what it got until its answer is whole, so it sees the old
// classes or the new ones, of the old extractor or the new one, and never a mixture. Who replaces it builds the new value
// first and assigns it last, with nothing to wait for in between; what fails on the way has changed nothing.

import { read } from "./bundle.mjs";
import { BundleError } from "./cbor.mjs";
import { built } from "./engine.mjs";
import { meanOf, withClass } from "./enrolment.mjs";
import { readPublished, readTotal } from "./published.mjs";
import { sha256 } from "./sha256.mjs";

const MOST_PHOTOS = 1000; // of a class that is enrolled
const LONGEST_NAME = 64;

export class Classifier {
  #inUse = null;
  #enrolled = []; // classes of this page's own, each of one lineage
  #total = null; // the fleet's sums
  #how;
  #began = []; // the lineages of the bundle that it was opened with
  #again = null; // reads that bundle once more

  /** `load(name)` gives a file of the bundle as bytes. */
  static async open(runtime, load, options = {}, { unknown = false, check = true, prior = null } = {}) {
    const also = [...(check ? ["selftest.npz"] : []), ...(unknown ? ["calibration.npz"] : [])];
    // At once: while the bundle comes, so does the runtime, which is larger.
    const ort = Promise.resolve(typeof runtime === "function" ? runtime() : runtime);
    ort.catch(() => {}); // whoever waits for it hears of it
    const classifier = await Classifier.of(ort, await read(load, also), options, { unknown, check, prior });
    classifier.#again = () => read(load, ["selftest.npz", ...also]);
    return classifier;
  }

  /** Of a bundle that was read. */
  static async of(runtime, bundle, options = {}, { unknown = false, check = true, prior = null } = {}) {
    const ort = await (typeof runtime === "function" ? runtime() : runtime);
    const engine = await built(ort, bundle, options, { unknown, check });
    const made = new Classifier({ ort, options, unknown });
    made.expect(prior);
    await made.#place(engine, bundle.published);
    made.#began = bundle.manifest.lineages;
    made.#again = async () => bundle;
    return made;
  }

  constructor(how) {
    this.#how = how;
    this.prior = null;
  }

  /** What the bundle says of itself. */
  get manifest() {
    return this.#inUse.engine.manifest;
  }

  /** The name of the bundle in use: the sha256 of its manifest. */
  get bundle() {
    return this.#inUse.engine.digest;
  }

  /** The classes as they stand, and the state that they are of. */
  get loaded() {
    return this.#inUse.loaded;
  }

  /** The classes that were enrolled here and are of the extractor in use. */
  get enrolled() {
    return this.#own(this.manifest).map(({ label, samples }) => ({ label, samples }));
  }

  /** `samples`: n of the bundle's inputs one after another. One answer each. */
  async classify(samples, n = 1) {
    const { engine, loaded } = this.#inUse;
    engine.must(samples, n);
    return engine.look(samples, n, loaded, { unknown: this.#how.unknown, prior: this.prior });
  }

  /** Classify by these prototypes from the next call on; what does not fit is refused and nothing changes. */
  async swap(bytes) {
    const bank = readPublished(bytes);
    const state = await sha256(bank.body);
    this.#use(bank, state);
    return state;
  }

  /** Classify with another bundle (`unpacked` reads one) from the next call on, once it stands and tests itself; with these
   *  prototypes, or its own. Else nothing changes. */
  async change(bundle, bytes = null) {
    const bank = bytes ? readPublished(bytes) : bundle.published;
    const { ort, options, unknown } = this.#how;
    const engine = await built(ort, bundle, options, { unknown, check: true });
    try {
      await this.#place(engine, bank);
    } catch (error) {
      engine.retire();
      throw error;
    }
    return this.loaded.state;
  }

  /** The bundle that it was opened with, where another one is in use and this is its lineage; else null. */
  async first(lineage) {
    if (!this.#began.includes(lineage) || this.manifest.lineages.includes(lineage)) return null;
    return this.#again();
  }

  /** From the next answer on these classes are likely beforehand; null: all alike. */
  expect(prior) {
    if (prior !== null) {
      const { counts, smooth = 2 } = prior;
      if (!(smooth > 0) || !Object.values(counts).every((n) => n >= 0)) {
        throw new BundleError("a prior: counts from 0 up are due, and more than 0 to add");
      }
    }
    this.prior = prior;
  }

  /** The fleet's sums (its channel `total`, or a device's `fleet.pfb.total.cbor`): a class that is enrolled beside a head
   *  needs them. */
  async sums(bytes) {
    const total = readTotal(bytes);
    if (!this.manifest.lineages.includes(total.lineage) || total.width !== this.manifest.embedding) {
      throw new BundleError("these sums are of another extractor");
    }
    const before = this.#total;
    this.#total = total;
    try {
      this.#reload();
    } catch (error) {
      this.#total = before;
      throw error;
    }
  }

  /** A new class from `n` photos, one after another as `classify` takes them: in use from the next answer on, and beside
   *  whatever is swapped in until that has the class itself. */
  async enroll(label, samples, n) {
    const { engine, loaded } = this.#inUse;
    const { kind } = loaded.bank;
    if (loaded.labels.includes(label)) throw new BundleError(`there is a class ${label} already`);
    if (typeof label !== "string" || !label || label.length > LONGEST_NAME) throw new BundleError("a name is due");
    if (!(n >= 1 && n <= MOST_PHOTOS) || kind === "mixtures") throw new BundleError("a few photos are due, and no mixtures");
    if (kind === "head" && !this.#sums(engine)) throw new BundleError("beside a head the fleet's sums are due");
    engine.must(samples, n);
    const mean = meanOf(await engine.features(samples, n, loaded), n);
    if (this.#inUse.engine !== engine) throw new BundleError("another extractor came: show it the photos again");
    const before = this.#enrolled;
    this.#enrolled = [...before, { label, samples: n, mean, lineage: loaded.bank.lineage }];
    try {
      this.#reload();
      if (!this.loaded.labels.includes(label)) throw new BundleError("these classes were made of no sums: a row cannot be told");
    } catch (error) {
      this.#enrolled = before;
      this.#reload();
      throw error;
    }
  }

  /** Take back a class that was enrolled here; whether there was one. */
  async forget(label) {
    const own = this.#own(this.manifest).filter((one) => one.label === label);
    if (!own.length) return false;
    this.#enrolled = this.#enrolled.filter((one) => !own.includes(one));
    this.#reload();
    return true;
  }

  #use(published, state) {
    const { engine } = this.#inUse;
    this.#inUse = Object.freeze({ engine, published, loaded: this.#loaded(engine, published, state) });
  }

  #reload() {
    this.#use(this.#inUse.published, this.loaded.state);
  }

  async #place(engine, published) {
    const state = await sha256(published.body);
    const loaded = this.#loaded(engine, published, state);
    const before = this.#inUse?.engine;
    this.#inUse = Object.freeze({ engine, published, loaded });
    before?.retire();
  }

  /** With the classes that were enrolled here and are not in it. */
  #loaded(engine, published, state) {
    const present = new Set(published.rows.map((c) => published.classes[c]));
    const absent = this.#own(engine.manifest).filter(({ label }) => !present.has(label)).sort((a, b) => (a.label < b.label ? -1 : 1));
    const sums = this.#sums(engine);
    return engine.load(absent.reduce((bank, own) => withClass(bank, sums, own), published), state);
  }

  /** Classes of one extractor mean nothing to another: they wait until theirs is back. */
  #own({ lineages }) {
    return this.#enrolled.filter(({ lineage }) => lineages.includes(lineage));
  }

  #sums({ manifest: { lineages, embedding } }) {
    const total = this.#total;
    return total && lineages.includes(total.lineage) && total.width === embedding ? total : null;
  }
}
