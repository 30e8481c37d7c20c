/** `berth operator terms`. */
import { utcTime } from '../../view/time.ts'
import { act, show, withBody } from '../kit/row.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  act('operator terms publish', 'publishTerms', 'publish a new version of the terms; asks first', {
    args: { '<file>': 'the terms, as plain text' },
    only: [],
    notes: `From then on, new orders of an account need an owner who has accepted the new
version in the console. What runs goes on.`,
    confirm: () => 'Publish these terms? New orders wait until an owner of the account accepts them.',
    examples: ['berth operator terms publish terms.txt'],
    prepare: ({ shell, args, input }) => {
      const file = String(args[0])
      const body = shell.readFile(file)
      if (body === undefined) throw new CliError(exitCodes.usage, `Cannot read the file ${file}.`)
      return withBody(input, { body })
    },
    done: ({ version }) => `Published version ${version} of the terms.`,
  }),
  show('operator terms show', 'getTerms', 'show the newest terms', {
    facts: [
      {
        Version: ({ terms }) => (terms === null ? 'none was published' : String(terms.version)),
        Published: ({ terms }) => (terms === null ? undefined : utcTime(terms.createdAt)),
      },
    ],
    content: ({ terms }) => (terms === null ? [] : ['', ...terms.body.split('\n')]),
  }),
]
