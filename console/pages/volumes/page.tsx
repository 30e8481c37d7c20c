/** Storage volumes of the account. */
import { useState } from 'react'
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
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { MONTH_DAYS } from '../rent/money.tsx'
import { AttachDialog, DetachDialog } from './attach.tsx'
import { CreateDialog } from './create.tsx'
import { MountDialog } from './mount.tsx'
import { nameOf, useCarriers, type Carrier } from './rental.ts'

type Doing = 'attach' | 'detach' | 'delete' | 'mount'

export function VolumesPage() {
  const volumes = useCall('listVolumes')
  const carriers = useCarriers()
  const mayWrite = useMay('compute:write')
  const [isCreating, setCreating] = useState(false)
  const [open, setOpen] = useState<{ doing: Doing; id: number } | undefined>()
  const create = (
    <Button
      look="primary"
      onClick={() => setCreating(true)}
      disabledReason={mayWrite ? undefined : missingScope('compute:write')}
    >
      Create volume
    </Button>
  )
  const volume = volumes.data?.find(({ id }) => id === open?.id)
  const close = (): void => setOpen(undefined)
  return (
    <Page
      intro="Storage that outlives your machines. A volume can be mounted on several bare-metal rentals in its region."
      actions={volumes.data?.length === 0 ? undefined : create}
    >
      <Answer of={volumes} skeleton={<Skeleton rows={5} />}>
        {(list) => (
          <Table
            label="Volumes"
            columns={columnsOf(carriers, mayWrite, (doing, { id }) => setOpen({ doing, id }))}
            rows={list}
            rowKey={({ id }) => id}
            empty={
              <Empty title="No volumes yet" action={create}>
                Create one for datasets and checkpoints and attach it to your machines. It is billed by size from when
                it is ready until you delete it.
              </Empty>
            }
          />
        )}
      </Answer>
      {isCreating && <CreateDialog onClose={() => setCreating(false)} />}
      {volume !== undefined && open?.doing === 'attach' && (
        <AttachDialog volume={volume} carriers={carriers} onClose={close} />
      )}
      {volume !== undefined && open?.doing === 'detach' && (
        <DetachDialog volume={volume} carriers={carriers} onClose={close} />
      )}
      {volume !== undefined && open?.doing === 'mount' && <MountDialog volume={volume} onClose={close} />}
      {volume !== undefined && open?.doing === 'delete' && <DeleteDialog volume={volume} onClose={close} />}
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

function columnsOf(
  carriers: readonly Carrier[] | undefined,
  mayWrite: boolean,
  onOpen: (doing: Doing, volume: Volume) => void,
): ReadonlyArray<Column<Volume>> {
  return [
    {
      name: 'label',
      header: 'Volume',
      cell: (volume) => (
        <>
          <span className="block max-w-56 truncate font-medium" title={volume.label}>
            {volume.label}
          </span>
          <span className="block text-xs whitespace-nowrap text-muted">ID {volume.id}</span>
        </>
      ),
    },
    { name: 'state', header: 'State', cell: (volume) => <State volume={volume} /> },
    {
      name: 'size',
      header: 'Size',
      align: 'right',
      cell: (volume) => <span className="whitespace-nowrap">{number(volume.sizeGb)} GB</span>,
    },
    { name: 'region', header: 'Region', cell: (volume) => <span className="whitespace-nowrap">{volume.region}</span> },
    { name: 'price', header: 'Price', align: 'right', cell: (volume) => <Price perHour={priceOf(volume)} /> },
    {
      name: 'attached',
      header: 'Attached to',
      cell: (volume) => <Attached volume={volume} carriers={carriers} />,
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      cell: (volume) => (
        <span className="flex justify-end gap-1">
          {actions.map(({ doing, label, whyNot }) => {
            const why = doing !== 'mount' && !mayWrite ? missingScope('compute:write') : whyNot(volume)
            return (
              <Button
                key={doing}
                look="quiet"
                aria-label={`${label} ${volume.label}`}
                disabledReason={why}
                onClick={() => onOpen(doing, volume)}
              >
                {label}
              </Button>
            )
          })}
        </span>
      ),
    },
  ]
}

const actions = [
  {
    doing: 'mount',
    label: 'Mount',
    whyNot: (volume) => (volume.vip === '' ? 'The volume is not ready yet' : undefined),
  },
  { doing: 'attach', label: 'Attach', whyNot: whyNotAttach },
  { doing: 'detach', label: 'Detach', whyNot: whyNotDetach },
  { doing: 'delete', label: 'Delete', whyNot: whyNotDelete },
] as const satisfies ReadonlyArray<{
  doing: Doing
  label: string
  whyNot: (volume: Volume) => string | undefined
}>

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

function Attached({ volume, carriers }: { volume: Volume; carriers: readonly Carrier[] | undefined }) {
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
