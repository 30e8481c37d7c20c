/** What each engine shows, held against the books, and what the server says about itself. Nothing is changed here. */
import { useQuery } from '@tanstack/react-query'
import type { Readiness, Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { count } from '../../../src/view/number.ts'
import { client } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

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
              facts={Object.entries(checks).map(([name, said]) => [
                name,
                <Badge key={name} tone={said === 'ok' ? 'good' : 'bad'}>
                  {said}
                </Badge>,
              ])}
            />
          )}
        </Answer>
      </Card>
      <Card
        title="Engines against the books"
        actions={
          <Button busy={audit.isFetching} onClick={() => void audit.refetch()}>
            Compare again
          </Button>
        }
      >
        <Answer of={audit} skeleton={<Skeleton rows={4} />}>
          {({ engines }) =>
            engines.length === 0 ? (
              <Empty title="No engine of machines is switched on">BERTH_ENGINES names those that a server has.</Empty>
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
        {engine.reachable ? <Badge tone="good">answers</Badge> : <Badge tone="bad">does not answer</Badge>}
        <span className="text-sm text-muted">
          {engine.reachable
            ? `shows ${count(engine.machines, 'machine')} and ${count(engine.volumes, 'volume')} of ours`
            : `${engine.error ?? 'no reason given'}; what it runs goes on, and is not charged while nobody sees it`}
        </span>
      </div>
      {engine.reachable && (
        <Table
          label={`What ${engine.driver} shows otherwise`}
          columns={findingColumns}
          rows={engine.findings.map((finding, at) => ({ ...finding, at }))}
          rowKey={(finding) => finding.at}
          empty={<p className="text-sm text-muted">It shows what the books say, nothing more and nothing less.</p>}
        />
      )}
    </div>
  )
}

type Finding = AuditedEngine['findings'][number] & { readonly at: number }

const findingColumns: ReadonlyArray<Column<Finding>> = [
  { name: 'check', header: 'Found', cell: (finding) => finding.check.replaceAll('_', ' ') },
  { name: 'subject', header: 'What', cell: (finding) => <span className="font-mono">{finding.subject}</span> },
  { name: 'detail', header: 'Detail', cell: (finding) => finding.detail },
]
