/** `berth ledger verify`: the books recounted. */
import type { Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { exitCodes } from './shell.ts'

/** A recount reads every row. Node's own `fetch` waits for an answer no longer than this. */
const RECOUNT_MS = 290_000

export function addLedgerCommands(program: Command, run: Run): void {
  const ledger = program.command('ledger').description('the books').usage(GROUP_USAGE).commandsGroup('Operators:')
  ledger
    .command('verify')
    .description('recount the books; exit code 1 when wrong')
    .action(
      run('operator', async ({ client, screen }) => {
        const verdict = await client.call('verifyLedger', { timeoutMs: RECOUNT_MS })
        screen.show(verdict, () => verdictLines(screen, verdict))
        return verdict.ok ? exitCodes.ok : exitCodes.failed
      }),
    )
}

function verdictLines(screen: Screen, { ok, checks, findings, houseUsd }: Reply<'verifyLedger'>): string[] {
  const found = checks.reduce((sum, check) => sum + check.findings, 0)
  const house = Object.entries(houseUsd).map(([account, usd]) => [account, money(usd)] as const)
  return [
    ...table(
      screen,
      [{ title: 'CHECK' }, { title: 'ROWS', right: true }, { title: 'FOUND' }],
      checks.map((check) => [check.name, check.rows.toLocaleString('en-US'), foundCell(check.findings)]),
    ),
    '',
    screen.paint('dim', "The house's accounts: what came in, less what went out"),
    ...fields(screen, house),
    '',
    ...findingLines(screen, findings, found),
    ok
      ? screen.paint('green', `The books are right: ${count(checks.length, 'check')}, nothing found.`)
      : screen.paint('red', `The books are wrong: ${count(found, 'finding')}. Nothing was changed.`),
  ]
}

function foundCell(findings: number): Cell {
  return findings === 0 ? { text: 'nothing', style: 'green' } : { text: String(findings), style: 'red' }
}

/** Findings of the ledger and of the engines look the same. */
export function findingLines(
  screen: Screen,
  findings: ReadonlyArray<{ check: string; subject: string; detail: string }>,
  total: number,
): string[] {
  if (findings.length === 0) return []
  const rows = findings.map(({ check, subject, detail }) => [check, subject, detail])
  const left = total - findings.length
  return [
    ...table(screen, [{ title: 'CHECK' }, { title: 'SUBJECT' }, { title: 'DETAIL' }], rows),
    ...(left > 0 ? [`… and ${left} more`] : []),
    '',
  ]
}
