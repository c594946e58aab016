// ProtoFleet in JavaScript: bundles, and what a fleet publishes, in browsers and in Node, with any build of onnxruntime
// passed in. docs/devices.md shows it in use, protofleet.d.mts has the types.

export { folder, unpacked } from "./bundle.mjs";
export { look, watch } from "./camera.mjs";
export { BundleError, decodeCbor } from "./cbor.mjs";
export { Classifier } from "./classifier.mjs";
export { follow } from "./exchange.mjs";
export { Follower } from "./follow.mjs";
export { readPublished } from "./published.mjs";
export { fromPicture, fromRgba } from "./resize.mjs";
export { prepared } from "./runtime.mjs";
export { sha256 } from "./sha256.mjs";
