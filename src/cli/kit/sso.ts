/** Parts that the commands of operators and owners about sign-in providers share. */
import type { Reply } from '../../client/client.ts'
import { tableOf } from './record.ts'
import type { Call } from './row-type.ts'
import { red, toned, type Content } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'

export const CLIENT_SECRET = {
  '--client-secret <file>': 'file with the secret of the client, or - for standard input',
}

/** Other users of the machine can see arguments, so the secret is never one. undefined: no file is named. */
export function readClientSecret({ shell }: Pick<Call, 'shell'>, file: string | undefined): string | undefined {
  if (file === undefined) return undefined
  const text = (file === '-' ? shell.readInput() : shell.readFile(file))?.trim() ?? ''
  if (text === '') throw new CliError(exitCodes.usage, `${file} is missing or empty: nothing was changed.`)
  return text
}

export function testLines({ checks, testUrl }: Reply<'testSsoProvider'>): readonly Content[] {
  return [
    tableOf(checks, [
      'check',
      {
        RESULT: ({ result }) =>
          result === 'failed' ? red('failed') : result === 'passed' ? toned('good', 'passed') : 'not tried',
      },
      'detail',
    ]),
    '',
    testUrl === null
      ? 'The server has no public URL: set BERTH_PUBLIC_URL before people can sign in.'
      : `To try a sign-in, open this while you are signed in to the console: ${testUrl}`,
  ]
}
