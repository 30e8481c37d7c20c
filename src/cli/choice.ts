/** One of several things that people name by an id or by a name of their own. */
import { CliError, exitCodes } from './shell.ts'

export interface Choice {
  /** Such as `API key`. */
  readonly noun: string
  /** The command that lists them. */
  readonly list: string
}

/** By its id, or by its name where no other has that. */
export function chooseOne<T>(
  rows: readonly T[],
  wanted: string,
  { idOf, nameOf }: { idOf: (row: T) => string; nameOf: (row: T) => string },
  { noun, list }: Choice,
): T {
  const exact = rows.find((row) => idOf(row) === wanted)
  if (exact !== undefined) return exact
  const named = rows.filter((row) => nameOf(row) === wanted)
  const [only] = named
  if (only === undefined)
    throw new CliError(exitCodes.failed, `There is no ${noun} ${wanted}.`, [`${list} lists them.`])
  if (named.length === 1) return only
  throw new CliError(exitCodes.usage, `More than one ${noun} is called ${wanted}.`, [
    `Name one of: ${named.map(idOf).join(', ')}`,
  ])
}
