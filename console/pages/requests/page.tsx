/** The account's inference requests, newest first. */
import { getRouteApi } from '@tanstack/react-router'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { duration, operationLabel, outcomeLabels, requestUsage } from '../../../src/view/request.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { useModels } from '../../api/inference.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Money } from '../../ui/money.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Pager, usePages } from '../../ui/pager.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { OutcomeBadge, type LoggedRequest, type Outcome } from './cells.tsx'
import { RequestDialog } from './dialog.tsx'

const route = getRouteApi('/shell/requests')

const ROWS = 50

export function RequestsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { model, outcome, request } = search
  const change = (more: Partial<typeof search>): void => void navigate({ search: { ...search, ...more } })
  return (
    <Page intro="Inference requests of this account, with their outcome and cost.">
      <Filters model={model} outcome={outcome} onChange={change} />
      <Log model={model} outcome={outcome} onOpen={(id) => change({ request: id })} />
      {request !== undefined && <RequestDialog id={request} onClose={() => change({ request: undefined })} />}
    </Page>
  )
}

interface LogProps {
  readonly model: string | undefined
  readonly outcome: Outcome | undefined
  readonly onOpen: (id: string) => void
}

function Log({ model, outcome, onOpen }: LogProps) {
  const pages = usePages(`${model} ${outcome}`)
  const page = useCall('listInferenceRequests', { query: { limit: ROWS, model, outcome, cursor: pages.cursor } })
  return (
    <Answer of={page} skeleton={<Skeleton rows={10} />}>
      {({ requests, nextCursor }) => (
        <div>
          <Requests requests={requests} isFiltered={model !== undefined || outcome !== undefined} onOpen={onOpen} />
          <Pager pages={pages} nextCursor={nextCursor} />
        </div>
      )}
    </Answer>
  )
}

interface FiltersProps {
  readonly model: string | undefined
  readonly outcome: Outcome | undefined
  readonly onChange: (more: { model?: string | undefined; outcome?: Outcome | undefined }) => void
}

function Filters({ model, outcome, onChange }: FiltersProps) {
  const models = useModels()
  const names = new Set([...(models.data?.data.map(({ id }) => id) ?? []), ...(model === undefined ? [] : [model])])
  return (
    <div className="flex flex-wrap gap-3">
      <SelectField
        label="Model"
        className="w-full sm:w-64"
        value={model ?? ''}
        onChange={(event) => onChange({ model: event.target.value === '' ? undefined : event.target.value })}
        choices={[{ value: '', label: 'All models' }, ...[...names].map((name) => ({ value: name, label: name }))]}
      />
      <SelectField
        label="Outcome"
        className="w-full sm:w-48"
        value={outcome ?? ''}
        onChange={(event) =>
          onChange({ outcome: event.target.value === '' ? undefined : (event.target.value as Outcome) })
        }
        choices={[
          { value: '', label: 'All outcomes' },
          ...Object.entries(outcomeLabels).map(([value, [label]]) => ({ value, label })),
        ]}
      />
    </div>
  )
}

interface RequestsProps {
  readonly requests: readonly LoggedRequest[]
  readonly isFiltered: boolean
  readonly onOpen: (id: string) => void
}

function Requests({ requests, isFiltered, onOpen }: RequestsProps) {
  const now = useNow()
  const mayOpen = useMay('inference')
  return (
    <Table
      label="Requests"
      columns={columnsOf(now, mayOpen, onOpen)}
      rows={requests}
      rowKey={({ requestId }) => requestId}
      empty={
        isFiltered ? (
          <Empty title="No requests match">Choose another model or outcome.</Empty>
        ) : (
          <Empty
            title="No requests yet"
            action={
              <ButtonLink to="/chat" look="primary">
                Try a model
              </ButtonLink>
            }
          >
            Requests appear here shortly after they end.
          </Empty>
        )
      }
    />
  )
}

function columnsOf(
  nowMs: number,
  mayOpen: boolean,
  onOpen: (id: string) => void,
): ReadonlyArray<Column<LoggedRequest>> {
  return [
    {
      name: 'at',
      header: 'Time',
      cell: ({ at }) => (
        <time dateTime={at} title={localTime(at)} className="whitespace-nowrap">
          {relativeTime(at, nowMs)}
        </time>
      ),
    },
    { name: 'model', header: 'Model', cell: ({ model }) => <span className="break-all">{model}</span> },
    { name: 'kind', header: 'Kind', wideOnly: true, cell: ({ operation }) => operationLabel(operation) },
    { name: 'outcome', header: 'Outcome', cell: (row) => <OutcomeBadge request={row} /> },
    { name: 'input', header: 'Usage', align: 'right', cell: (row) => requestUsage(row) },
    { name: 'ms', header: 'Duration', align: 'right', wideOnly: true, cell: ({ totalMs }) => duration(totalMs) },
    { name: 'cost', header: 'Cost', align: 'right', cell: ({ costUsd }) => <Money usd={costUsd} /> },
    {
      name: 'open',
      header: <span className="sr-only">Details</span>,
      align: 'right',
      cell: ({ requestId }) => (
        <Button
          look="quiet"
          disabledReason={mayOpen ? undefined : 'This key lacks the scope inference.'}
          onClick={() => onOpen(requestId)}
        >
          Details
        </Button>
      ),
    },
  ]
}
