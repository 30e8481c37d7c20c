/** Questions before something that costs money or cannot be undone. Without a terminal, --yes is needed. */
import type { Content } from './screen.ts'
import { CliError, exitCodes, type Person } from './shell.ts'
import type { Call } from './row-type.ts'

export const YES = { '-y, --yes': 'do not ask for confirmation' }

const MAX_ATTEMPTS = 5

/**
 * Returns if the answer is yes. `about` is printed to the error output with the question, because the standard output
 * may be a file.
 */
export async function confirm(
  { shell, screen, options }: Call,
  question: string,
  about: readonly Content[] = [],
): Promise<void> {
  if ((options as { yes?: true }).yes === true) return
  if (shell.person === undefined) {
    throw new CliError(exitCodes.usage, 'This needs a confirmation, and there is no terminal.', [
      'To confirm in advance, add --yes.',
    ])
  }
  for (const line of screen.render(about)) shell.writeError(`${line}\n`)
  const answer = await shell.person.ask(`${question} [y/N] `)
  if (!/^y(es)?$/i.test(answer ?? '')) throw cancelled()
}

/** Asks until `read` accepts the answer. An empty answer means `usual`. */
export async function askFor<T>(
  person: Person,
  question: string,
  read: (text: string) => T | undefined,
  usual?: string,
): Promise<T> {
  const prompt = usual === undefined || usual === '' ? question : `${question} [${usual}]`
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const answer = await person.ask(`${prompt}: `)
    if (answer === undefined) break
    const value = read(answer === '' ? (usual ?? '') : answer)
    if (value !== undefined) return value
  }
  throw cancelled()
}

function cancelled(): CliError {
  return new CliError(exitCodes.failed, 'Cancelled. Nothing was changed.')
}
