/** The account's inference requests, newest first. */
import { getRouteApi } from '@tanstack/react-router'
import { duration, operationLabels, outcomeLabels, protocolOf, requestUsage } from '../../../src/view/request.ts'
import { requestOperations } from '../../../src/contract/choices.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useModels } from '../../api/inference.ts'
import { actionsColumn, agoColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesIn, choicesOf, FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { OutcomeBadge, type LoggedRequest } from './cells.tsx'
import { RequestDialog } from './dialog.tsx'

const route = getRouteApi('/shell/requests')

const ROWS = 50
const batchLabels = { alone: 'Alone', lines: 'In a batch' }

export function RequestsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { model, operation, batch, outcome, request } = search
  const change = (more: Partial<typeof search>): void => void navigate({ search: { ...search, ...more } })
  const models = useModels().data?.data.map(({ id }) => id) ?? []
  const disabledReason = useMay('inference') ? undefined : missingScope('inference')
  const details = ({ requestId }: LoggedRequest) => (
    <Button look="quiet" disabledReason={disabledReason} onClick={() => change({ request: requestId })}>
      Details
    </Button>
  )
  return (
    <Page intro="Inference requests of this account, with their outcome and cost.">
      <FilterBar
        label="Requests"
        fields={[
          {
            name: 'model',
            label: 'Model',
            choices: choicesOf([...new Set([...models, ...(model === undefined ? [] : [model])])]),
            any: 'All models',
          },
          {
            name: 'operation',
            label: 'Protocol',
            choices: choicesOf(requestOperations, (one) => operationLabels[one]),
            any: 'All protocols',
          },
          { name: 'batch', label: 'Sent', choices: choicesIn(batchLabels), any: 'Alone or in a batch' },
          { name: 'outcome', label: 'Outcome', choices: choicesIn(outcomeLabels), any: 'All outcomes' },
        ]}
        search={search}
        onChange={change}
      />
      <PagedTable
        label="Requests"
        call="listInferenceRequests"
        query={{ model, operation, outcome, inBatch: batch === undefined ? undefined : batch === 'lines' }}
        pageRows={ROWS}
        rows={({ requests }) => requests}
        rowKey="requestId"
        columns={[...columns, actionsColumn(details)]}
        skeleton={10}
        empty={<NoRequests isFiltered={[model, operation, batch, outcome].some((one) => one !== undefined)} />}
      />
      {request !== undefined && <RequestDialog id={request} onClose={() => change({ request: undefined })} />}
    </Page>
  )
}

function NoRequests({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No requests match">Change the filters.</Empty>
  const chat = (
    <ButtonLink to="/chat" look="primary">
      Try a model
    </ButtonLink>
  )
  return (
    <Empty title="No requests yet" action={chat}>
      Requests appear here shortly after they end.
    </Empty>
  )
}

const columns: Columns<LoggedRequest> = [
  agoColumn('Time', 'at'),
  textColumn('Model', 'model', { className: 'break-all' }),
  textColumn('Protocol', protocolOf, { wideOnly: true }),
  textColumn('Outcome', (row) => <OutcomeBadge request={row} />),
  textColumn('Usage', requestUsage, { align: 'right' }),
  textColumn('Duration', ({ totalMs }) => duration(totalMs), { align: 'right', wideOnly: true }),
  moneyColumn('Cost', 'costUsd'),
]
