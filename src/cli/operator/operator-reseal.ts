/** `berth operator reseal`: encrypts stored secrets with the current secret key, after it has changed. */
import type { Reply } from '../../client/client.ts'
import { count } from '../../view/number.ts'
import { custom } from '../kit/row.ts'
import { red } from '../kit/screen.ts'
import { exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const PAGE_ROWS = 500
const MAX_NAMED = 20

export const rows: readonly Row[] = [
  custom('operator reseal', 'encrypt stored secrets with the current secret key', {
    operation: 'resealSecrets',
    who: 'operator',
    run: reseal,
    notes: 'After it has changed. It can be stopped and run again at any time.',
    examples: ['berth operator reseal'],
  }),
]

async function reseal({ client, screen }: Call): Promise<ExitCode> {
  let [checked, resealed, cursor]: [number, number, string | null] = [0, 0, null]
  const unreadable: string[] = []
  do {
    const page: Reply<'resealSecrets'> = await client.call('resealSecrets', {
      body: { limit: PAGE_ROWS, ...(cursor === null ? {} : { cursor }) },
    })
    checked += page.checked
    resealed += page.resealed
    unreadable.push(...page.unreadable)
    cursor = page.nextCursor
    if (page.resealed > 0) screen.remark(`${count(resealed, 'secret')} encrypted with the current key so far.`)
  } while (cursor !== null)
  screen.show({ checked, resealed, unreadable }, () => [
    `Checked ${count(checked, 'secret')}; ${resealed} had an older key. All servers can now run without it.`,
    ...(unreadable.length === 0 ? [] : [red(`${count(unreadable.length, 'secret')} cannot be opened with any key:`)]),
    ...unreadable.slice(0, MAX_NAMED).map((one) => `  ${one}`),
  ])
  return unreadable.length === 0 ? exitCodes.ok : exitCodes.failed
}
