/**
 * Checks the ledger, and compares the providers with the database. Both run on demand, because a check reads every row.
 * Neither changes anything.
 */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { formatInstant, instantOf } from '../../../src/base/instant.ts'
import { count, number } from '../../../src/view/number.ts'
import { localTime } from '../../../src/view/time.ts'
import { checkLabel, findingLabel, houseAccountLabel } from '../../../src/view/ledger.ts'
import { useAction } from '../../api/query.ts'
import { badgeColumn, moneyColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

/** Checking a large ledger takes minutes. */
const CHECK_MS = 290_000

type Verdict = Reply<'verifyLedger'>
type EngineVerdict = Reply<'auditEngines'>

export function LedgerPage() {
  const verify = useAction('verifyLedger')
  const audit = useAction('auditEngines')
  return (
    <Page intro="Check the ledger for consistency, and compare the engines with the database. Neither changes anything.">
      <Card
        title="Ledger checks"
        actions={
          <Button look="primary" busy={verify.isPending} onClick={() => verify.mutate({ timeoutMs: CHECK_MS })}>
            {verify.data === undefined ? 'Check the ledger' : 'Check again'}
          </Button>
        }
      >
        <Outcome
          of={verify}
          rows={6}
          idle="Reads every entry, hold, bill and claim in one snapshot and adds them up. A large ledger takes minutes."
        >
          {(verdict) => <LedgerVerdict verdict={verdict} atMs={verify.submittedAt} />}
        </Outcome>
      </Card>
      <Card
        title="Engine checks"
        actions={
          <Button busy={audit.isPending} onClick={() => audit.mutate({})}>
            {audit.data === undefined ? 'Check the engines' : 'Check again'}
          </Button>
        }
      >
        <Outcome
          of={audit}
          rows={2}
          idle="Compares the machines and volumes of each engine with the rentals and volumes in the database."
        >
          {(verdict) => <EnginesVerdict verdict={verdict} atMs={audit.submittedAt} />}
        </Outcome>
      </Card>
    </Page>
  )
}

interface OutcomeProps<T> {
  readonly of: {
    readonly data: T | undefined
    readonly isPending: boolean
    readonly error: Parameters<typeof ErrorNotice>[0]['error'] | null
  }
  /** Shown before the first check. */
  readonly idle: string
  readonly rows: number
  readonly children: (value: T) => ReactNode
}

function Outcome<T>({ of, idle, rows, children }: OutcomeProps<T>) {
  if (of.isPending) return <Skeleton rows={rows} />
  if (of.error !== null) return <ErrorNotice error={of.error} />
  return of.data === undefined ? <p className="max-w-prose text-sm text-muted">{idle}</p> : children(of.data)
}

type Check = Verdict['checks'][number]
type Finding = Verdict['findings'][number]

const checkColumns: Columns<Check> = [
  textColumn('Check', ({ name }) => checkLabel(name), { className: 'block min-w-56' }),
  numberColumn('Rows', 'rows'),
  badgeColumn('Result', ({ findings }) =>
    findings === 0 ? ['Passed', 'good'] : [`${number(findings)} failed`, 'bad'],
  ),
]

function LedgerVerdict({ verdict, atMs }: { verdict: Verdict; atMs: number }) {
  const wrong = verdict.checks.reduce((sum, check) => sum + check.findings, 0)
  const house = Object.entries(verdict.houseUsd)
  return (
    <div className="flex flex-col gap-4">
      <Sentence
        ok={verdict.ok}
        good={`All ${count(verdict.checks.length, 'check')} passed.`}
        bad={`${count(wrong, 'finding')} in ${count(verdict.checks.length, 'check')}. Nothing was changed.`}
        atMs={atMs}
      />
      <Findings findings={verdict.findings} total={wrong} />
      <Table label="Ledger checks" columns={checkColumns} rows={verdict.checks} rowKey="name" empty={null} />
      <section>
        <h3 className="mb-1 text-sm font-semibold">Operator accounts</h3>
        <p className="mb-2 text-sm text-muted">
          Incoming minus outgoing transfers. Payments move from funding to customer balances, so funding is negative.
        </p>
        <Table label="Operator accounts" columns={houseColumns} rows={house} rowKey={([name]) => name} empty={null} />
      </section>
    </div>
  )
}

type Engine = EngineVerdict['engines'][number]

const engineColumns: Columns<Engine> = [
  textColumn('Engine', 'driver'),
  numberColumn('Machines', 'machines'),
  numberColumn('Volumes', 'volumes'),
  badgeColumn('Result', ({ reachable, error, findings }) => {
    if (!reachable) return [error ?? 'Not reachable', 'bad']
    return findings.length === 0 ? ['Passed', 'good'] : [count(findings.length, 'difference'), 'bad']
  }),
]

const houseColumns: Columns<[name: string, usd: string]> = [
  textColumn('Account', ([name]) => houseAccountLabel(name)),
  moneyColumn('Balance', ([, usd]) => usd),
]

function EnginesVerdict({ verdict, atMs }: { verdict: EngineVerdict; atMs: number }) {
  const findings = verdict.engines.flatMap((engine) => engine.findings)
  return (
    <div className="flex flex-col gap-4">
      <Sentence
        ok={verdict.ok}
        good={`${count(verdict.engines.length, 'engine')} checked, no differences.`}
        bad="An engine differs from the database, or is not reachable."
        atMs={atMs}
      />
      <Table
        label="Engines"
        columns={engineColumns}
        rows={verdict.engines}
        rowKey="driver"
        empty="No engine is enabled."
      />
      <Findings findings={findings} total={findings.length} />
    </div>
  )
}

function Sentence({ ok, good, bad, atMs }: { ok: boolean; good: string; bad: string; atMs: number }) {
  return (
    <div role="status" className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
      <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'Passed' : 'Failed'}</Badge>
      <span className="font-medium">{ok ? good : bad}</span>
      <span className="text-muted">Started {localTime(formatInstant(instantOf(atMs)))}</span>
    </div>
  )
}

const findingColumns: Columns<Finding> = [
  textColumn('Finding', ({ check }) => findingLabel(check)),
  textColumn('Subject', 'subject', { className: 'break-all' }),
  textColumn('Detail', 'detail'),
]

function Findings({ findings, total }: { findings: readonly Finding[]; total: number }) {
  if (findings.length === 0) return null
  return (
    <section>
      <h3 className="mb-2 text-sm font-semibold">Findings</h3>
      <Table
        label="Findings"
        columns={findingColumns}
        rows={findings}
        rowKey={({ check, subject, detail }) => `${check} ${subject} ${detail}`}
        empty={null}
      />
      {total > findings.length && (
        <p className="mt-2 text-sm text-muted">And {number(total - findings.length)} more.</p>
      )}
    </section>
  )
}
