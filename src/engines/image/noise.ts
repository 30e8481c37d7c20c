/**
 * The noise that an image begins with. A seed gives the same noise always: the random numbers are whole (xoshiro128**)
 * and the same on every machine; only the last bit of a logarithm or a cosine may be another elsewhere.
 */

const WORD = 2 ** 32
/** The golden ratio in 32 bits: what tells the words of a state apart. */
const GOLDEN = 0x9e3779b9

/** Numbers of mean 0 and variance 1. The seed is a safe integer, also below 0, and all of its bits count. */
export function gaussianNoise(seed: number, length: number): Float32Array {
  const next = makeRandom(seed)
  const uniform = (): number => (next() + 0.5) / WORD
  const noise = new Float32Array(length)
  for (let i = 0; i < length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(uniform()))
    const angle = 2 * Math.PI * uniform()
    noise[i] = radius * Math.cos(angle)
    // Past the end, for an odd length, nothing is kept.
    noise[i + 1] = radius * Math.sin(angle)
  }
  return noise
}

/** Whole numbers below 2^32. */
function makeRandom(seed: number): () => number {
  const high = mix(Math.floor(seed / WORD))
  const word = (place: number): number => mix((seed >>> 0) ^ mix(high + place * GOLDEN))
  let [a, b, c, d] = [word(1), word(2), word(3), word(4)]
  return () => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0
    const shifted = b << 9
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = rotate(d, 11)
    return result
  }
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits))
}

/** Each bit of the outcome hangs on each bit of the value, and no two values give the same. */
function mix(value: number): number {
  let word = (value + GOLDEN) | 0
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35)
  return word ^ (word >>> 16)
}
