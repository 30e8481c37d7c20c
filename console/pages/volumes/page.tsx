/** Storage volumes of the account. */
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, usdFromNumber, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import {
  volumeLabels,
  volumeState,
  whyNotAttach,
  whyNotDelete,
  whyNotDetach,
  type Volume,
} from '../../../src/view/volume.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { actionsColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { MONTH_DAYS } from '../rent/money.tsx'
import { AttachDialog, DetachDialog } from './attach.tsx'
import { CreateDialog } from './create.tsx'
import { MountDialog } from './mount.tsx'
import { nameOf, useCarriers } from './rental.ts'

export function VolumesPage() {
  const isEmpty = useCall('listVolumes').data?.length === 0
  const carriers = useCarriers()
  const noScope = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  const create = (
    <Button
      look="primary"
      disabledReason={noScope}
      onClick={() => dialog.open((close) => <CreateDialog onClose={close} />)}
    >
      Create volume
    </Button>
  )
  const buttons = (volume: Volume) =>
    actions.map(({ label, whyNot, needsScope, Dialog }) => (
      <Button
        key={label}
        look="quiet"
        aria-label={`${label} ${volume.label}`}
        disabledReason={(needsScope ? noScope : undefined) ?? whyNot(volume)}
        onClick={() => dialog.open((close) => <Dialog volume={volume} carriers={carriers} onClose={close} />)}
      >
        {label}
      </Button>
    ))
  return (
    <Page
      intro="Storage that outlives your machines. A volume can be mounted on several bare-metal rentals in its region."
      actions={isEmpty ? undefined : create}
    >
      <ListTable
        label="Volumes"
        call="listVolumes"
        rows={(volumes) => volumes}
        rowKey="id"
        columns={[...columns, actionsColumn(buttons)]}
        skeleton={5}
        empty={
          <Empty title="No volumes yet" action={create}>
            Create one for datasets and checkpoints and attach it to your machines. It is billed by size from when it is
            ready until you delete it.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

function DeleteDialog({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${volume.label}`}
      action="Delete volume"
      word={volume.label}
      operation="terminateVolume"
      input={{ body: { storageVolumeId: volume.id } }}
      refreshes={['listVolumes', 'getCustomerBalance']}
      done={`Deleting ${volume.label}`}
      onClose={onClose}
    >
      Deletes all {number(volume.sizeGb)} GB of data. This cannot be undone. Billing stops immediately.
    </ConfirmCall>
  )
}

const columns: Columns<Volume> = [
  textColumn('Volume', ({ id, label }) => (
    <>
      <span className="block max-w-56 truncate font-medium" title={label}>
        {label}
      </span>
      <span className="block text-xs whitespace-nowrap text-muted">ID {id}</span>
    </>
  )),
  textColumn('State', (volume) => <State volume={volume} />),
  textColumn('Size', ({ sizeGb }) => `${number(sizeGb)} GB`, { align: 'right', className: 'whitespace-nowrap' }),
  textColumn('Region', 'region', { className: 'whitespace-nowrap' }),
  textColumn('Price', (volume) => <Price perHour={priceOf(volume)} />, { align: 'right' }),
  textColumn('Attached to', (volume) => <Attached volume={volume} />),
]

const actions = [
  {
    label: 'Mount',
    whyNot: ({ vip }: Volume) => (vip === '' ? 'The volume is not ready yet' : undefined),
    needsScope: false,
    Dialog: MountDialog,
  },
  { label: 'Attach', whyNot: whyNotAttach, needsScope: true, Dialog: AttachDialog },
  { label: 'Detach', whyNot: whyNotDetach, needsScope: true, Dialog: DetachDialog },
  { label: 'Delete', whyNot: whyNotDelete, needsScope: true, Dialog: DeleteDialog },
] as const

function State({ volume }: { volume: Volume }) {
  const state = volumeState(volume)
  const { tone, hint } = volumeLabels[state]
  return (
    <>
      <Badge tone={tone}>{state}</Badge>
      {hint !== undefined && <span className="mt-0.5 block max-w-56 text-xs text-muted">{hint}</span>}
    </>
  )
}

function Price({ perHour }: { perHour: NanoUsd }) {
  return (
    <span className="whitespace-nowrap">
      {hourlyPrice(perHour)}
      <span className="block text-xs text-muted">
        {money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))} per {MONTH_DAYS} days
      </span>
    </span>
  )
}

function priceOf({ costPerHour }: Volume): NanoUsd {
  return usdFromNumber(costPerHour) ?? zeroUsd
}

function Attached({ volume }: { volume: Volume }) {
  const carriers = useCarriers()
  if (volume.attachedRentals.length === 0) return <span className="text-muted">—</span>
  return (
    <ul>
      {volume.attachedRentals.map((id) => {
        const carrier = carriers?.find((one) => one.id === id)
        return (
          <li key={id}>
            <TextLink to="/rentals/$id" params={{ id: String(id) }}>
              {carrier === undefined ? `Rental ${id}` : nameOf(carrier)}
            </TextLink>
          </li>
        )
      })}
    </ul>
  )
}
