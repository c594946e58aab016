// A classifier that keeps up with its fleet: a state that fits is used, and one of another extractor with the bundle that it
// names. The rules are those of edge_agent/updates/switch.py.

// A channel says two things, in any order and again with every connection: a state, and which bundle it has.
//
//   the state that came                what happens
//   of the lineage in use              used at once
//   of the bundle it began with        that bundle and the state, at once and whole
//   neither, and it names a bundle     the state waits, the bundle is fetched
//   neither, and nothing to fetch      one line to `say`; what is in use stays
//
//   the bundle that came               what happens
//   its state waits, it stands         bundle and state, at once and whole
//   it fails (hash, graph, self-test)  refused once by its digest, not fetched again; the old stays
//
// A newer state takes the place of one that waits; a state that is used ends the fetching.

import { unpacked } from "./bundle.mjs";
import { Follower } from "./follow.mjs";
import { readPublished } from "./published.mjs";

/** Keeps a classifier up with a channel until `stop()`. `changed({ state, bundle })` hears of each state that is in use from
 *  now on, as bytes, and of a bundle that was fetched for it (else null): whoever keeps both can begin with them again. */
export function follow(classifier, client, { fleet = classifier.manifest.fleet, channel, who, fetch = true, changed = () => {}, say = () => {} } = {}) {
  const change = new Switch(classifier, { changed, say });
  const both = fetch ? { offered: (offer) => change.offered(offer), fetched: (bytes) => change.whole(bytes) } : {};
  change.follower = new Follower(client, { fleet, channel, who, take: (bytes) => change.state(bytes), say, ...both });
  change.fetch = fetch;
  return change.follower;
}

class Switch {
  constructor(classifier, { changed, say }) {
    Object.assign(this, { classifier, changed, say, follower: null, fetch: false });
    this.waiting = null; // a state's bytes, and the name of the bundle that it is for
    this.offer = null;
    this.bad = ""; // the digest of what turned out to be of no use
    this.under = ""; // the digest of what is on its way
    this.remarked = "";
  }

  async state(bytes) {
    const { lineage, bundle = "" } = readPublished(bytes);
    this.waiting = null;
    if (this.classifier.manifest.lineages.includes(lineage)) {
      await this.classifier.swap(bytes);
      return this.used(bytes, null);
    }
    const first = await this.classifier.first(lineage).catch(() => null);
    if (first) return this.change(first, bytes, null);
    if (this.remarked !== lineage + bundle) {
      this.say(`these prototypes are of ${lineage.slice(0, 60)}, this bundle is of ${this.classifier.manifest.lineages[0]}`);
      this.remarked = lineage + bundle;
    }
    if (!this.fetch || typeof bundle !== "string" || !bundle) return;
    this.waiting = { bytes, bundle };
    this.begin();
  }

  offered(offer) {
    this.offer = offer;
    this.begin();
  }

  begin() {
    const due = this.waiting && this.offer?.name === this.waiting.bundle && this.offer.digest !== this.bad ? this.offer : null;
    if (this.under && this.under !== due?.digest) this.follower.forget("bundle");
    if (due && this.under !== due.digest) this.follower.fetch(due);
    this.under = due?.digest ?? "";
  }

  async whole(pfb) {
    const { waiting, under } = this;
    this.under = "";
    if (!waiting) return;
    try {
      await this.change(await unpacked(pfb, waiting.bundle), waiting.bytes, pfb);
    } catch (error) {
      this.bad = under;
      this.waiting = null;
      throw new Error(`the fleet's bundle cannot be used: ${error.message}`);
    }
  }

  async change(bundle, bytes, pfb) {
    await this.classifier.change(bundle, bytes);
    await this.used(bytes, pfb);
  }

  async used(bytes, pfb) {
    this.waiting = null;
    this.remarked = "";
    this.begin();
    await this.changed({ state: bytes, bundle: pfb });
  }
}
