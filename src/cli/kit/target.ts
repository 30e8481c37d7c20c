/** Things that people name by an id or a name. */
import type { Client } from '../../client/client.ts'
import { CliError, exitCodes } from './shell.ts'
import type { TargetSpec } from './row-type.ts'

interface Kind<T> {
  /** May leave out things that only `idOrName` as an id would find. */
  readonly read: (client: Client, idOrName: string) => Promise<readonly T[]>
  readonly id: keyof T
  readonly name: keyof T & string
  /** People's word for the name, if it differs from the field's name. */
  readonly named?: string
}

/** `noun` is a text such as `API key`, whose last word names the argument; `list` is the command that lists them. */
export function targetOf<T>(noun: string, list: string, { read, id, name, named = name }: Kind<T>): TargetSpec<T> {
  const idOf = (row: T): string => String(row[id])
  return {
    arg: noun.split(' ').at(-1) ?? noun,
    help: `its id or ${named}, as shown by ${list}`,
    idOf,
    find: async (client, idOrName) => {
      const rows = await read(client, idOrName)
      const exact = rows.find((row) => idOf(row) === idOrName)
      if (exact !== undefined) return exact
      const [only, ...others] = rows.filter((row) => row[name] === idOrName)
      if (only === undefined) {
        throw new CliError(exitCodes.failed, `There is no ${noun} ${idOrName}.`, [`To list them: ${list}`])
      }
      if (others.length === 0) return only
      throw new CliError(exitCodes.usage, `More than one ${noun} is named ${idOrName}.`, [
        `Use one of the ids: ${[only, ...others].map(idOf).join(', ')}`,
      ])
    },
  }
}
