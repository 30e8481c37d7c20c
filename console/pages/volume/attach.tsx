/** Attaching a volume to machines that run. */
import { number } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { ConfirmCall, FormFrame } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { ButtonLink } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { nameOf, useCarriers, type Carrier } from './rental.ts'

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
  readonly carriers: readonly Carrier[]
}

/** A folder: to any number of machines. */
function SharedForm({ volume, carriers, onClose }: FormProps) {
  const form = useCallForm('attachVolume', {
    refreshes,
    initial: { rentalIds: [] as readonly number[] },
    body: ({ rentalIds }) => ({ storageVolumeId: volume.id, rentalIds: [...rentalIds] }),
    onDone: () => {
      toast(`Attaching ${volume.label}`)
      onClose()
    },
  })
  const { rentalIds: chosen } = form.values
  return (
    <FormFrame
      form={form}
      action="Attach"
      disabledReason={chosen.length === 0 ? 'Choose at least one machine' : undefined}
      onClose={onClose}
    >
      <fieldset className="flex flex-col gap-2">
        <legend className="mb-1 text-sm font-medium">Machines</legend>
        {carriers.map((carrier) => (
          <CheckField
            key={carrier.id}
            label={nameOf(carrier)}
            hint={`Rental ${carrier.id}, ${carrier.gpuCount} × ${carrier.gpuType.toUpperCase()}, ${carrier.status}`}
            checked={chosen.includes(carrier.id)}
            onChange={(event) =>
              form.set({
                rentalIds: event.target.checked ? [...chosen, carrier.id] : chosen.filter((id) => id !== carrier.id),
              })
            }
          />
        ))}
      </fieldset>
    </FormFrame>
  )
}

/** A disk: to one machine, mounted at a path. */
function DiskForm({ volume, carriers, onClose }: FormProps) {
  const form = useMountForm({ volumeId: volume.id, rentalId: carriers[0]?.id ?? 0, label: volume.label }, onClose)
  return (
    <FormFrame form={form} action="Attach" onClose={onClose}>
      <SelectField
        label="Machine"
        choices={carriers.map((carrier) => ({ value: String(carrier.id), label: nameOf(carrier) }))}
        {...form.text('rental')}
      />
      <MountPathFields form={form} />
    </FormFrame>
  )
}

interface DiskOfRentalProps {
  readonly rentalId: number
  readonly rentalName: string
  /** Virtual machines mount it at a path; bare metal always at the same one. */
  readonly hasPath: boolean
  readonly volumes: readonly Volume[]
  readonly onClose: () => void
}

/** The same, from the side of the rental. */
export function AttachToRentalDialog({ rentalId, rentalName, hasPath, volumes, onClose }: DiskOfRentalProps) {
  const [first] = volumes
  const form = useMountForm({ volumeId: first?.id ?? 0, rentalId, label: hasPath ? first?.label : undefined }, onClose)
  return (
    <Dialog title={`Attach a volume to ${rentalName}`} onClose={onClose}>
      {first === undefined ? (
        <Empty title="No volume available" action={<ButtonLink to="/volumes">Volumes</ButtonLink>}>
          The volume must be active, in the same region and on the same engine as the machine.
        </Empty>
      ) : (
        <FormFrame form={form} action="Attach" onClose={onClose}>
          <SelectField
            label="Volume"
            choices={volumes.map(({ id, label, sizeGb }) => ({
              value: String(id),
              label: `${label}, ${number(sizeGb)} GB`,
            }))}
            {...form.text('volume')}
          />
          {hasPath && <MountPathFields form={form} />}
        </FormFrame>
      )}
    </Dialog>
  )
}

interface MountOf {
  readonly volumeId: number
  readonly rentalId: number
  /** For the suggested path; undefined: it has none. */
  readonly label: string | undefined
}

function useMountForm({ volumeId, rentalId, label }: MountOf, onClose: () => void) {
  return useCallForm('attachRentalVolume', {
    refreshes,
    initial: {
      rental: String(rentalId),
      volume: String(volumeId),
      path: label === undefined ? '' : `/mnt/${label}`,
      readOnly: false,
    },
    input: ({ rental }) => ({ params: { id: rental } }),
    body: ({ volume, path, readOnly }) => ({
      storageVolumeId: Number(volume),
      path: optionalText(path),
      readOnly: readOnly || undefined,
    }),
    paths: { volume: 'storageVolumeId' },
    onDone: (attached) => {
      toast(`Attaching ${attached.label}`)
      onClose()
    },
  })
}

function MountPathFields({ form }: { form: ReturnType<typeof useMountForm> }) {
  return (
    <>
      <TextField
        label="Mount path"
        placeholder="/data"
        spellCheck={false}
        hint="The disk appears at once and is mounted there from the next boot on. Leave empty to mount it yourself."
        {...form.text('path')}
      />
      <CheckField label="Read-only" {...form.check('readOnly')} />
    </>
  )
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
