/** Storage volumes of the account. */
import { getRouteApi } from '@tanstack/react-router'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, usdFromNumber, zeroUsd } from '../../../src/base/money.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { volumeLabels, volumeState, type Volume } from '../../../src/view/volume.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { MONTH_DAYS } from '../rent/money.tsx'
import { CreateDialog } from './create.tsx'
import { MountLink } from './mount-link.tsx'
import { Usage } from './usage.tsx'

const route = getRouteApi('/shell/volumes')

export function VolumesPage() {
  const { create: isCreating = false, region, machine } = route.useSearch()
  const navigate = route.useNavigate()
  const isEmpty = useCall('listVolumes').data?.length === 0
  const mayWrite = useMay('compute:write')
  const open = (isOpen: boolean): void => void navigate({ search: isOpen ? { create: true } : {}, replace: true })
  const create = (
    <Button
      look="primary"
      disabledReason={mayWrite ? undefined : missingScope('compute:write')}
      onClick={() => open(true)}
    >
      Create volume
    </Button>
  )
  return (
    <Page
      intro="Storage that outlives your machines. Order a machine with a volume, or attach it later where its engine can."
      actions={isEmpty ? undefined : create}
    >
      <ListTable
        label="Volumes"
        call="listVolumes"
        rows={(volumes) => volumes}
        rowKey="id"
        columns={columns}
        skeleton={5}
        empty={
          <Empty title="No volumes yet" action={create}>
            Create one for datasets and checkpoints and use it on your machines. It is billed by size from when it is
            ready until you delete it.
          </Empty>
        }
      />
      {isCreating && mayWrite && <CreateDialog region={region} machine={machine} onClose={() => open(false)} />}
    </Page>
  )
}

const columns: Columns<Volume> = [
  textColumn('Volume', ({ id, label }) => (
    <>
      <TextLink to="/volumes/$id" params={{ id: String(id) }} className="block max-w-56 truncate" title={label}>
        {label}
      </TextLink>
      <span className="block text-xs whitespace-nowrap text-muted">ID {id}</span>
    </>
  )),
  textColumn('State', (volume) => <VolumeBadge volume={volume} />),
  textColumn('Size', (volume) => <Usage volume={volume} />),
  textColumn('Region', ({ region, nodeName }) => (
    <>
      <span className="block whitespace-nowrap">{region}</span>
      {nodeName !== null && <span className="block text-xs text-muted">on {nodeName}</span>}
    </>
  )),
  textColumn('Price', (volume) => <Price volume={volume} />, { align: 'right' }),
  textColumn('Used by', ({ mounts }) => {
    if (mounts.length === 0) return null
    return (
      <ul>
        {mounts.map((mount) => (
          <li key={mount.rentalId}>
            <MountLink mount={mount} />
          </li>
        ))}
      </ul>
    )
  }),
]

export function VolumeBadge({ volume }: { volume: Volume }) {
  const state = volumeState(volume)
  const { tone, hint } = volumeLabels[state]
  return (
    <>
      <Badge tone={tone}>{state}</Badge>
      {hint !== undefined && <span className="mt-0.5 block max-w-56 text-xs text-muted">{hint}</span>}
    </>
  )
}

function Price({ volume }: { volume: Volume }) {
  const perHour = usdFromNumber(volume.costPerHour) ?? zeroUsd
  return (
    <span className="whitespace-nowrap">
      {hourlyPrice(perHour)}
      <span className="block text-xs text-muted">
        {money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))} per {MONTH_DAYS} days
      </span>
    </span>
  )
}
