/** Questions before something is done that costs money or cannot be undone. Without anybody in front, --yes is needed. */
import { CliError, exitCodes, type Person, type Shell } from './shell.ts'

export const YES = ['-y, --yes', 'do not ask'] as const

const MAX_ATTEMPTS = 5

/** Returns when it may be done. What it is about is shown where the question stands: the answer may go to a file. */
export async function confirm(
  shell: Shell,
  question: string,
  yes: boolean,
  about: readonly string[] = [],
): Promise<void> {
  if (yes) return
  if (shell.person === undefined) {
    throw new CliError(exitCodes.usage, 'This asks first, and there is no terminal to ask in.', [
      'Add --yes to do it without being asked.',
    ])
  }
  for (const line of about) shell.writeError(`${line}\n`)
  const answer = await shell.person.ask(`${question} [y/N] `)
  if (!/^y(es)?$/i.test(answer ?? '')) throw nothingDone()
}

/** Asks until the answer is one that `read` takes. An empty answer is `usual`. */
export async function askFor<T>(
  person: Person,
  question: string,
  read: (text: string) => T | undefined,
  usual?: string,
): Promise<T> {
  const words = usual === undefined || usual === '' ? question : `${question} [${usual}]`
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const answer = await person.ask(`${words}: `)
    if (answer === undefined) break
    const value = read(answer === '' ? (usual ?? '') : answer)
    if (value !== undefined) return value
  }
  throw nothingDone()
}

function nothingDone(): CliError {
  return new CliError(exitCodes.failed, 'Nothing was done.')
}
