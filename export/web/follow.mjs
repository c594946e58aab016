// A channel over MQTT: the state that it has, retained on one topic, and the bundle that it names on another; numbered
// chunks where they are too large for one message. docs/wire.md has topics and slips. Any client with mqtt.js's `on`,
// `subscribe`, `publish` and `end` will do.

import { BundleError, decodeCbor, encodeCbor, joined } from "./cbor.mjs";
import { sha256 } from "./sha256.mjs";

const LARGEST = { global: 64 << 20, bundle: 256 << 20 };
const MOST_CHUNKS = 65536;
const SMALLEST = 256; // bytes of a chunk, unless there is one alone
const RUNS = 256; // of missing chunks, asked for at a time
const PATIENCE = 3000; // ms without a chunk before the missing ones are asked for; then twice as long each time
const LONGEST = 120000;
const SIGNED = 0xd2; // how a signature begins, which messages of a fleet by invitation have before them

/** Hands every state of the channel to `take(bytes)`, in order and whole; `say(words)` hears what cannot be used. With
 *  `offered({ name, digest, ... } or null)` it listens to the channel's bundle, too; `fetch(offer)` brings that, and hands
 *  it to `fetched(bytes)`. */
export class Follower {
  constructor(client, { fleet, channel = "stable", who, take, offered = null, fetched = () => {}, say = () => {} }) {
    const name = who ?? client.options?.username ?? `web-${Math.random().toString(16).slice(2, 14)}`;
    Object.assign(this, { client, fleet, name, take, offered, fetched, say });
    [this.proto, this.bundle] = ["proto", "bundle"].map((kind) => `pf/1/${fleet}/g/${channel}/${kind}`);
    this.blob = `pf/1/${fleet}/d/${name}/blob/`;
    this.coming = new Map(); // by type: a large payload that is not whole yet
    this.last = Promise.resolve();
    client.on("message", (topic, payload) => this.arrived(topic, new Uint8Array(payload)));
    client.on("connect", () => this.coming.forEach((blob) => this.ask(blob, true)));
    client.subscribe([this.proto, ...(offered ? [this.bundle] : []), `${this.blob}+/+`], { qos: 1 });
  }

  stop() {
    this.stopped = true;
    for (const type of [...this.coming.keys()]) this.forget(type);
    this.client.end(true);
  }

  /** One thing after another, so that the newest state is the one that stays. */
  arrived(topic, payload) {
    const one = () => (this.stopped ? undefined : this.heard(topic, payload));
    this.last = this.last.then(one).catch((error) => this.say(error.message));
  }

  async heard(topic, payload) {
    if (topic.startsWith(this.blob)) {
      const [digest, number] = topic.slice(this.blob.length).split("/");
      await this.chunk(digest, Number(number), payload);
    } else if (topic === this.bundle && this.offered) {
      await this.offered(payload.length ? this.offer(payload) : null);
    } else if (topic === this.proto && payload.length) {
      const message = opened(payload);
      if (message.get("t") === "slip") return this.expect(slip(message, "global"));
      this.forget("global");
      await this.take(payload);
    }
  }

  offer(payload) {
    const message = opened(payload);
    if (message.get("t") !== "slip") throw new BundleError("a bundle is announced by a slip");
    return slip(message, "bundle");
  }

  /** Fetch the bundle of this offer. */
  fetch(offer) {
    this.expect(offer);
  }

  expect(offer) {
    const before = this.coming.get(offer.of);
    if (before?.digest === offer.digest && before.chunk === offer.chunk) return;
    this.forget(offer.of);
    const chunks = Math.ceil(offer.size / offer.chunk);
    const blob = { ...offer, chunks, pieces: new Array(chunks), left: chunks, attempts: 0, timer: null };
    this.coming.set(offer.of, blob);
    this.ask(blob, true);
  }

  async chunk(digest, number, payload) {
    for (const blob of [...this.coming.values()]) {
      if (blob.digest !== digest || !(Number.isInteger(number) && number >= 0 && number < blob.chunks) || blob.pieces[number]) continue;
      if (payload.length !== Math.min(blob.chunk, blob.size - number * blob.chunk)) continue;
      blob.pieces[number] = payload;
      blob.left -= 1;
      blob.attempts = 0;
      if (blob.left) this.later(blob);
      else await this.whole(blob);
    }
  }

  async whole(blob) {
    clearTimeout(blob.timer);
    const bytes = joined(blob.pieces, blob.size);
    if ((await sha256(bytes)) !== blob.digest) {
      [blob.pieces, blob.left] = [new Array(blob.chunks), blob.chunks];
      return this.later(blob);
    }
    if (this.coming.get(blob.of) !== blob) return;
    this.forget(blob.of);
    await (blob.of === "bundle" ? this.fetched(bytes) : this.take(bytes));
  }

  missing({ chunks, pieces }) {
    const runs = [];
    for (let i = 0; i < chunks; i++) {
      if (pieces[i]) continue;
      if (runs.at(-1)?.[1] === i - 1) runs.at(-1)[1] = i;
      else if (runs.length === RUNS) break;
      else runs.push([i, i]);
    }
    return runs;
  }

  ask(blob, anew = false) {
    if (anew) blob.attempts = 0;
    const body = encodeCbor({ digest: blob.digest, missing: this.missing(blob) });
    const message = { v: 1, t: "command", ...blob.head, agent: this.name, body: { tag: 24, value: body } };
    this.client.publish(`pf/1/${this.fleet}/d/${this.name}/blob/req`, encodeCbor(message), { qos: 1 });
    this.later(blob);
    blob.attempts += 1;
  }

  later(blob) {
    clearTimeout(blob.timer);
    blob.timer = setTimeout(() => this.ask(blob), Math.min(LONGEST, PATIENCE * 2 ** blob.attempts));
  }

  /** Nobody wants what is on its way any more. */
  forget(type) {
    clearTimeout(this.coming.get(type)?.timer);
    this.coming.delete(type);
  }
}

function opened(payload) {
  if (payload[0] === SIGNED) throw new BundleError("this fleet signs what it says, and signatures cannot be read here");
  const message = decodeCbor(payload);
  if (!(message instanceof Map)) throw new BundleError("this is no message");
  return message;
}

/** What is announced: its hash, its size, how it is cut; of a bundle its name. */
function slip(message, type) {
  const body = message.get("body")?.value instanceof Uint8Array ? decodeCbor(message.get("body").value) : null;
  if (!(body instanceof Map)) throw new BundleError("what is announced cannot be fetched");
  const [of, digest, size, chunk, name] = ["of", "digest", "size", "chunk", "bundle"].map((key) => body.get(key));
  const hash = (value) => /^[0-9a-f]{64}$/.test(value);
  const whole = (value, most) => Number.isInteger(value) && value > 0 && value <= most;
  const chunks = Math.ceil(size / chunk);
  const cut = whole(size, LARGEST[type]) && whole(chunk, LARGEST[type]) && (chunks === 1 || chunk >= SMALLEST);
  if (of !== type || !hash(digest) || !cut || chunks > MOST_CHUNKS || (type === "bundle" && !hash(name))) {
    throw new BundleError("what is announced cannot be fetched");
  }
  const head = Object.fromEntries(["fleet", "run", "epoch", "round"].filter((key) => message.has(key)).map((key) => [key, message.get(key)]));
  return { of, digest, size, chunk, name, head };
}
