/** One side of a comparison: a chat server on this machine. */

export interface Side {
  readonly name: string
  readonly port: number
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** The process whose CPU counts, with its children. undefined: there is no proxy. */
  readonly pid: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Berth: a wrong response is a failure of the bench. */
  readonly isOurs?: boolean
  /** Fewer than the others have. */
  readonly rounds?: number
  /** Waits until deferred work is done too, because it is part of the cost. */
  rest?(): Promise<void>
  stop(): Promise<void>
}

/** A side that is unavailable on this machine, with the reason. */
export interface MissingSide {
  readonly name: string
  readonly missing: string
}

/** For a side that is far off. */
export const DISTANT_ROUNDS = 3

export const FLOOR = 'peer floor: direct to the upstream'

/** No proxy at all: the baseline. */
export function directSide(port: number): Side {
  return { name: FLOOR, port, pid: undefined, headers: plainHeaders, rounds: DISTANT_ROUNDS, stop: async () => {} }
}

/** Every request on every side has a key, which a proxy must at least forward. */
export const plainHeaders = { Authorization: 'Bearer of-nobody' } as const
