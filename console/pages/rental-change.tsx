/** What can be changed of a rental: its label, when it ends by itself, and how much it may cost. */
import { useState, type FormEvent } from 'react'
import { formatInstant, instantOf, MINUTE_MS, parseInstant, systemClock, toDate } from '../../src/base/instant.ts'
import { formatUsd, parseUsd } from '../../src/base/money.ts'
import { limits } from '../../src/base/limits.ts'
import type { Reply } from '../../src/client/client.ts'
import { useAction } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogButtons } from '../ui/dialog.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { CheckField, TextField } from '../ui/field.tsx'
import { toast } from '../ui/toast.tsx'

type Rental = Reply<'getRental'>

interface Wish {
  readonly label: string
  /** As the browser's field has it, in local time. */
  readonly end: string
  readonly limit: string
  readonly goesOn: boolean
}

export function ChangeDialog({ rental, onClose }: { rental: Rental; onClose: () => void }) {
  const [wish, setWish] = useState<Wish>(() => wishOf(rental))
  const [isTried, setTried] = useState(false)
  const change = useAction('changeRental', ['getRental', 'listVirtualMachineRentals', 'listBareMetalRentals'])
  const wrong = isTried ? wrongWith(wish) : {}
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(wrongWith(wish)).length > 0) return
    change.mutate(
      { params: { id: rental.id }, body: changesOf(rental, wish) },
      {
        onSuccess: () => {
          toast('The rental is changed')
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title="Change this rental" onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <TextField
          label="Label"
          value={wish.label}
          maxLength={limits.labelChars}
          onChange={(event) => setWish({ ...wish, label: event.target.value })}
          hint="What you call it. Empty: its name."
        />
        <TextField
          label="Ends by itself at"
          type="datetime-local"
          value={wish.end}
          error={wrong.end}
          onChange={(event) => setWish({ ...wish, end: event.target.value })}
          hint="In your time zone. Empty: it goes on until you end it."
        />
        <TextField
          label="Spending limit in USD"
          inputMode="decimal"
          value={wish.limit}
          error={wrong.limit}
          onChange={(event) => setWish({ ...wish, limit: event.target.value })}
          hint="It ends when it has cost this much in all. Empty: no limit but the balance."
        />
        {rental.currentTerm.termType === 'reserved' && (
          <CheckField
            label="Go on after the reserved term"
            hint="At the on-demand price. Otherwise it ends with its term."
            checked={wish.goesOn}
            onChange={(event) => setWish({ ...wish, goesOn: event.target.checked })}
          />
        )}
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={change.isPending}>
            Save
          </Button>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function wishOf(rental: Rental): Wish {
  const limit = rental.spendingLimitUsd === null ? undefined : parseUsd(rental.spendingLimitUsd)
  return {
    label: rental.label ?? '',
    end: localText(rental.autoTerminateAt),
    limit: limit === undefined ? '' : formatUsd(limit).replace(/\.?0+$/, ''),
    goesOn: rental.convertToOnDemandOnExpiry ?? true,
  }
}

function wrongWith({ end, limit }: Wish): { end?: string; limit?: string } {
  const at = end === '' ? undefined : parseInstant(end)
  const amount = limit.trim() === '' ? undefined : parseUsd(limit.trim())
  return {
    ...(end !== '' && (at === undefined || at <= systemClock.now()) ? { end: 'Choose a time in the future.' } : {}),
    ...(limit.trim() !== '' && (amount === undefined || amount < 0n)
      ? { limit: 'An amount such as 25 or 12.50, in dollars.' }
      : {}),
  }
}

/** Only what is different: a label that somebody else has changed meanwhile stays. */
function changesOf(rental: Rental, wish: Wish) {
  const before = wishOf(rental)
  const at = parseInstant(wish.end)
  return {
    ...(wish.label === before.label ? {} : { label: wish.label.trim() === '' ? null : wish.label.trim() }),
    ...(wish.end === before.end ? {} : { autoTerminateAt: at === undefined ? null : formatInstant(at) }),
    ...(wish.limit === before.limit ? {} : { spendingLimitUsd: wish.limit.trim() === '' ? null : wish.limit.trim() }),
    ...(wish.goesOn === before.goesOn ? {} : { convertToOnDemandOnExpiry: wish.goesOn }),
  }
}

/** `2026-11-15T14:30`, in the time of this machine: what a field for a time takes. */
function localText(text: string | null): string {
  const at = text === null ? undefined : parseInstant(text)
  if (at === undefined) return ''
  const offsetMs = toDate(at).getTimezoneOffset() * MINUTE_MS
  return formatInstant(instantOf(at - offsetMs)).slice(0, 16)
}
