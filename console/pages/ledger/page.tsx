/**
 * The books held against themselves and against the engines. Both are asked for by hand: a recount reads every row there
 * is. Neither changes anything.
 */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { formatInstant, instantOf } from '../../../src/base/instant.ts'
import { count, number } from '../../../src/view/number.ts'
import { localTime } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { checkLabel, findingLabel, houseAccountLabel } from '../../../src/view/ledger.ts'
import { useAction } from '../../api/query.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

/** A recount of large books takes minutes. */
const RECOUNT_MS = 290_000

type Verdict = Reply<'verifyLedger'>
type EngineVerdict = Reply<'auditEngines'>

export function LedgerPage() {
  const verify = useAction('verifyLedger')
  const audit = useAction('auditEngines')
  return (
    <Page intro="Recount the books from their first rows, and compare what the engines run with what is written down. Neither changes anything.">
      <Card
        title="The books"
        actions={
          <Button look="primary" busy={verify.isPending} onClick={() => verify.mutate({ timeoutMs: RECOUNT_MS })}>
            {verify.data === undefined ? 'Recount the books' : 'Recount again'}
          </Button>
        }
      >
        <Outcome
          of={verify}
          rows={6}
          idle="Nothing has been counted since you opened this page. Every entry, hold, bill and claim is read at one moment and added up anew; large books take minutes."
        >
          {(verdict) => <BooksVerdict verdict={verdict} atMs={verify.submittedAt} />}
        </Outcome>
      </Card>
      <Card
        title="The engines"
        actions={
          <Button busy={audit.isPending} onClick={() => audit.mutate({})}>
            {audit.data === undefined ? 'Compare with the engines' : 'Compare again'}
          </Button>
        }
      >
        <Outcome
          of={audit}
          rows={2}
          idle="Each engine is asked for all its machines and volumes; they are compared with the rentals and volumes in the books."
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
  /** What stands there before it was asked for. */
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

const checkColumns: ReadonlyArray<Column<Check>> = [
  {
    name: 'check',
    header: 'Promise',
    cell: (check) => <span className="block min-w-56">{checkLabel(check.name)}</span>,
  },
  { name: 'rows', header: 'Compared', align: 'right', cell: (check) => count(check.rows, 'row') },
  {
    name: 'verdict',
    header: 'Verdict',
    cell: ({ findings }) =>
      findings === 0 ? <Badge tone="good">Right</Badge> : <Badge tone="bad">{`${number(findings)} wrong`}</Badge>,
  },
]

function BooksVerdict({ verdict, atMs }: { verdict: Verdict; atMs: number }) {
  const wrong = verdict.checks.reduce((sum, check) => sum + check.findings, 0)
  const house = Object.entries(verdict.houseUsd)
  return (
    <div className="flex flex-col gap-4">
      <Sentence
        ok={verdict.ok}
        good={`The books are right: ${count(verdict.checks.length, 'check')}, nothing found.`}
        bad={`The books are wrong: ${count(wrong, 'finding')} in ${count(verdict.checks.length, 'check')}. Nothing was changed.`}
        atMs={atMs}
      />
      <Findings findings={verdict.findings} total={wrong} />
      <Table
        label="Checks of the books"
        columns={checkColumns}
        rows={verdict.checks}
        rowKey={(check) => check.name}
        empty={null}
      />
      <section>
        <h3 className="mb-1 text-sm font-semibold">The accounts of the house</h3>
        <p className="mb-2 text-sm text-muted">
          What came in to each, less what went out: what customers pay in leaves funding, so it is below zero there and
          above zero in their balances.
        </p>
        <Table
          label="Accounts of the house"
          columns={[
            { name: 'account', header: 'Account', cell: ([name]) => houseAccountLabel(name) },
            { name: 'sum', header: 'Sum', align: 'right', cell: ([, usd]) => money(usd) },
          ]}
          rows={house}
          rowKey={([name]) => name}
          empty={null}
        />
      </section>
    </div>
  )
}

type Engine = EngineVerdict['engines'][number]

const engineColumns: ReadonlyArray<Column<Engine>> = [
  { name: 'engine', header: 'Engine', cell: (engine) => engine.driver },
  { name: 'machines', header: 'Machines', align: 'right', cell: (engine) => number(engine.machines) },
  { name: 'volumes', header: 'Volumes', align: 'right', cell: (engine) => number(engine.volumes) },
  {
    name: 'verdict',
    header: 'Verdict',
    cell: ({ reachable, error, findings }) => {
      if (!reachable) return <Badge tone="bad">{error ?? 'It does not answer'}</Badge>
      return findings.length === 0 ? (
        <Badge tone="good">As in the books</Badge>
      ) : (
        <Badge tone="bad">{`${number(findings.length)} differ`}</Badge>
      )
    },
  },
]

function EnginesVerdict({ verdict, atMs }: { verdict: EngineVerdict; atMs: number }) {
  const findings = verdict.engines.flatMap((engine) => engine.findings)
  return (
    <div className="flex flex-col gap-4">
      <Sentence
        ok={verdict.ok}
        good={`${count(verdict.engines.length, 'engine')}: all show what the books say.`}
        bad="Engines and books differ, or an engine does not answer."
        atMs={atMs}
      />
      <Table
        label="Engines"
        columns={engineColumns}
        rows={verdict.engines}
        rowKey={(engine) => engine.driver}
        empty={<p className="text-sm text-muted">No engine is switched on.</p>}
      />
      <Findings findings={findings} total={findings.length} />
    </div>
  )
}

function Sentence({ ok, good, bad, atMs }: { ok: boolean; good: string; bad: string; atMs: number }) {
  return (
    <div role="status" className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
      <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'Right' : 'Wrong'}</Badge>
      <span className="font-medium">{ok ? good : bad}</span>
      <span className="text-muted">Asked {localTime(formatInstant(instantOf(atMs)))}</span>
    </div>
  )
}

const findingColumns: ReadonlyArray<Column<Finding>> = [
  { name: 'check', header: 'What is wrong', cell: ({ check }) => findingLabel(check) },
  { name: 'subject', header: 'Where', cell: ({ subject }) => <span className="break-all">{subject}</span> },
  { name: 'detail', header: 'Found', cell: ({ detail }) => detail },
]

function Findings({ findings, total }: { findings: readonly Finding[]; total: number }) {
  if (findings.length === 0) return null
  return (
    <section>
      <h3 className="mb-2 text-sm font-semibold">Found</h3>
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
