/**
 * The initial noise of an image, reproducible by its seed: the random integers (xoshiro128**) are the same on every
 * machine; only the last bit of a logarithm or cosine may differ.
 */

const WORD = 2 ** 32
/** The golden ratio in 32 bits, to make the words of the state differ. */
const GOLDEN = 0x9e3779b9

/** Numbers with mean 0 and variance 1. The seed is any safe integer, and all its bits count. */
export function gaussianNoise(seed: number, length: number): Float32Array {
  const next = makeRandom(seed)
  const uniform = (): number => (next() + 0.5) / WORD
  const noise = new Float32Array(length)
  for (let i = 0; i < length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(uniform()))
    const angle = 2 * Math.PI * uniform()
    noise[i] = radius * Math.cos(angle)
    // For an odd length the last write is out of bounds and ignored.
    noise[i + 1] = radius * Math.sin(angle)
  }
  return noise
}

/** Random integers below 2^32. */
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

/** A bijective hash: each output bit depends on each input bit. */
function mix(value: number): number {
  let word = (value + GOLDEN) | 0
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35)
  return word ^ (word >>> 16)
}
