/** Text files named by an option or argument. */
import { statSync } from 'node:fs'
import { CliError, exitCodes, type Shell } from './shell.ts'

/** `-` is the standard input. */
export function readTextFile(shell: Shell, file: string): string {
  const text = file === '-' ? shell.readInput() : shell.readFile(file)
  if (text !== undefined) return text
  const failure = file === '-' ? 'Cannot read the standard input' : `Cannot read ${file}: ${causeOf(file)}`
  throw new CliError(exitCodes.usage, `${failure}.`)
}

function causeOf(file: string): string {
  try {
    return statSync(file).isDirectory() ? 'it is a directory' : 'permission denied'
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EACCES' ? 'permission denied' : 'there is no such file'
  }
}
