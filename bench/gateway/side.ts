/** One side of a comparison: something that takes chat requests on a port of this machine. */

export interface Side {
  readonly name: string
  readonly port: number
  /** Whose CPU counts, with all processes below it. undefined: nobody's, there is no proxy. */
  readonly pid: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Until all that its answers have left behind is done, too: that is part of what they cost. */
  rest?(): Promise<void>
  stop(): Promise<void>
}

/** A side that could not be had on this machine, and why. */
export interface MissingSide {
  readonly name: string
  readonly missing: string
}

export const FLOOR = 'peer floor: direct to the upstream'

/** No proxy at all: what the others add to. */
export function directSide(port: number): Side {
  return { name: FLOOR, port, pid: undefined, headers: plainHeaders, stop: async () => {} }
}

/** A key goes with every request of every side: a proxy passes it on at least. */
export const plainHeaders = { Authorization: 'Bearer of-nobody' } as const
