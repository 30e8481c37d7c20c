/** The price of a machine, changed where it stands. */
import { useEffect, useRef, useState, type FormEvent } from 'react'
import { priceUsdText } from '../../../src/contract/shared.ts'
import { editableUsd, gpuHourPrice, money } from '../../../src/view/money.ts'
import { useAction } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Machine } from './words.ts'

export function PriceEditor({ machine }: { machine: Machine }) {
  const [isOpen, setOpen] = useState(false)
  if (machine.offering !== 'marketplace') {
    return <span title="Virtual machines and bare metal are priced by the operator">House price</span>
  }
  if (isOpen) return <PriceForm machine={machine} onClose={() => setOpen(false)} />
  const price = machine.pricePerGpuHourUsd
  return (
    <span className="inline-flex items-center gap-2 tabular-nums">
      {price === null ? 'none' : money(price)}
      <Button look="quiet" aria-label={`Change the price of ${machine.id}`} onClick={() => setOpen(true)}>
        Change
      </Button>
    </span>
  )
}

function PriceForm({ machine, onClose }: { machine: Machine; onClose: () => void }) {
  const [text, setText] = useState(() => editableUsd(machine.pricePerGpuHourUsd))
  const [isChecked, setChecked] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  // Whoever has pressed Change wants to type.
  useEffect(() => form.current?.querySelector('input')?.select(), [])
  const change = useAction('changeSuppliedMachine', ['listSuppliedMachines', 'listMachines'])
  const wrong = faultOfPrice(text)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (wrong !== undefined) return
    change.mutate(
      { params: { id: machine.id }, body: { pricePerGpuHourUsd: text } },
      {
        onSuccess: () => {
          toast(`${machine.id} costs ${gpuHourPrice(text)}. What runs keeps its price.`)
          onClose()
        },
      },
    )
  }
  return (
    <form ref={form} onSubmit={submit} className="flex min-w-56 items-start gap-2">
      <TextField
        label={`Price of ${machine.id} in USD a GPU and hour`}
        hideLabel
        inputMode="decimal"
        className="w-32"
        value={text}
        onChange={(event) => setText(event.target.value.trim())}
        onKeyDown={(event) => event.key === 'Escape' && !change.isPending && onClose()}
        error={isChecked && wrong !== undefined ? wrong : (change.error?.message ?? undefined)}
      />
      <Button type="submit" look="primary" busy={change.isPending}>
        Save
      </Button>
      <Button look="quiet" disabled={change.isPending} onClick={onClose}>
        Cancel
      </Button>
    </form>
  )
}

/** undefined: it is a price. */
export function faultOfPrice(text: string): string | undefined {
  return priceUsdText.safeParse(text).success ? undefined : 'Write a price from 0 to 1000, such as 1.20.'
}
