// A channel's prototypes over MQTT: one retained topic, and numbered chunks where they are too large for one message.
// docs/wire.md has topics and slips. Any client with mqtt.js's `on`, `subscribe`, `publish` and `end` will do.

import { BundleError, decodeCbor, encodeCbor, joined } from "./cbor.mjs";
import { sha256 } from "./sha256.mjs";

const LARGEST = 64 << 20;
const MOST_CHUNKS = 65536;
const RUNS = 256; // of missing chunks, asked for at a time
const PATIENCE = 3000; // ms without a chunk before the missing ones are asked for; then twice as long each time
const LONGEST = 120000;

/** Hands every state of the channel to `take(bytes)`, in order and whole; `say(words)` hears what cannot be used. */
export class Follower {
  constructor(client, { fleet, channel = "stable", who, take, say = () => {} }) {
    const name = who ?? client.options?.username ?? `web-${Math.random().toString(16).slice(2, 14)}`;
    Object.assign(this, { client, fleet, name, take, say });
    this.proto = `pf/1/${fleet}/g/${channel}/proto`;
    this.blob = `pf/1/${fleet}/d/${name}/blob/`;
    this.coming = null; // a large state that is not whole yet
    this.last = Promise.resolve();
    client.on("message", (topic, payload) => this.arrived(topic, new Uint8Array(payload)));
    client.on("connect", () => this.ask(true));
    client.subscribe([this.proto, `${this.blob}+/+`], { qos: 1 });
  }

  stop() {
    this.forget();
    this.client.end(true);
  }

  /** One thing after another, so that the newest state is the one that stays. */
  arrived(topic, payload) {
    this.last = this.last.then(() => this.heard(topic, payload)).catch((error) => this.say(error.message));
  }

  async heard(topic, payload) {
    if (topic.startsWith(this.blob)) {
      const [digest, number] = topic.slice(this.blob.length).split("/");
      await this.chunk(digest, Number(number), payload);
    } else if (topic === this.proto && payload.length) {
      const message = decodeCbor(payload);
      if (message.get?.("t") === "slip") return this.slip(message);
      this.forget();
      await this.take(payload);
    }
  }

  slip(message) {
    const body = decodeCbor(message.get("body").value);
    const [digest, size, chunk] = ["digest", "size", "chunk"].map((name) => body.get(name));
    const chunks = Math.ceil(size / chunk);
    const sound = /^[0-9a-f]{64}$/.test(digest) && size > 0 && size <= LARGEST && chunk > 0 && chunks <= MOST_CHUNKS;
    if (!sound || body.get("of") !== "global") throw new BundleError("what is announced cannot be fetched");
    if (this.coming?.digest === digest && this.coming.chunk === chunk) return;
    this.forget();
    const head = Object.fromEntries(["fleet", "run", "epoch", "round"].filter((n) => message.has(n)).map((n) => [n, message.get(n)]));
    this.coming = { digest, size, chunk, chunks, head, pieces: new Array(chunks), left: chunks, attempts: 0, timer: null };
    this.ask(true);
  }

  async chunk(digest, number, payload) {
    const coming = this.coming;
    if (coming?.digest !== digest || !(number < coming.chunks) || coming.pieces[number]) return;
    if (payload.length !== Math.min(coming.chunk, coming.size - number * coming.chunk)) return;
    coming.pieces[number] = payload;
    coming.left -= 1;
    coming.attempts = 0;
    if (coming.left) return this.later();
    clearTimeout(coming.timer);
    const whole = joined(coming.pieces, coming.size);
    if ((await sha256(whole)) !== digest) {
      coming.pieces = new Array(coming.chunks);
      coming.left = coming.chunks;
      return this.later();
    }
    this.forget();
    await this.take(whole);
  }

  missing() {
    const runs = [];
    for (let i = 0; i < this.coming.chunks; i++) {
      if (this.coming.pieces[i]) continue;
      if (runs.at(-1)?.[1] === i - 1) runs.at(-1)[1] = i;
      else if (runs.length === RUNS) break;
      else runs.push([i, i]);
    }
    return runs;
  }

  ask(anew = false) {
    const coming = this.coming;
    if (!coming) return;
    if (anew) coming.attempts = 0;
    const body = encodeCbor({ digest: coming.digest, missing: this.missing() });
    const message = { v: 1, t: "command", ...coming.head, agent: this.name, body: { tag: 24, value: body } };
    this.client.publish(`pf/1/${this.fleet}/d/${this.name}/blob/req`, encodeCbor(message), { qos: 1 });
    this.later();
    coming.attempts += 1;
  }

  later() {
    clearTimeout(this.coming.timer);
    this.coming.timer = setTimeout(() => this.ask(), Math.min(LONGEST, PATIENCE * 2 ** this.coming.attempts));
  }

  forget() {
    clearTimeout(this.coming?.timer);
    this.coming = null;
  }
}
