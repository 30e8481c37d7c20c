/** The volumes of a machine: what is attached, and what else of its region could be. Only bare metal has them. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { displayName, machineOfRental } from '../../../src/view/own-machine.ts'
import { useMay } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { CancelButton, ConfirmDialog, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Rental = Reply<'getRental'>
type Attached = NonNullable<Rental['attachedStorage']>[number]

export function RentalVolumes({ rental }: { rental: Rental }) {
  const [isAttaching, setAttaching] = useState(false)
  const [leaving, setLeaving] = useState<Attached | undefined>()
  const mayChange = useMay('compute:write') && isLiving(rental.status)
  if (!rental.supportsFeature.attachedStorage) {
    return (
      <Empty title="This machine takes no volumes" action={<ButtonLink to="/volumes">Volumes</ButtonLink>}>
        Volumes are attached to bare metal. The disk of a virtual machine goes with it.
      </Empty>
    )
  }
  const attach = (
    <Button look="primary" disabled={!mayChange} onClick={() => setAttaching(true)}>
      Attach a volume
    </Button>
  )
  const attached = rental.attachedStorage ?? []
  return (
    <div className="flex flex-col gap-3">
      {attached.length > 0 && <div>{attach}</div>}
      <Table
        label="Attached volumes"
        columns={columnsOf(mayChange, setLeaving)}
        rows={attached}
        rowKey={({ id }) => id}
        empty={
          <Empty title="No volume is attached" action={attach}>
            A volume keeps its data when the machine is gone.
          </Empty>
        }
      />
      {isAttaching && <AttachDialog rental={rental} onClose={() => setAttaching(false)} />}
      {leaving !== undefined && <DetachDialog rental={rental} volume={leaving} onClose={() => setLeaving(undefined)} />}
    </div>
  )
}

function columnsOf(mayChange: boolean, onDetach: (volume: Attached) => void): ReadonlyArray<Column<Attached>> {
  return [
    { name: 'label', header: 'Volume', cell: ({ label }) => <span className="font-medium">{label}</span> },
    { name: 'size', header: 'Size', align: 'right', cell: ({ size_in_gb }) => `${number(size_in_gb)} GB` },
    { name: 'price', header: 'Per hour', align: 'right', cell: ({ cost_per_hour }) => money(cost_per_hour) },
    { name: 'address', header: 'Address', cell: ({ vip }) => <code className="font-mono">{vip || '—'}</code> },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (volume) => (
        <Button disabled={!mayChange} onClick={() => onDetach(volume)} aria-label={`Detach ${volume.label}`}>
          Detach
        </Button>
      ),
    },
  ]
}

function AttachDialog({ rental, onClose }: { rental: Rental; onClose: () => void }) {
  const volumes = useCall('listVolumes')
  return (
    <Dialog title={`Attach a volume to ${displayName(machineOfRental(rental))}`} onClose={onClose}>
      <Answer of={volumes}>
        {(all) => {
          const fitting = all.filter(
            ({ region, status, attachedRentals }) =>
              region === rental.region && status === 'active' && !attachedRentals.includes(rental.id),
          )
          return fitting.length === 0 ? (
            <Empty title="No other volume is ready" action={<ButtonLink to="/volumes">Create one</ButtonLink>}>
              A volume must be active and in the same region, {rental.region}.
            </Empty>
          ) : (
            <AttachForm rental={rental} volumes={fitting} onClose={onClose} />
          )
        }}
      </Answer>
    </Dialog>
  )
}

interface AttachFormProps {
  readonly rental: Rental
  readonly volumes: Reply<'listVolumes'>
  readonly onClose: () => void
}

function AttachForm({ rental, volumes, onClose }: AttachFormProps) {
  const [chosen, setChosen] = useState(String(volumes[0]?.id ?? ''))
  const attach = useAction('attachVolume', ['getRental', 'listVolumes'])
  const submit = (): void =>
    attach.mutate(
      { body: { storageVolumeId: Number.parseInt(chosen, 10), rentalIds: [rental.id] } },
      {
        onSuccess: () => {
          toast('The volume is being attached')
          onClose()
        },
      },
    )
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
      className="flex flex-col gap-3"
    >
      <SelectField
        label="Volume"
        value={chosen}
        choices={volumes.map(({ id, label, sizeGb }) => ({
          value: String(id),
          label: `${label}, ${number(sizeGb)} GB`,
        }))}
        onChange={(event) => setChosen(event.target.value)}
      />
      {attach.error !== null && <ErrorNotice error={attach.error} />}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton busy={attach.isPending}>Attach</SubmitButton>
      </DialogButtons>
    </form>
  )
}

function DetachDialog({ rental, volume, onClose }: { rental: Rental; volume: Attached; onClose: () => void }) {
  const detach = useAction('detachVolume', ['getRental', 'listVolumes'])
  return (
    <ConfirmDialog
      title={`Detach ${volume.label}?`}
      action="Detach"
      busy={detach.isPending}
      error={detach.error}
      onClose={onClose}
      onConfirm={() =>
        detach.mutate(
          { body: { storageVolumeId: volume.id, rentalIds: [rental.id] } },
          {
            onSuccess: () => {
              toast('The volume is being detached')
              onClose()
            },
          },
        )
      }
    >
      Its data stays. Close what is open on it first: it goes from {displayName(machineOfRental(rental))} at once.
    </ConfirmDialog>
  )
}
