/** Attaching a volume to machines and detaching it. */
import type { Volume } from '../../../src/view/volume.ts'
import { ButtonLink } from '../../ui/button.tsx'
import { FormDialog, FormFrame } from '../../form/dialog.tsx'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { nameOf, type Carrier } from './rental.ts'

interface AttachProps {
  readonly volume: Volume
  /** undefined: still loading. */
  readonly carriers: readonly Carrier[] | undefined
  readonly onClose: () => void
}

const refreshes = ['listVolumes', 'listBareMetalRentals', 'listVirtualMachineRentals'] as const

export function AttachDialog({ volume, carriers, onClose }: AttachProps) {
  const form = useAttachmentForm('attachVolume', volume, [], 'Attaching', onClose)
  const here = carriers?.filter(({ id, region }) => region === volume.region && !volume.attachedRentals.includes(id))
  return (
    <Dialog title={`Attach ${volume.label}`} onClose={onClose}>
      {here === undefined ? (
        <Skeleton rows={3} />
      ) : here.length === 0 ? (
        <Empty
          title={`No bare metal in ${volume.region}`}
          action={
            <ButtonLink to="/rent" search={{ kind: 'bare-metal', region: volume.region }}>
              Rent bare metal
            </ButtonLink>
          }
        >
          Volumes attach to bare-metal rentals in the same region.
        </Empty>
      ) : (
        <FormFrame form={form} action="Attach" disabledReason={noneChosen(form)} onClose={onClose}>
          <Machines legend="Machines" carriers={here} form={form} />
        </FormFrame>
      )}
    </Dialog>
  )
}

export function DetachDialog({ volume, carriers, onClose }: AttachProps) {
  const form = useAttachmentForm('detachVolume', volume, volume.attachedRentals, 'Detaching', onClose)
  const attached = volume.attachedRentals.map((id) => carriers?.find((one) => one.id === id) ?? { id })
  return (
    <FormDialog
      title={`Detach ${volume.label}`}
      form={form}
      action="Detach"
      look="danger"
      disabledReason={noneChosen(form)}
      onClose={onClose}
    >
      <p className="text-sm text-muted">Programs that use the volume are stopped. The data stays on the volume.</p>
      <Machines legend="Detach from" carriers={attached} form={form} />
    </FormDialog>
  )
}

type AttachmentForm = Form<{ readonly rentalIds: readonly number[] }>

function useAttachmentForm(
  operation: 'attachVolume' | 'detachVolume',
  volume: Volume,
  rentalIds: readonly number[],
  verb: string,
  onClose: () => void,
): AttachmentForm {
  return useCallForm(operation, {
    refreshes,
    initial: { rentalIds },
    body: (values) => ({ storageVolumeId: volume.id, rentalIds: [...values.rentalIds] }),
    onDone: () => {
      toast(`${verb} ${volume.label}`)
      onClose()
    },
  })
}

function noneChosen({ values }: AttachmentForm): string | undefined {
  return values.rentalIds.length === 0 ? 'Choose at least one machine' : undefined
}

interface MachinesProps {
  readonly legend: string
  /** A rental that has ended meanwhile has only its id. */
  readonly carriers: ReadonlyArray<Carrier | { readonly id: number }>
  readonly form: AttachmentForm
}

function Machines({ legend, carriers, form }: MachinesProps) {
  const { rentalIds: chosen } = form.values
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">{legend}</legend>
      {carriers.map((carrier) => (
        <CheckField
          key={carrier.id}
          label={'region' in carrier ? nameOf(carrier) : `Rental ${carrier.id}`}
          {...('region' in carrier
            ? {
                hint: `Rental ${carrier.id}, ${carrier.gpuCount} × ${carrier.gpuType.toUpperCase()}, ${carrier.status}`,
              }
            : {})}
          checked={chosen.includes(carrier.id)}
          onChange={(event) =>
            form.set({
              rentalIds: event.target.checked ? [...chosen, carrier.id] : chosen.filter((id) => id !== carrier.id),
            })
          }
        />
      ))}
    </fieldset>
  )
}
