/** The volumes attached to a machine. Only bare metal supports them. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { displayName, machineOfRental } from '../../../src/view/own-machine.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall, FormFrame } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
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
      <Empty title="Volumes are not supported" action={<ButtonLink to="/volumes">Volumes</ButtonLink>}>
        Only bare metal supports volumes. The disk of a virtual machine is deleted with it.
      </Empty>
    )
  }
  const attach = (
    <Button look="primary" disabled={!mayChange} onClick={() => setAttaching(true)}>
      Attach volume
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
          <Empty title="No volumes attached" action={attach}>
            A volume keeps its data when the machine is terminated.
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
    <Dialog title={`Attach volume to ${displayName(machineOfRental(rental))}`} onClose={onClose}>
      <Answer of={volumes}>
        {(all) => {
          const fitting = all.filter(
            ({ region, status, attachedRentals }) =>
              region === rental.region && status === 'active' && !attachedRentals.includes(rental.id),
          )
          return fitting.length === 0 ? (
            <Empty title="No volume available" action={<ButtonLink to="/volumes">Create volume</ButtonLink>}>
              The volume must be active and in the region {rental.region}.
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
  const form = useCallForm('attachVolume', {
    refreshes: ['getRental', 'listVolumes'],
    initial: { storageVolumeId: String(volumes[0]?.id ?? '') },
    body: ({ storageVolumeId }) => ({ storageVolumeId: Number(storageVolumeId), rentalIds: [rental.id] }),
    onDone: () => {
      toast('Attaching the volume')
      onClose()
    },
  })
  return (
    <FormFrame form={form} action="Attach" onClose={onClose}>
      <SelectField
        label="Volume"
        choices={volumes.map(({ id, label, sizeGb }) => ({
          value: String(id),
          label: `${label}, ${number(sizeGb)} GB`,
        }))}
        {...form.text('storageVolumeId')}
      />
    </FormFrame>
  )
}

function DetachDialog({ rental, volume, onClose }: { rental: Rental; volume: Attached; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Detach ${volume.label}?`}
      action="Detach"
      operation="detachVolume"
      input={{ body: { storageVolumeId: volume.id, rentalIds: [rental.id] } }}
      refreshes={['getRental', 'listVolumes']}
      done="Detaching the volume"
      onClose={onClose}
    >
      The data stays on the volume. Close open files first: the volume is removed from{' '}
      {displayName(machineOfRental(rental))} immediately.
    </ConfirmCall>
  )
}
