/** The price of a machine, edited in place. */
import { editableUsd, gpuHourPrice, money } from '../../../src/view/money.ts'
import type { Machine } from '../../../src/view/supply.ts'
import { useEffect, useRef, useState } from 'react'
import { useFieldForm } from '../../form/field-form.ts'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

export function PriceEditor({ machine }: { machine: Machine }) {
  const [isOpen, setOpen] = useState(false)
  if (machine.offering !== 'marketplace') {
    return <span title="The operator sets the price of virtual machines and bare metal">Price book</span>
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
  const element = useRef<HTMLFormElement>(null)
  // Pressing Change puts the cursor into the price.
  useEffect(() => element.current?.querySelector('input')?.select(), [])
  const form = useFieldForm('changeSuppliedMachine', {
    input: { params: { id: machine.id } },
    refreshes: ['listSupply', 'searchMachines'],
    initial: { pricePerGpuHourUsd: editableUsd(machine.pricePerGpuHourUsd) },
    fields: ['pricePerGpuHourUsd'],
    onDone: (_, { pricePerGpuHourUsd: price }) => {
      toast(`${machine.id} costs ${gpuHourPrice(price)}. Current rentals keep their price.`)
      onClose()
    },
  })
  const field = form.text('pricePerGpuHourUsd')
  return (
    <form ref={element} onSubmit={form.submit} className="flex min-w-56 items-start gap-2">
      <TextField
        label={`Price of ${machine.id} per GPU-hour (USD)`}
        hideLabel
        inputMode="decimal"
        className="w-32"
        {...field}
        onKeyDown={(event) => event.key === 'Escape' && !form.isPending && onClose()}
        error={field.error ?? form.elsewhere().error?.message}
      />
      <Button type="submit" look="primary" busy={form.isPending}>
        Save
      </Button>
      <Button look="quiet" disabled={form.isPending} onClick={onClose}>
        Cancel
      </Button>
    </form>
  )
}
