// Photos to a network's size, as Pillow's BILINEAR does it, so that a browser answers what a device answers.

// Each pixel of the result is a mean over a triangle, twice as wide as what the pixel stands for in the photo. A canvas
// (and cv2's plain bilinear) looks at the four nearest pixels only, whatever lies between them: on photos that costs
// points. Rows come first and are rounded to bytes, then columns; weights are whole numbers of 2⁻²². Pillow up to 12
// gives the same bits; 13 takes columns first where a photo is tall, and is a grey level off here and there.

const BITS = 22;

/** For each of `to` places: the first pixel of `from` that counts, and the weights from there on. */
function triangles(from, to) {
  const scale = from / to;
  const support = Math.max(scale, 1);
  return Array.from({ length: to }, (_, i) => {
    const centre = (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(from, Math.trunc(centre + support + 0.5));
    const weights = Array.from({ length: end - first }, (_, x) => Math.max(0, 1 - Math.abs((x + first - centre + 0.5) / support)));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { first, weights: Int32Array.from(weights, (w) => Math.trunc(0.5 + (w / sum) * 2 ** BITS)) };
  });
}

/** Along one axis: `lines` of `from` places, `step` bytes apart, to `to` places each. */
function along(pixels, { from, to, lines, line, step, toLine, toStep, channels }) {
  if (from === to) return pixels;
  const out = new Uint8Array(lines * to * channels);
  triangles(from, to).forEach(({ first, weights }, place) => {
    for (let n = 0; n < lines; n++) {
      for (let c = 0; c < channels; c++) {
        let sum = 2 ** (BITS - 1);
        let at = n * line + first * step + c;
        for (let i = 0; i < weights.length; i++, at += step) sum += pixels[at] * weights[i];
        out[n * toLine + place * toStep + c] = sum >> BITS;
      }
    }
  });
  return out;
}

/** Bytes of height × width × channels at another size. */
export function resized(pixels, [height, width], channels, [toHeight, toWidth]) {
  const [row, toRow] = [width * channels, toWidth * channels];
  const narrow = along(pixels, { from: width, to: toWidth, lines: height, line: row, step: channels, toLine: toRow, toStep: channels, channels });
  return along(narrow, { from: height, to: toHeight, lines: toWidth, line: channels, step: toRow, toLine: channels, toStep: toRow, channels });
}

/** A picture's RGBA pixels, upright and at its own size, as one input of a bundle whose `input.shape` this is. */
export function fromPicture(rgba, width, height, [toHeight, toWidth, channels]) {
  return resized(fromRgba(rgba, channels), [height, width], channels, [toHeight, toWidth]);
}

/** RGBA pixels of a canvas as the bundle's channels (grey as Pillow makes it). */
export function fromRgba(rgba, channels) {
  const n = rgba.length / 4;
  const out = new Uint8Array(n * channels);
  for (let i = 0; i < n; i++) {
    const [r, g, b] = [rgba[4 * i], rgba[4 * i + 1], rgba[4 * i + 2]];
    if (channels === 1) out[i] = (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
    else for (let c = 0; c < channels; c++) out[i * channels + c] = rgba[4 * i + c];
  }
  return out;
}
