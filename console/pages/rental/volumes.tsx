/** The volumes of a machine: where they are mounted, and attaching and detaching if the provider supports it. */
import type { Reply } from '../../../src/client/client.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { number } from '../../../src/view/number.ts'
import { displayName } from '../../../src/view/own-machine.ts'
import { whyNotAttach } from '../../../src/view/volume.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { actionsColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Table } from '../../ui/table.tsx'
import { AttachToRentalDialog, DetachDialog } from '../volume/attach.tsx'

type Rental = Reply<'getRental'>
type Attachments = Reply<'listRentalVolumes'>
type Attached = Attachments['volumes'][number]

export function RentalVolumes({ rental }: { rental: Rental }) {
  const volumes = useCall('listRentalVolumes', { params: { id: String(rental.id) } })
  return <Answer of={volumes}>{(attachments) => <VolumeTable rental={rental} attachments={attachments} />}</Answer>
}

function VolumeTable({ rental, attachments }: { rental: Rental; attachments: Attachments }) {
  const dialog = useDialog()
  const mayWrite = useMay('compute:write')
  const whyNot = mayWrite
    ? isLiving(rental.state)
      ? undefined
      : `The machine is ${rental.state}`
    : missingScope('compute:write')
  const { order, attach: canAttach, mount: hasPath } = attachments.supports
  const attach = canAttach ? (
    <Button
      look="primary"
      disabledReason={whyNot}
      onClick={() => dialog.open((close) => <AttachDialog rental={rental} attachments={attachments} onClose={close} />)}
    >
      Attach volume
    </Button>
  ) : undefined
  const detach = (volume: Attached) => (
    <Button
      disabledReason={whyNot ?? (volume.state === 'detaching' ? 'The volume is being detached' : undefined)}
      aria-label={`Detach ${volume.label}`}
      onClick={() =>
        dialog.open((close) => (
          <DetachDialog
            volume={{ id: volume.storageVolumeId, label: volume.label }}
            rental={{ id: String(rental.id), name: displayName(rental) }}
            onClose={close}
          />
        ))
      }
    >
      Detach
    </Button>
  )
  return (
    <div className="flex flex-col gap-3">
      {attachments.volumes.length > 0 &&
        (attach === undefined ? <p className="text-sm text-muted">{FIXED}</p> : <div>{attach}</div>)}
      <Table
        label="Volumes of this machine"
        columns={[...columnsOf(hasPath), ...(canAttach ? [actionsColumn(detach)] : [])]}
        rows={attachments.volumes}
        rowKey="storageVolumeId"
        empty={
          <Empty title="No volumes" action={attach ?? <ButtonLink to="/volumes">Volumes</ButtonLink>}>
            {canAttach
              ? 'A volume keeps its data when the machine is terminated.'
              : order
                ? `This machine was ordered without volumes. ${FIXED}`
                : 'The engine of this machine has no volumes. Its disk is deleted with it.'}
          </Empty>
        }
      />
      {dialog.shown}
    </div>
  )
}

const FIXED = 'Volumes of this machine are chosen when it is ordered and stay until it ends.'

function columnsOf(hasPath: boolean): Columns<Attached> {
  return [
    textColumn('Volume', ({ storageVolumeId, label }) => (
      <TextLink to="/volumes/$id" params={{ id: String(storageVolumeId) }}>
        {label}
      </TextLink>
    )),
    textColumn('Size', ({ sizeInGb }) => `${number(sizeInGb)} GB`, { align: 'right', className: 'whitespace-nowrap' }),
    textColumn('Mounted at', ({ path, label }) => path ?? (hasPath ? null : `/mnt/${label}`), {
      className: 'font-mono',
    }),
    textColumn('Access', ({ readOnly }) => (readOnly ? 'Read-only' : 'Read-write'), { className: 'whitespace-nowrap' }),
    textColumn('State', 'state'),
  ]
}

interface AttachDialogProps {
  readonly rental: Rental
  readonly attachments: Attachments
  readonly onClose: () => void
}

function AttachDialog({ rental, attachments, onClose }: AttachDialogProps) {
  const all = useCall('listVolumes').data
  // The form is shown once the volumes are known, because it starts with the first one.
  if (all === undefined) return null
  const volumes = all.filter(
    (volume) =>
      volume.region === rental.region &&
      volume.providerId === rental.providerId &&
      volume.supports.attach.includes(rental.kind) &&
      whyNotAttach(volume) === undefined &&
      !attachments.volumes.some(({ storageVolumeId }) => storageVolumeId === volume.id),
  )
  return (
    <AttachToRentalDialog
      rentalId={rental.id}
      rentalName={displayName(rental)}
      hasPath={attachments.supports.mount}
      volumes={volumes}
      onClose={onClose}
    />
  )
}
