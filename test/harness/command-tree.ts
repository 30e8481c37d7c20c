/** All commands of the CLI at once, as no run of it loads them, with a shell that swallows everything. */
import { Command } from 'commander'
import { commandFiles } from '../../src/cli/command-table.ts'

export const silentShell = {
  env: {},
  colour: { out: false, error: false },
  write: () => {},
  writeError: () => {},
  readFile: () => undefined,
  readInput: () => undefined,
}

export async function loadCommandTree(): Promise<Command> {
  const root = new Command('berth')
  for (const file of Object.values(commandFiles).flat()) (await file.load())(root, () => async () => {}, silentShell)
  return root
}
