/** One batch: its progress, cost and files, and the faults in its lines. */
import { getRouteApi } from '@tanstack/react-router'
import {
  batchShare,
  batchStatusLabels,
  batchWaitLabels,
  endedAt,
  linesDone,
  type Batch,
} from '../../../src/view/batch.ts'
import { number } from '../../../src/view/number.ts'
import { localTime, timeOfSeconds } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { LabelBadge, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Card, Facts, Section, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Money } from '../../ui/money.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { Table } from '../../ui/table.tsx'
import { BatchActions, contentUrl } from './parts.tsx'

const route = getRouteApi('/shell/batches/$id')

/** Batches raise no events. */
const EVERY_MS = 2_000

export function BatchPage() {
  const { id } = route.useParams()
  const batch = useCall('getBatch', { params: { id } }, { everyMs: EVERY_MS })
  return (
    <Page title={id} {...(batch.data === undefined ? {} : { actions: <BatchActions batch={batch.data} /> })}>
      <Answer of={batch}>{(one) => <OneBatch batch={one} />}</Answer>
    </Page>
  )
}

function OneBatch({ batch }: { batch: Batch }) {
  const { request_counts: counts, status, waiting_for: wait, errors } = batch
  return (
    <>
      {wait !== null && <Notice tone={wait === 'money' ? 'warn' : 'info'}>Waits for {batchWaitLabels[wait]}.</Notice>}
      <Stats
        stats={[
          ['Status', <LabelBadge key="status" of={batchStatusLabels[status]} />],
          ['Lines', linesDone(batch) || '—', <Progress key="bar" label="Progress" value={batchShare(batch)} max={1} />],
          ['Failed', number(counts.failed)],
          ['Cost', <Money key="cost" usd={batch.cost_usd} />],
        ]}
      />
      {errors !== null && <Faults faults={errors.data} />}
      <Card>
        <Facts facts={factsOf(batch)} />
      </Card>
    </>
  )
}

function factsOf(batch: Batch) {
  const ended = endedAt(batch)
  return [
    ['Model', batch.model],
    ['Endpoint', batch.endpoint],
    ['Created', localTime(timeOfSeconds(batch.created_at))],
    ['Ended', ended !== null && localTime(timeOfSeconds(ended))],
    ['Time limit', ended === null && localTime(timeOfSeconds(batch.expires_at))],
    ['Input', fileLink(batch.input_file_id, `${batch.id}.jsonl`)],
    ['Answers', batch.output_file_id && fileLink(batch.output_file_id, `${batch.id}.output.jsonl`)],
    ['Errors', batch.error_file_id && fileLink(batch.error_file_id, `${batch.id}.errors.jsonl`)],
    ['Metadata', batch.metadata !== null && JSON.stringify(batch.metadata)],
  ] as const
}

function fileLink(id: string, file: string) {
  return (
    <a
      key={id}
      href={contentUrl(id)}
      download={file}
      className="font-mono font-medium break-all text-accent underline-offset-2 hover:underline"
    >
      {id}
    </a>
  )
}

type Fault = NonNullable<Batch['errors']>['data'][number]

function Faults({ faults }: { faults: readonly Fault[] }) {
  return (
    <Section title="What to correct in the file">
      <p className="text-sm text-muted">Nothing was run or charged. Correct these lines and run the file again.</p>
      <Table
        label="Faults"
        columns={faultColumns}
        rows={faults}
        rowKey={({ line, param, code }) => `${line ?? 0} ${param ?? ''} ${code}`}
        empty={<Empty title="No faults" />}
      />
    </Section>
  )
}

const faultColumns: Columns<Fault> = [
  textColumn('Line', ({ line }) => line ?? '—'),
  textColumn('Field', ({ param }) => param ?? '—', { className: 'font-mono' }),
  textColumn('What is wrong', 'message'),
]
