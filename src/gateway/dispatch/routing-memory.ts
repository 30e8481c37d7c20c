/**
 * Remembers which engines got which prompt prefixes, so that the next call with the same prefix reaches an engine that
 * has it cached. A short prefix that many different prompts share, such as a company's system prompt, is soon in every
 * cache and saves little: it does not decide, or all new conversations would gather on one engine. Two generations approximate a least-recently-used
 * list: the young one fills up, becomes the old one, and entries not used until the next change are dropped.
 */
import type { Target } from './routing-target.ts'
import type { UpstreamCall } from '../upstream/upstream-call.ts'

/** The maximum per model, in both generations together. */
const MAX_PREFIXES = 65_536
const MAX_SESSIONS = 16_384
/** The longest prefixes of a call are remembered, up to this number. */
const MAX_PREFIXES_PER_CALL = 64
const MAX_SESSION_CHARS = 128
/** A prefix is common once prompts have continued after it in this many ways. */
const COMMON_AFTER_BRANCHES = 3
/** A common prefix of at least this many tokens still decides. */
const LONG_PREFIX_TOKENS = 1_024
/** The number of engines remembered per prefix; the caches of earlier ones have probably dropped it. */
const MAX_TARGETS = 8

interface Beginning {
  /** The newest engine is last. */
  readonly targets: Target[]
  /** The first hash after the prefix in the last prompt; 0: the prompt ended. */
  next: number
  branches: number
}

class Generations<K, V> {
  readonly #perGeneration: number
  #young = new Map<K, V>()
  #old = new Map<K, V>()

  constructor(maxEntries: number) {
    this.#perGeneration = maxEntries / 2
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  get(key: K): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  set(key: K, value: V): void {
    this.#young.set(key, value)
    if (this.#young.size < this.#perGeneration) return
    this.#old = this.#young
    this.#young = new Map()
  }
}

export class RoutingMemory {
  readonly #beginnings = new Generations<number, Beginning>(MAX_PREFIXES)
  readonly #sessions = new Generations<string, Target>(MAX_SESSIONS)

  get size(): number {
    return this.#beginnings.size + this.#sessions.size
  }

  /**
   * The target of this session, otherwise one that has the longest known prefix, among those that can take the call.
   */
  find(call: UpstreamCall, canTake: (target: Target) => boolean): Target | undefined {
    if (call.session !== undefined) {
      const target = this.#sessions.get(sessionKey(call.accountId, call.session))
      if (target !== undefined && canTake(target)) return target
    }
    const { prefixes, prefixTokens } = call
    for (let n = prefixes.length - 1; n >= shortestOf(prefixes); n -= 1) {
      const beginning = this.#beginnings.get(prefixes[n] ?? 0)
      if (beginning === undefined) continue
      // Shorter prefixes are more common still.
      if (beginning.branches >= COMMON_AFTER_BRANCHES && (prefixTokens[n] ?? 0) < LONG_PREFIX_TOKENS) return undefined
      let best: Target | undefined
      for (let at = beginning.targets.length - 1; at >= 0; at -= 1) {
        const target = beginning.targets[at]
        if (target === undefined || !canTake(target)) continue
        if (best === undefined || target.slots.uncached < best.slots.uncached) best = target
      }
      if (best !== undefined) return best
    }
    return undefined
  }

  /** The tokens of the longest prefix that this target has received before. */
  knownTokens({ prefixes, prefixTokens }: UpstreamCall, target: Target): number {
    for (let n = prefixes.length - 1; n >= shortestOf(prefixes); n -= 1) {
      const isKnown = this.#beginnings.get(prefixes[n] ?? 0)?.targets.includes(target)
      if (isKnown === true) return prefixTokens[n] ?? 0
    }
    return 0
  }

  keep(call: UpstreamCall, target: Target): void {
    if (call.session !== undefined) this.#sessions.set(sessionKey(call.accountId, call.session), target)
    const { prefixes } = call
    for (let n = shortestOf(prefixes); n < prefixes.length; n += 1) {
      const prefix = prefixes[n] ?? 0
      const next = prefixes[n + 1] ?? 0
      const beginning = this.#beginnings.get(prefix) ?? { targets: [], next, branches: 0 }
      if (next !== 0 && next !== beginning.next) {
        if (beginning.next !== 0) beginning.branches += 1
        beginning.next = next
      }
      moveToEnd(beginning.targets, target)
      this.#beginnings.set(prefix, beginning)
    }
  }
}

function shortestOf(prefixes: readonly number[]): number {
  return Math.max(0, prefixes.length - MAX_PREFIXES_PER_CALL)
}

function moveToEnd(targets: Target[], target: Target): void {
  if (targets.at(-1) === target) return
  const place = targets.indexOf(target)
  if (place !== -1) targets.splice(place, 1)
  targets.push(target)
  if (targets.length > MAX_TARGETS) targets.shift()
}

/** Includes the account, since two accounts may use the same session name. */
function sessionKey(accountId: string, session: string): string {
  return `${accountId} ${session.slice(0, MAX_SESSION_CHARS)}`
}
