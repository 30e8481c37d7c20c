/** Hides values of secrets in texts that are logged or leave the host, such as an error of an engine that quotes them. */
import type { Workload } from '../contract/agent.ts'

const MASK = '***'
/** A shorter value is no secret worth the name, and hiding it would make texts unreadable. */
const MIN_CHARS = 4
/** Lines of a secret with several lines, such as a private key. */
const MIN_LINE_CHARS = 16
/** Beyond this the oldest are forgotten: their workloads are long gone. */
const MAX_VALUES = 10_000

export class SecretMask {
  readonly #values = new Set<string>()
  /** Longest first: one value may be part of another. */
  #sorted: readonly string[] = []

  /** Values stay known after their workload is gone: a late error may still quote them. */
  learn(workloads: readonly Workload[]): void {
    const before = this.#values.size
    for (const { spec } of workloads) {
      const { secrets = [], registry = null } = spec?.program ?? {}
      for (const value of [...secrets, ...(registry === null ? [] : [registry.password])]) this.#add(value)
    }
    if (this.#values.size === before) return
    for (const value of this.#values) {
      if (this.#values.size <= MAX_VALUES) break
      this.#values.delete(value)
    }
    this.#sorted = [...this.#values].sort((a, b) => b.length - a.length)
  }

  hide(text: string): string {
    return this.#sorted.reduce((masked, value) => masked.replaceAll(value, MASK), text)
  }

  #add(value: string): void {
    if (value.trim().length < MIN_CHARS) return
    const lines = value.split('\n').filter((line) => line.length >= MIN_LINE_CHARS)
    // The escaped form in JSON is masked too.
    for (const one of [value, value.trim(), ...lines]) this.#values.add(one).add(JSON.stringify(one).slice(1, -1))
  }
}
