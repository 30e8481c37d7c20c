/** Attaches a volume to running machines. */
import { useState } from 'react'
import { number } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { ConfirmCall, FormFrame } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Fields } from '../../form/fields.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckList, SelectField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import type { RentalSummary } from '../../../src/contract/rental.ts'
import { displayName, machineOf } from '../../../src/view/own-machine.ts'
import { useCarriers } from './rental.ts'

const refreshes = ['listVolumes', 'listRentalVolumes', 'getRental'] as const

interface AttachProps {
  readonly volume: Volume
  readonly onClose: () => void
}

export function AttachDialog({ volume, onClose }: AttachProps) {
  const carriers = useCarriers(volume)
  const [kind = 'bare-metal'] = volume.supports.attach
  const noun = kind === 'bare-metal' ? 'bare metal' : 'virtual machine'
  const Form = volume.supports.shared ? SharedForm : DiskForm
  return (
    <Dialog title={`Attach ${volume.label}`} onClose={onClose}>
      {carriers === undefined ? (
        <Skeleton rows={3} />
      ) : carriers.length === 0 ? (
        <Empty
          title={`No ${noun} to attach it to`}
          action={
            <ButtonLink to="/rent" search={{ kind: kind === 'bare-metal' ? kind : 'virtual-machine' }}>
              Rent {kind === 'bare-metal' ? noun : `a ${noun}`}
            </ButtonLink>
          }
        >
          The machine has to be in{' '}
          {volume.nodeName === null ? volume.region : `${volume.region}, on ${volume.nodeName}`}.
        </Empty>
      ) : (
        <Form volume={volume} carriers={carriers} onClose={onClose} />
      )}
    </Dialog>
  )
}

interface FormProps extends AttachProps {
  readonly carriers: readonly RentalSummary[]
}

/** Attaches a folder, which any number of machines can share. */
function SharedForm({ volume, carriers, onClose }: FormProps) {
  const form = useFieldForm('attachVolume', {
    refreshes,
    fields: ['rentalIds'],
    body: (body) => ({ ...body, storageVolumeId: volume.id }),
    onDone: () => {
      toast(`Attaching ${volume.label}`)
      onClose()
    },
  })
  const { rentalIds } = form.values
  return (
    <FormFrame
      form={form}
      action="Attach"
      disabledReason={rentalIds === '' ? 'Choose at least one machine' : undefined}
      onClose={onClose}
    >
      <CheckList
        label="Machines"
        choices={carriers.map((carrier) => ({
          value: String(carrier.id),
          label: displayName(carrier),
          hint: `Rental ${carrier.id}, ${machineOf(carrier).gpus}, ${carrier.state}`,
        }))}
        chosen={rentalIds.split(',')}
        onChange={(ids) => form.set({ rentalIds: ids.join() })}
        error={form.error('rentalIds')}
      />
    </FormFrame>
  )
}

/** Attaches a disk, which belongs to one machine, at a path. */
function DiskForm({ volume, carriers, onClose }: FormProps) {
  const [rentalId, setRentalId] = useState(String(carriers[0]?.id))
  const form = useMountForm(rentalId, [volume], true, onClose)
  return (
    <FormFrame form={form} action="Attach" onClose={onClose}>
      <SelectField
        label="Machine"
        choices={carriers.map((carrier) => ({ value: String(carrier.id), label: displayName(carrier) }))}
        value={rentalId}
        onChange={(event) => setRentalId(event.target.value)}
      />
      <Fields form={form} entries={mountFields} />
    </FormFrame>
  )
}

interface DiskOfRentalProps {
  readonly rentalId: number
  readonly rentalName: string
  /** Virtual machines mount it at a path; on bare metal the path is fixed. */
  readonly hasPath: boolean
  readonly volumes: readonly Volume[]
  readonly onClose: () => void
}

/** Attaches a volume from the page of the rental. */
export function AttachToRentalDialog({ rentalId, rentalName, hasPath, volumes, onClose }: DiskOfRentalProps) {
  const form = useMountForm(String(rentalId), volumes, hasPath, onClose)
  return (
    <Dialog title={`Attach a volume to ${rentalName}`} onClose={onClose}>
      {volumes.length === 0 ? (
        <Empty title="No volume available" action={<ButtonLink to="/volumes">Volumes</ButtonLink>}>
          The volume must be active, in the same region and on the same engine as the machine.
        </Empty>
      ) : (
        <FormFrame form={form} action="Attach" onClose={onClose}>
          <Fields form={form} />
        </FormFrame>
      )}
    </Dialog>
  )
}

const mountFields = ['path', 'readOnly'] as const

function useMountForm(rentalId: string, volumes: readonly Volume[], hasPath: boolean, onClose: () => void) {
  const [first] = volumes
  const choices = volumes.map(({ id, label, sizeGb }) => ({
    value: String(id),
    label: `${label}, ${number(sizeGb)} GB`,
  }))
  return useFieldForm('attachRentalVolume', {
    refreshes,
    input: { params: { id: rentalId } },
    fields: [['storageVolumeId', { label: 'Volume', choices }], ...(hasPath ? mountFields : [])],
    initial: { storageVolumeId: String(first?.id), path: hasPath ? `/mnt/${first?.label}` : '' },
    onDone: ({ label }) => {
      toast(`Attaching ${label}`)
      onClose()
    },
  })
}

interface DetachProps {
  readonly volume: { readonly id: number; readonly label: string }
  readonly rental: { readonly id: string; readonly name: string }
  readonly onClose: () => void
}

export function DetachDialog({ volume, rental, onClose }: DetachProps) {
  return (
    <ConfirmCall
      title={`Detach ${volume.label}?`}
      action="Detach"
      operation="detachRentalVolume"
      input={{ params: { id: rental.id, storageVolumeId: volume.id } }}
      refreshes={refreshes}
      done={`Detaching ${volume.label}`}
      onClose={onClose}
    >
      The data stays on the volume. Close open files first: the volume is removed from {rental.name} immediately.
    </ConfirmCall>
  )
}
