/** `berth ledger verify` and `berth audit`: checks of the ledger and of the engines. Neither changes anything. */
import { money } from '../view/money.ts'
import { count, number } from '../view/number.ts'
import { show } from './row.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import type { Row } from './row-type.ts'

/** A recount reads every row. Node's own `fetch` waits no longer than this for an answer. */
const RECOUNT_MS = 290_000

export const rows: readonly Row[] = [
  show({
    command: 'ledger verify',
    operation: 'verifyLedger',
    timeoutMs: RECOUNT_MS,
    description: 'check the ledger; exit code 1 if it is wrong',
    isWrong: ({ ok }) => !ok,
    lines: ({ ok, checks, findings, houseUsd }, { screen }) => {
      const found = checks.reduce((sum, check) => sum + check.findings, 0)
      return [
        ...table(
          screen,
          [{ title: 'CHECK' }, { title: 'ROWS', right: true }, { title: 'FINDINGS' }],
          checks.map((check) => [check.name, number(check.rows), findingsCell(check.findings)]),
        ),
        '',
        screen.paint('dim', 'House accounts: money in, less money out'),
        ...fields(
          screen,
          Object.entries(houseUsd).map(([account, usd]) => [account, money(usd)] as const),
        ),
        '',
        ...findingLines(screen, findings, found),
        ok
          ? screen.paint('green', `The ledger is correct: ${count(checks.length, 'check')}, no findings.`)
          : screen.paint('red', `The ledger is wrong: ${count(found, 'finding')}. Nothing was changed.`),
      ]
    },
    examples: ['berth ledger verify'],
  }),
  show({
    command: 'audit',
    operation: 'auditEngines',
    description: 'compare engines with the database; exit code 1 if they differ',
    isWrong: ({ ok }) => !ok,
    lines: ({ ok, engines }, { screen }) => {
      const findings = engines.flatMap((engine) => engine.findings)
      const cells = engines.map((engine): Cell[] => [
        engine.driver,
        engine.reachable ? 'yes' : { text: engine.error ?? 'no', style: 'red' },
        number(engine.machines),
        number(engine.volumes),
        findingsCell(engine.findings.length),
      ])
      return [
        ...(cells.length === 0
          ? ['This server has no engines (BERTH_ENGINES).']
          : table(
              screen,
              [
                { title: 'ENGINE' },
                { title: 'REACHABLE' },
                { title: 'MACHINES', right: true },
                { title: 'VOLUMES', right: true },
                { title: 'FINDINGS' },
              ],
              cells,
            )),
        '',
        ...findingLines(screen, findings, findings.length),
        ok
          ? screen.paint('green', 'Engines and database agree.')
          : screen.paint('red', 'Engines and database differ. Nothing was changed.'),
      ]
    },
    examples: ['berth audit'],
  }),
]

function findingsCell(findings: number): Cell {
  return findings === 0 ? { text: 'none', style: 'green' } : { text: number(findings), style: 'red' }
}

function findingLines(
  screen: Screen,
  findings: ReadonlyArray<{ check: string; subject: string; detail: string }>,
  total: number,
): string[] {
  if (findings.length === 0) return []
  const left = total - findings.length
  return [
    ...table(
      screen,
      [{ title: 'CHECK' }, { title: 'SUBJECT' }, { title: 'DETAIL' }],
      findings.map(({ check, subject, detail }) => [check, subject, detail]),
    ),
    ...(left > 0 ? [`… and ${left} more`] : []),
    '',
  ]
}
