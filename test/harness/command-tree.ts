/** All commands of the CLI loaded at once, with a shell that discards all output. */
import { Command } from 'commander'
import { addRow } from '../../src/cli/kit/command.ts'
import { commandFiles, groupAliases, groupDescriptions } from '../../src/cli/command-table.ts'
import { loadOperations } from '../../src/cli/kit/operation-source.ts'
import type { Row } from '../../src/cli/kit/row-type.ts'

export const silentShell = {
  env: {},
  color: { out: false, error: false },
  write: () => {},
  writeError: () => {},
  readFile: () => undefined,
  readInput: () => undefined,
}

export async function loadRows(): Promise<Row[]> {
  const files = Object.values(commandFiles).flat()
  return (await Promise.all(files.map((file) => file.load()))).flat()
}

export async function loadCommandTree(): Promise<Command> {
  const program = new Command('berth')
  const tree = {
    program,
    shell: silentShell,
    title: 'Commands:',
    groups: groupDescriptions,
    groupAliases,
    ended: () => {},
  }
  await loadOperations()
  for (const row of await loadRows()) addRow(tree, row)
  return program
}
