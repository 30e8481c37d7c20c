/**
 * Keeps answers that are generated together apart. llama.cpp brings the outputs of a batch into the order of its sequences
 * when the first of them is read, and two threads that do so at once leave sequences with each other's outputs. The library
 * samples all sequences of a batch at once, in threads. So after each batch one of them is sampled alone.
 */

/** The part of the library's native context used here. */
export interface NativeContext {
  decodeBatch(): Promise<void>
  sampleToken(...args: unknown[]): Promise<unknown>
}

export function orderSampling(native: NativeContext): void {
  const decodeBatch = native.decodeBatch.bind(native)
  const sampleToken = native.sampleToken.bind(native)
  let first: Promise<unknown> | undefined
  const replaced: NativeContext = {
    decodeBatch: () => {
      first = undefined
      return decodeBatch()
    },
    sampleToken: (...args) => {
      if (first === undefined) return (first = sampleToken(...args))
      const sample = (): Promise<unknown> => sampleToken(...args)
      return first.then(sample, sample)
    },
  }
  // Its own methods cannot be assigned.
  for (const [name, value] of Object.entries(replaced)) Object.defineProperty(native, name, { value })
}

/** Its version is pinned, and a test covers this. */
export function nativeContextOf(context: object): NativeContext {
  const native: unknown = Reflect.get(context, '_ctx')
  if (!isNativeContext(native)) throw new TypeError('this version of node-llama-cpp keeps its native context elsewhere')
  return native
}

function isNativeContext(value: unknown): value is NativeContext {
  if (typeof value !== 'object' || value === null) return false
  return (
    typeof Reflect.get(value, 'decodeBatch') === 'function' && typeof Reflect.get(value, 'sampleToken') === 'function'
  )
}
