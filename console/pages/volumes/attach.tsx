/** Which machines have a volume mounted: added all or none, taken off one by one or all. */
import { useState, type FormEvent } from 'react'
import { count } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { useAction } from '../../api/query.ts'
import { ButtonLink } from '../../ui/button.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { nameOf, type Carrier } from './rental.ts'

interface AttachProps {
  readonly volume: Volume
  /** undefined: still being read. */
  readonly carriers: readonly Carrier[] | undefined
  readonly onClose: () => void
}

const changes = ['listVolumes', 'listBareMetalRentals', 'listVirtualMachineRentals'] as const

export function AttachDialog({ volume, carriers, onClose }: AttachProps) {
  const attach = useAction('attachVolume', changes)
  const [chosen, setChosen] = useState<readonly number[]>([])
  const here = carriers?.filter(({ id, region }) => region === volume.region && !volume.attachedRentals.includes(id))
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    attach.mutate(
      { body: { storageVolumeId: volume.id, rentalIds: [...chosen] } },
      {
        onSuccess: () => {
          toast(`${volume.label} is being attached to ${count(chosen.length, 'rental')}`)
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title={`Attach ${volume.label}`} onClose={onClose}>
      {here === undefined ? (
        <Skeleton rows={3} />
      ) : here.length === 0 ? (
        <Empty
          title={`No machine in ${volume.region} can have it`}
          action={
            <ButtonLink to="/rent" search={{ kind: 'bare-metal', region: volume.region }}>
              Rent bare metal
            </ButtonLink>
          }
        >
          A volume is attached to bare-metal rentals of its own region that have not ended.
        </Empty>
      ) : (
        <form onSubmit={submit} className="flex flex-col gap-3">
          <Machines legend="Machines" carriers={here} chosen={chosen} onChange={setChosen} />
          {attach.error !== null && <ErrorNotice error={attach.error} />}
          <DialogButtons>
            <CancelButton onClick={onClose} />
            <SubmitButton busy={attach.isPending} disabled={chosen.length === 0}>
              Attach
            </SubmitButton>
          </DialogButtons>
        </form>
      )}
    </Dialog>
  )
}

export function DetachDialog({ volume, carriers, onClose }: AttachProps) {
  const detach = useAction('detachVolume', changes)
  const [chosen, setChosen] = useState<readonly number[]>(volume.attachedRentals)
  const has = volume.attachedRentals.map((id) => carriers?.find((one) => one.id === id) ?? { id })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    detach.mutate(
      { body: { storageVolumeId: volume.id, rentalIds: [...chosen] } },
      {
        onSuccess: () => {
          toast(`${volume.label} is being detached from ${count(chosen.length, 'rental')}`)
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title={`Detach ${volume.label}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-3">
        <p className="text-sm text-muted">Programs that use it are ended. The data stays in the volume.</p>
        <Machines legend="Detach from" carriers={has} chosen={chosen} onChange={setChosen} />
        {detach.error !== null && <ErrorNotice error={detach.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton look="danger" busy={detach.isPending} disabled={chosen.length === 0}>
            Detach
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

interface MachinesProps {
  readonly legend: string
  /** One that has ended in the meantime has only its number. */
  readonly carriers: ReadonlyArray<Carrier | { readonly id: number }>
  readonly chosen: readonly number[]
  readonly onChange: (chosen: readonly number[]) => void
}

function Machines({ legend, carriers, chosen, onChange }: MachinesProps) {
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
            onChange(event.target.checked ? [...chosen, carrier.id] : chosen.filter((id) => id !== carrier.id))
          }
        />
      ))}
    </fieldset>
  )
}
