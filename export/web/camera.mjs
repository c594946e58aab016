// A camera's frames, one after another, as often as a device can bear it.

import { fromPicture } from "./resize.mjs";

const EVERY = 100; // ms from one look to the next, at least
const SHARE = 0.5; // of the time, at most: a phone that computes without a pause gets hot and slow

/** Looks at a video until `signal` aborts: `show({ frame, answer, milliseconds })` gets each frame as it is, at its own size
 *  (`ImageData`), with what it is. `source` is a <video> that plays, a `MediaStream`, or what `getUserMedia` shall ask for.
 *  Nothing is looked at twice, nor while the page is hidden. */
export async function watch(classifier, { source = { facingMode: "environment" }, every = EVERY, share = SHARE, show, say = () => {}, signal }) {
  const own = !(source instanceof HTMLVideoElement || source instanceof MediaStream);
  const stream = own ? await navigator.mediaDevices.getUserMedia({ video: source }) : source;
  const stop = () => own && stream.getTracks().forEach((track) => track.stop());
  try {
    const video = stream instanceof MediaStream ? await playing(stream) : stream;
    const canvas = new OffscreenCanvas(1, 1);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    while (!signal?.aborted && !video.ended) {
      await shown(video, signal);
      if (signal?.aborted) break;
      const began = performance.now();
      try {
        const frame = taken(video, canvas, context);
        if (frame) {
          const answer = await looked(classifier, frame);
          if (signal?.aborted) break;
          show({ frame, answer, milliseconds: performance.now() - began });
        }
      } catch (error) {
        say(error.message);
      }
      const busy = performance.now() - began;
      await pause(Math.max(every - busy, busy * (1 / share - 1)), signal);
    }
  } finally {
    stop();
  }
}

/** What a picture, a video or a canvas shows is: its pixels at its own size, and the answer. */
export async function look(classifier, source) {
  const canvas = new OffscreenCanvas(1, 1);
  const frame = taken(source, canvas, canvas.getContext("2d", { willReadFrequently: true }));
  return { frame, answer: await looked(classifier, frame) };
}

// At its own size: how a canvas makes pictures smaller is the browser's business, and not the one of the network.
function taken(source, canvas, context) {
  const [width, height] = [source.videoWidth ?? source.naturalWidth ?? source.width, source.videoHeight ?? source.naturalHeight ?? source.height];
  if (!width || !height) return null;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  context.drawImage(source, 0, 0);
  return context.getImageData(0, 0, width, height);
}

// Size and classification are of one bundle: nothing is waited for in between.
async function looked(classifier, { data, width, height }) {
  const [answer] = await classifier.classify(fromPicture(data, width, height, classifier.manifest.input.shape));
  return answer;
}

async function playing(stream) {
  const video = Object.assign(document.createElement("video"), { muted: true, playsInline: true, srcObject: stream });
  await video.play();
  return video;
}

/** A frame that was not there before, on a page that somebody sees. */
async function shown(video, signal) {
  while (document.hidden && !signal?.aborted) await one([[document, "visibilitychange"], [signal, "abort"]]);
  if (!video.requestVideoFrameCallback || signal?.aborted) return;
  let number;
  await one([[video, "ended"], [signal, "abort"]], (come) => (number = video.requestVideoFrameCallback(come)));
  video.cancelVideoFrameCallback(number);
}

async function pause(ms, signal) {
  let timer;
  if (!signal?.aborted) await one([[signal, "abort"]], (come) => (timer = setTimeout(come, ms)));
  clearTimeout(timer);
}

/** The first of these events, or of what `begin` starts; none of them is listened to any more. */
function one(events, begin = () => {}) {
  return new Promise((done) => {
    const come = () => {
      for (const [target, name] of events) target?.removeEventListener(name, come);
      done();
    };
    for (const [target, name] of events) target?.addEventListener(name, come);
    begin(come);
  });
}
