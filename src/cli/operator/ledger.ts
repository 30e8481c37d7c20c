/** `berth ledger verify` and `berth audit`: checks of the ledger and of the providers. Neither changes anything. */
import { money } from '../../view/money.ts'
import { count, number } from '../../view/number.ts'
import { tableOf } from '../kit/record.ts'
import { show } from '../kit/row.ts'
import { red, toned, type Cell, type Content, type Fact } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

/** A recount reads every row. Node's own `fetch` waits no longer than this for an answer. */
const RECOUNT_MS = 290_000

export const rows: readonly Row[] = [
  show('ledger verify', 'verifyLedger', 'check the ledger; exit code 1 if it is wrong', {
    timeoutMs: RECOUNT_MS,
    isWrong: ({ ok }) => !ok,
    content: ({ ok, checks, findings, houseUsd }) => {
      const total = checks.reduce((sum, check) => sum + check.findings, 0)
      return [
        tableOf(checks, ['name:CHECK', 'rows', { FINDINGS: (check) => findingsCell(check.findings) }]),
        '',
        toned('plain', 'House accounts: money in, less money out'),
        ...Object.entries(houseUsd).map(([account, usd]): Fact => [account, money(usd)]),
        '',
        ...describeFindings(findings, total),
        ok
          ? toned('good', `The ledger is correct: ${count(checks.length, 'check')}, no findings.`)
          : red(`The ledger is wrong: ${count(total, 'finding')}. Nothing was changed.`),
      ]
    },
  }),
  show('audit', 'auditEngines', 'compare engines with the database; exit code 1 if they differ', {
    isWrong: ({ ok }) => !ok,
    content: ({ ok, engines }) => {
      const findings = engines.flatMap((engine) => engine.findings)
      return [
        engines.length === 0
          ? 'This server has no drivers (BERTH_DRIVERS).'
          : tableOf(engines, [
              'driver:ENGINE',
              { REACHABLE: ({ reachable, error }) => (reachable ? 'yes' : red(error ?? 'no')) },
              'machines',
              'volumes',
              { FINDINGS: (engine) => findingsCell(engine.findings.length) },
            ]),
        '',
        ...describeFindings(findings, findings.length),
        ok ? toned('good', 'Engines and database agree.') : red('Engines and database differ. Nothing was changed.'),
      ]
    },
  }),
]

function findingsCell(findings: number): Cell {
  return findings === 0 ? toned('good', 'none') : red(number(findings))
}

function describeFindings(
  findings: ReadonlyArray<{ check: string; subject: string; detail: string }>,
  total: number,
): Content[] {
  if (findings.length === 0) return []
  const more = total - findings.length
  return [tableOf(findings, ['check', 'subject', 'detail']), more > 0 ? `… and ${more} more` : undefined, '']
}
