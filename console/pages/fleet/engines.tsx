/** Health of this server, and differences between each engine and the database. Read-only. */
import { useQuery } from '@tanstack/react-query'
import type { Readiness, Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { findingLabel } from '../../../src/view/ledger.ts'
import { count } from '../../../src/view/number.ts'
import { client } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

const READY_EVERY_MS = 10_000

export function FleetEngines() {
  const audit = useCall('auditEngines')
  const ready = useQuery<Readiness, ClientError>({
    queryKey: ['ready'],
    queryFn: ({ signal }) => client.ready({ signal }),
    refetchInterval: READY_EVERY_MS,
  })
  return (
    <div className="flex flex-col gap-4">
      <Card title="This server">
        <Answer of={ready} skeleton={<Skeleton rows={3} />}>
          {({ checks }) => (
            <Facts
              facts={Object.entries(checks).map(([name, result]) => [
                name,
                <Badge key={name} tone={result === 'ok' ? 'good' : 'bad'}>
                  {result}
                </Badge>,
              ])}
            />
          )}
        </Answer>
      </Card>
      <Card
        title="Engine checks"
        actions={
          <Button busy={audit.isFetching} onClick={() => void audit.refetch()}>
            Check again
          </Button>
        }
      >
        <Answer of={audit} skeleton={<Skeleton rows={4} />}>
          {({ engines }) =>
            engines.length === 0 ? (
              <Empty title="No engines enabled">Enable engines with the setting BERTH_DRIVERS.</Empty>
            ) : (
              <div className="flex flex-col gap-5">
                {engines.map((engine) => (
                  <Engine key={engine.driver} engine={engine} />
                ))}
              </div>
            )
          }
        </Answer>
      </Card>
    </div>
  )
}

type AuditedEngine = Reply<'auditEngines'>['engines'][number]

function Engine({ engine }: { engine: AuditedEngine }) {
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-3">
        <h3 className="font-medium">{engine.driver}</h3>
        {engine.reachable ? <Badge tone="good">reachable</Badge> : <Badge tone="bad">not reachable</Badge>}
        <span className="text-sm text-muted">
          {engine.reachable
            ? `Reports ${count(engine.machines, 'machine')} and ${count(engine.volumes, 'volume')}`
            : `${engine.error ?? 'No reason given'}. Its rentals continue and are not charged until it is reachable again.`}
        </span>
      </div>
      {engine.reachable && (
        <Table
          label={`Differences for ${engine.driver}`}
          columns={findingColumns}
          rows={engine.findings.map((finding, at) => ({ ...finding, at }))}
          rowKey="at"
          empty="No differences from the database."
        />
      )}
    </div>
  )
}

type Finding = AuditedEngine['findings'][number] & { readonly at: number }

const findingColumns: Columns<Finding> = [
  textColumn('Finding', ({ check }) => findingLabel(check)),
  textColumn('Subject', 'subject', { className: 'font-mono' }),
  textColumn('Detail', 'detail'),
]
