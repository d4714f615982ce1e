/**
 * Images: which arrays are some, how their rows lie, and how they are drawn. One row may have several: a stack of the
 * last frames, which are drawn side by side.
 */

/**
 * @typedef {object} Layout
 * @property {number} tiles how many images, the oldest first.
 * @property {number} height
 * @property {number} width
 * @property {number} channels 1: grey, 3: red, green, blue, 4: and alpha.
 * @property {[number, number, number, number]} strides of tile, y, x and channel, in bytes.
 */

const LEAST = 8; // pixels on a side; what is smaller is a table of numbers
const MOST_TILES = 16;

/**
 * How rows of a shape lie if they are images; null if they are none.
 *
 * Four channels are red, green, blue and alpha, or a stack of four grey images, as recorded agents often see. The bytes
 * tell: of a picture that is seen whole, alpha is 255 everywhere.
 * @param {string} dtype
 * @param {number[]} shape of a row
 * @param {Uint8Array} [sample] the bytes of a row
 * @returns {Layout | null}
 */
export function layoutOf(dtype, shape, sample) {
  if (dtype !== "uint8" || shape.length < 2 || shape.length > 4) return null;
  const [a, b, c, d] = shape;
  if (shape.length === 2) return layout([1, a, b, 1], [0, b, 1, 0]);
  if (shape.length === 4) {
    if (a > MOST_TILES) return null;
    if (d === 1 || d === 3 || d === 4) return layout([a, b, c, d], [b * c * d, c * d, d, 1]);
    return b === 1 || b === 3 ? layout([a, c, d, b], [b * c * d, d, 1, c * d]) : null;
  }
  const isLast = c <= a && c <= b; // the channels stand last
  const count = isLast ? c : a;
  const [height, width] = isLast ? [a, b] : [b, c];
  const [y, x, channel] = isLast ? [b * c, c, 1] : [c, 1, b * c];
  const isOpaque = !sample || alphas(sample, height, width, [y, x, channel]);
  const channels = count === 3 || (count === 4 && isOpaque) ? count : count % 3 === 0 ? 3 : 1;
  if (count / channels > MOST_TILES) return null;
  return layout([count / channels, height, width, channels], [channels * channel, y, x, channel]);
}

/**
 * How a frame lies, which is an image whatever its size: (height, width) or (height, width, channels).
 * @param {number[]} shape
 * @param {Uint8Array} sample
 * @returns {Layout | null}
 */
export function frameLayout(shape, sample) {
  const [height, width, channels = 1] = shape;
  if (![1, 3, 4].includes(channels)) return layoutOf("uint8", shape, sample); // of an environment with its own ideas
  const [y, x] = [width * channels, channels];
  return { tiles: 1, height, width, channels, strides: [0, y, x, 1] };
}

/**
 * @param {[number, number, number, number]} lengths
 * @param {[number, number, number, number]} strides
 * @returns {Layout | null}
 */
function layout([tiles, height, width, channels], strides) {
  return height < LEAST || width < LEAST || tiles < 1 ? null : { tiles, height, width, channels, strides };
}

/**
 * @param {Uint8Array} bytes
 * @param {number} height
 * @param {number} width
 * @param {[number, number, number]} strides
 */
function alphas(bytes, height, width, [sy, sx, sc]) {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) if (bytes[y * sy + x * sx + 3 * sc] !== 255) return false;
  }
  return true;
}

/**
 * Draws a row, one pixel for each of its pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} bytes
 * @param {Layout} layout
 */
export function draw(canvas, bytes, { tiles, height, width, channels, strides: [st, sy, sx, sc] }) {
  const [wide, context] = [tiles * width, canvas.getContext("2d")];
  if (canvas.width !== wide || canvas.height !== height) [canvas.width, canvas.height] = [wide, height];
  const image = new ImageData(wide, height);
  const pixels = image.data;
  for (let tile = 0; tile < tiles; tile++) {
    for (let y = 0; y < height; y++) {
      let from = tile * st + y * sy;
      let to = 4 * (y * wide + tile * width);
      for (let x = 0; x < width; x++, from += sx, to += 4) {
        pixels[to] = bytes[from];
        pixels[to + 1] = bytes[channels > 1 ? from + sc : from];
        pixels[to + 2] = bytes[channels > 1 ? from + 2 * sc : from];
        pixels[to + 3] = channels === 4 ? bytes[from + 3 * sc] : 255;
      }
    }
  }
  context?.putImageData(image, 0, 0);
}
