/** The volumes attached to a machine. Only bare metal supports them. */
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { number } from '../../../src/view/number.ts'
import { displayName, machineOfRental } from '../../../src/view/own-machine.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall, FormFrame } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { actionsColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Dialog, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Rental = Reply<'getRental'>
type Attached = NonNullable<Rental['attachedStorage']>[number]

export function RentalVolumes({ rental }: { rental: Rental }) {
  const dialog = useDialog()
  const mayChange = useMay('compute:write') && isLiving(rental.status)
  if (!rental.supportsFeature.attachedStorage) {
    return (
      <Empty title="Volumes are not supported" action={<ButtonLink to="/volumes">Volumes</ButtonLink>}>
        Only bare metal supports volumes. The disk of a virtual machine is deleted with it.
      </Empty>
    )
  }
  const attach = (
    <Button
      look="primary"
      disabled={!mayChange}
      onClick={() => dialog.open((close) => <AttachDialog rental={rental} onClose={close} />)}
    >
      Attach volume
    </Button>
  )
  const detach = (volume: Attached) => (
    <Button
      disabled={!mayChange}
      aria-label={`Detach ${volume.label}`}
      onClick={() => dialog.open((close) => <DetachDialog rental={rental} volume={volume} onClose={close} />)}
    >
      Detach
    </Button>
  )
  const attached = rental.attachedStorage ?? []
  return (
    <div className="flex flex-col gap-3">
      {attached.length > 0 && <div>{attach}</div>}
      <Table
        label="Attached volumes"
        columns={[...columns, actionsColumn(detach)]}
        rows={attached}
        rowKey="id"
        empty={
          <Empty title="No volumes attached" action={attach}>
            A volume keeps its data when the machine is terminated.
          </Empty>
        }
      />
      {dialog.shown}
    </div>
  )
}

const columns: Columns<Attached> = [
  textColumn('Volume', 'label', { className: 'font-medium' }),
  textColumn('Size', ({ size_in_gb }) => `${number(size_in_gb)} GB`, { align: 'right' }),
  moneyColumn('Per hour', 'cost_per_hour'),
  textColumn('Address', ({ vip }) => vip || '—', { className: 'font-mono' }),
]

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
