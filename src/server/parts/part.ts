/**
 * The parts of a server. One function opens a part and returns what it adds. Parts close in the reverse order; if one fails
 * to open, those before it are closed. A part may be made of parts itself.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../base/instant.ts'
import type { Metrics } from '../../base/metrics.ts'
import { throwAll, type Reconciler } from '../../reconcile/loop.ts'
import type { Settings } from '../settings.ts'

/** Passed to every part. A part registers its metrics here. */
export interface Context {
  readonly settings: Settings
  readonly dataDir: string
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
  /** Aborts when clients are to leave this server. */
  readonly draining: AbortSignal
}

export interface Part {
  /** Run with all other loops, on servers that run any. */
  readonly loops?: readonly Reconciler[]
  readonly checks?: Checks
  close(): unknown
}

/** Checks for `/readyz`. Each resolves to `ok` or to what is wrong, and never rejects. */
export type Checks = Readonly<Record<string, () => Promise<string>>>

/** The parts that are open, in the order of their opening. */
export class Parts {
  readonly #opened: Part[] = []

  async add<One extends Part>(opening: One | Promise<One>): Promise<One> {
    const part = await opening
    this.#opened.push(part)
    return part
  }

  get loops(): readonly Reconciler[] {
    return this.#opened.flatMap(({ loops = [] }) => loops)
  }

  get checks(): Checks {
    return Object.fromEntries(this.#opened.flatMap(({ checks = {} }) => Object.entries(checks)))
  }

  /** Closes all of them, also if some fail to close. */
  async close(): Promise<void> {
    const errors: unknown[] = []
    for (const part of this.#opened.splice(0).toReversed()) {
      try {
        await part.close()
      } catch (error) {
        errors.push(error)
      }
    }
    throwAll(errors)
  }
}

/** A part made of parts. */
export async function openParts<Value extends object>(
  open: (parts: Parts) => Promise<Value>,
): Promise<Value & { close(): Promise<void> }> {
  const parts = new Parts()
  try {
    const value = await open(parts)
    return { ...value, close: () => parts.close() }
  } catch (error) {
    // The cause of the failure matters more than a consequence.
    await parts.close().catch((consequence: unknown) => noteConsequence(error, consequence))
    throw error
  }
}

function noteConsequence(error: unknown, consequence: unknown): void {
  if (error instanceof Error) error.cause ??= consequence
}
