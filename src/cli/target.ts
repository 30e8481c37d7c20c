/** Things that people name by an id or by a name of their own. */
import type { Client } from '../client/client.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Target } from './row-type.ts'

interface Kind<T> {
  /** Such as `API key`; its last word names the argument. */
  readonly noun: string
  /** The command that lists them. */
  readonly list: string
  /** How it is named beside its id: `name`, `URL`. */
  readonly named: string
  /** `wanted` is what was typed: one that is found by its id alone may be left out otherwise. */
  readonly read: (client: Client, wanted: string) => Promise<readonly T[]>
  readonly idOf: (row: T) => string | number
  readonly nameOf: (row: T) => string
}

export function targetOf<T>(kind: Kind<T>): Target<T> {
  return {
    arg: kind.noun.split(' ').at(-1) ?? kind.noun,
    help: `its id or ${kind.named}, as shown by ${kind.list}`,
    find: async (client, wanted) => choose(await kind.read(client, wanted), wanted, kind),
    idOf: kind.idOf,
  }
}

/** By its id, or by its name where no other has that. */
function choose<T>(rows: readonly T[], wanted: string, { noun, list, idOf, nameOf }: Kind<T>): T {
  const exact = rows.find((row) => String(idOf(row)) === wanted)
  if (exact !== undefined) return exact
  const named = rows.filter((row) => nameOf(row) === wanted)
  const [only] = named
  if (only === undefined) {
    throw new CliError(exitCodes.failed, `There is no ${noun} ${wanted}.`, [`To list them: ${list}`])
  }
  if (named.length === 1) return only
  throw new CliError(exitCodes.usage, `More than one ${noun} is named ${wanted}.`, [
    `Use one of the ids: ${named.map(idOf).join(', ')}`,
  ])
}
