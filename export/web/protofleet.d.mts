// The types of protofleet.mjs. onnxruntime and mqtt.js are described by what is used of them, so that any build fits.

/** A type of browsers, where code is compiled for them. */
type Dom<Name extends string> = typeof globalThis extends Record<Name, { prototype: infer Instance }> ? Instance : never;

/** Any build of onnxruntime: of onnxruntime-web, or onnxruntime-node. */
export interface Runtime {
  readonly InferenceSession: { create(model: Uint8Array, options?: any): Promise<Session> };
  readonly Tensor: new (type: any, data: any, dims?: any) => unknown;
}

export interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(feeds: any): Promise<any>;
  release(): Promise<void>;
}

/** A runtime, or what brings it: a function is called when the bundle is fetched, and not before. */
export type RuntimeSource<R extends Runtime = Runtime> = R | Promise<R> | (() => R | Promise<R>);

/** Gives a bundle's file by its name. */
export type Load = (name: string) => Promise<Uint8Array>;

/** What a bundle says of itself: docs/bundle.md. */
export interface Manifest {
  readonly schema: string;
  readonly input: { readonly kind: "image" | "vector" | "series"; readonly shape: readonly number[] };
  readonly embedding: number;
  readonly classes: readonly string[];
  readonly reading: { readonly by: "prototypes" | "mixtures" | "head"; readonly metric?: string; readonly of_unit?: boolean; readonly through?: string };
  readonly lineages: readonly string[];
  readonly method: string;
  readonly backbone: string;
  readonly fleet: string;
  readonly run: string;
  readonly round: number;
  readonly state: string;
  readonly precision: "fp32" | "fp16" | "int8";
  readonly tolerance: number;
  readonly files: Readonly<Record<string, string>>;
  readonly unknown: { readonly keep: number };
}

/** A bundle that was read and held to its hashes. */
export interface Bundle {
  readonly manifest: Manifest;
  /** The sha256 of its manifest, which is its name. */
  readonly digest: string;
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly published: Bank;
}

/** How sure a fleet's scores are. */
export interface Calibration {
  readonly temperature: number;
  readonly confidences?: readonly number[];
  readonly probabilities?: readonly number[];
  readonly usual?: readonly [number, number] | null;
}

export interface Points {
  readonly shape: readonly number[];
  readonly data: Float64Array;
}

/** Published points: what tells classes apart, but for the extractor. */
export interface Bank {
  readonly kind: "prototypes" | "mixtures" | "head";
  readonly lineage: string;
  readonly classes: readonly string[];
  /** The bundle that they belong to, where the fleet says one. */
  readonly bundle?: string;
  readonly calibration?: Calibration;
  readonly points: Readonly<Record<string, Points>>;
  /** Of each row of points: which of `classes` it is. */
  readonly rows: readonly number[];
}

/** The classes in use. */
export interface Loaded {
  readonly labels: readonly string[];
  /** The state that they are of. */
  readonly state: string;
  readonly bank: Bank;
}

export interface Answer {
  /** null: no class is known yet, or it is unknown and the classifier was asked to tell. */
  readonly label: string | null;
  /** Scores, distances and probabilities have one number for each of these. */
  readonly labels: readonly string[];
  readonly scores: readonly number[];
  /** Where the bundle compares with prototypes, else null. */
  readonly distances: readonly number[] | null;
  /** null where nobody calibrated these scores. */
  readonly probabilities: readonly number[] | null;
  readonly probability: number | null;
  /** null where there is nothing to tell it by. */
  readonly unknown: boolean | null;
  readonly state: string;
}

/** What a device labelled often is likely beforehand, where a fleet calibrated its scores. */
export interface Prior {
  readonly counts: Readonly<Record<string, number>>;
  readonly smooth?: number;
}

export interface Settings {
  /** What is like no class has no label. */
  unknown?: boolean;
  /** Run the exporter's self-test first (true). */
  check?: boolean;
  prior?: Prior | null;
}

/** n of the bundle's inputs one after another: bytes for images, channels last; else floats. */
export type Samples = Uint8Array | Uint8ClampedArray | Float32Array;

/** Whatever is wrong with a bundle, with prototypes or with samples, in one line. */
export class BundleError extends Error {}

/** A bundle in use; prototypes and whole bundles are replaced while it runs. */
export class Classifier {
  private constructor();
  static open(runtime: RuntimeSource, load: Load, options?: object, settings?: Settings): Promise<Classifier>;
  /** Of a bundle that was read. */
  static of(runtime: RuntimeSource, bundle: Bundle, options?: object, settings?: Settings): Promise<Classifier>;
  readonly manifest: Manifest;
  /** The name of the bundle in use. */
  readonly bundle: string;
  readonly loaded: Loaded;
  /** The classes that were enrolled here and are of the extractor in use. */
  readonly enrolled: readonly { readonly label: string; readonly samples: number }[];
  classify(samples: Samples, n?: number): Promise<Answer[]>;
  /** Classify by these prototypes from the next call on; gives the new state. */
  swap(bytes: Uint8Array): Promise<string>;
  /** Classify with another bundle from the next call on, once it stands and tests itself; with these prototypes, or its own. */
  change(bundle: Bundle, bytes?: Uint8Array | null): Promise<string>;
  expect(prior: Prior | null): void;
  /** The fleet's sums: a class that is enrolled beside a head needs them. */
  sums(bytes: Uint8Array): Promise<void>;
  /** A class more from n photos. */
  enroll(label: string, samples: Samples, n: number): Promise<void>;
  /** Whether there was one. */
  forget(label: string): Promise<boolean>;
}

/** A bundle's files beside each other at an address. */
export function folder(url: string): Load;

/** A bundle from the bytes of a `.pfb`; with `name` it must be the bundle of this name. */
export function unpacked(pfb: Uint8Array, name?: string): Promise<Bundle>;

/** onnxruntime-web ready to run; `wasm` is a `.wasm` or a `.wasm.gz`, as an address or as bytes. */
export function prepared<R extends { readonly env: { readonly wasm: { numThreads?: number } } }>(
  ort: R,
  options?: { wasm?: string | Dom<"URL"> | Uint8Array | null; threads?: number },
): Promise<R>;

/** What is used of mqtt.js. */
export interface Connection {
  on(event: any, listener: (...words: any[]) => void): unknown;
  subscribe(topics: string[], options: { qos: 0 | 1 | 2 }): unknown;
  publish(topic: string, payload: any, options: { qos: 0 | 1 | 2 }): unknown;
  end(force?: boolean): unknown;
  readonly options?: { username?: string | undefined };
}

export interface Following {
  /** By default the bundle's. */
  fleet?: string;
  /** By default `stable`. */
  channel?: string;
  /** Under which name chunks are asked for: by default the one that the client logged in with. */
  who?: string;
  /** Whether bundles are fetched (true). */
  fetch?: boolean;
  /** What is in use from now on: the state's bytes, and those of a `.pfb` that was fetched for it. */
  changed?: (now: { readonly state: Uint8Array; readonly bundle: Uint8Array | null }) => unknown;
  /** What cannot be used, in one line. */
  say?: (words: string) => void;
}

/** Keeps a classifier up with its fleet, across extractors. */
export function follow(classifier: Classifier, client: Connection, options?: Following): Follower;

/** A bundle that a channel announced. */
export interface Offer {
  readonly of: "bundle";
  readonly name: string;
  readonly digest: string;
  readonly size: number;
  readonly chunk: number;
}

/** A channel's states, whole and in order, without a classifier: `channel: "total"` are the fleet's sums. */
export class Follower {
  constructor(
    client: Connection,
    options: {
      fleet: string;
      channel?: string;
      who?: string;
      take: (bytes: Uint8Array) => unknown;
      offered?: ((offer: Offer | null) => unknown) | null;
      fetched?: (bytes: Uint8Array) => unknown;
      say?: (words: string) => void;
    },
  );
  fetch(offer: Offer): void;
  stop(): void;
}

/** What was looked at, as it is, and what it is. */
export interface Look {
  readonly frame: Dom<"ImageData">;
  readonly answer: Answer;
}

export interface Watching {
  /** A <video> that plays, a stream, or what `getUserMedia` shall ask for. */
  source?: Dom<"HTMLVideoElement"> | Dom<"MediaStream"> | object;
  /** Milliseconds from one look to the next, at least (100). */
  every?: number;
  /** Of the time, at most (0.5). */
  share?: number;
  show: (look: Look & { readonly milliseconds: number }) => void;
  say?: (words: string) => void;
  signal?: Dom<"AbortSignal">;
}

/** Looks at a camera until `signal` aborts. */
export function watch(classifier: Classifier, options: Watching): Promise<void>;

/** What a picture, a video or a canvas shows. */
export function look(
  classifier: Classifier,
  source: Dom<"ImageBitmap"> | Dom<"HTMLImageElement"> | Dom<"HTMLVideoElement"> | Dom<"HTMLCanvasElement"> | Dom<"OffscreenCanvas">,
): Promise<Look>;

/** A picture's RGBA pixels, upright and at its own size, as one input of a bundle whose `input.shape` this is. */
export function fromPicture(rgba: Uint8Array | Uint8ClampedArray, width: number, height: number, shape: readonly number[]): Uint8Array;

/** RGBA pixels as the bundle's channels. */
export function fromRgba(rgba: Uint8Array | Uint8ClampedArray, channels: number): Uint8Array;

/** What a fleet publishes, from its bytes. */
export function readPublished(bytes: Uint8Array): Bank;

/** The deterministic subset of CBOR that ProtoFleet speaks: maps as `Map`, tags as `{ tag, value }`. */
export function decodeCbor(bytes: Uint8Array): unknown;

/** In hexadecimal, also where a page is neither https nor local. */
export function sha256(bytes: Uint8Array): Promise<string>;
