/**
 * Where the beginnings of prompts went, so that the next call with the same beginning finds the engine that has it in
 * its cache. Two generations stand for a list by last use: the young one fills, becomes the old one, and what was not
 * asked for until the next change is forgotten. That costs one write for each hash, and never a sort.
 */
import type { Target } from './routing-target.ts'
import type { UpstreamCall } from './upstream-call.ts'

/** For each model, in both generations together. */
const MOST_PREFIXES = 65_536
const MOST_SESSIONS = 16_384
/** Of one call, the longest ones. */
const PREFIXES_PER_CALL = 64
const SESSION_CHARS = 128

class Generations<K> {
  readonly #perGeneration: number
  #young = new Map<K, Target>()
  #old = new Map<K, Target>()

  constructor(most: number) {
    this.#perGeneration = most / 2
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  get(key: K): Target | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  set(key: K, target: Target): void {
    this.#young.set(key, target)
    if (this.#young.size < this.#perGeneration) return
    this.#old = this.#young
    this.#young = new Map()
  }
}

export class RoutingMemory {
  readonly #prefixes = new Generations<number>(MOST_PREFIXES)
  readonly #sessions = new Generations<string>(MOST_SESSIONS)

  get size(): number {
    return this.#prefixes.size + this.#sessions.size
  }

  /** The one that has seen this session, else the longest beginning of this prompt, among those that can take it. */
  find(call: UpstreamCall, canTake: (target: Target) => boolean): Target | undefined {
    if (call.session !== undefined) {
      const target = this.#sessions.get(sessionKey(call.accountId, call.session))
      if (target !== undefined && canTake(target)) return target
    }
    const { prefixes } = call
    const shortest = Math.max(0, prefixes.length - PREFIXES_PER_CALL)
    for (let n = prefixes.length - 1; n >= shortest; n -= 1) {
      const target = this.#prefixes.get(prefixes[n] ?? 0)
      if (target !== undefined && canTake(target)) return target
    }
    return undefined
  }

  keep(call: UpstreamCall, target: Target): void {
    if (call.session !== undefined) this.#sessions.set(sessionKey(call.accountId, call.session), target)
    const { prefixes } = call
    for (let n = Math.max(0, prefixes.length - PREFIXES_PER_CALL); n < prefixes.length; n += 1) {
      this.#prefixes.set(prefixes[n] ?? 0, target)
    }
  }
}

/** Two accounts may use the same words for their sessions. */
function sessionKey(accountId: string, session: string): string {
  return `${accountId} ${session.slice(0, SESSION_CHARS)}`
}
