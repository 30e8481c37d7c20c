/** What can be changed of a rental or an instance: its label, when it ends by itself, and how much it may cost. */
import { useState, type FormEvent } from 'react'
import { formatInstant, instantOf, MINUTE_MS, parseInstant, systemClock, toDate } from '../../../src/base/instant.ts'
import { parseUsd, usd } from '../../../src/base/money.ts'
import { limits } from '../../../src/base/limits.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { editableUsd, money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

interface Wish {
  readonly label: string
  /** As the browser's field has it, in local time. */
  readonly end: string
  readonly limit: string
  readonly goesOn: boolean
}

/** What a rental and an instance have in common. */
type Changeable = Pick<Reply<'getInstance'>, 'label' | 'autoTerminateAt' | 'spendingLimitUsd' | 'costSoFarUsd'> & {
  readonly convertToOnDemandOnExpiry?: boolean | null
}

export function ChangeButton({ status, onClick }: { status: RentalStatus; onClick: () => void }) {
  const mayWrite = useMay('compute:write')
  const why = isLiving(status) ? (mayWrite ? undefined : missingScope('compute:write')) : `It is ${status}`
  return (
    <Button disabledReason={why} onClick={onClick}>
      Change
    </Button>
  )
}

export function ChangeRentalDialog({ rental, onClose }: { rental: Reply<'getRental'>; onClose: () => void }) {
  const change = useAction('changeRental', ['getRental', 'listVirtualMachineRentals', 'listBareMetalRentals'])
  const done = doneWith('The rental is changed', onClose)
  return (
    <ChangeDialog
      title="Change this rental"
      of={rental}
      isReserved={rental.currentTerm.termType === 'reserved'}
      busy={change.isPending}
      error={change.error}
      onSave={(wish, before) => {
        const goesOn = wish.goesOn === before.goesOn ? {} : { convertToOnDemandOnExpiry: wish.goesOn }
        change.mutate({ params: { id: rental.id }, body: { ...changesOf(before, wish), ...goesOn } }, done)
      }}
      onClose={onClose}
    />
  )
}

export function ChangeInstanceDialog({ instance, onClose }: { instance: Reply<'getInstance'>; onClose: () => void }) {
  const change = useAction('changeInstance', ['getInstance', 'listInstances'])
  const done = doneWith('The instance is changed', onClose)
  return (
    <ChangeDialog
      title="Change this instance"
      of={instance}
      isReserved={false}
      busy={change.isPending}
      error={change.error}
      onSave={(wish, before) => change.mutate({ params: { id: instance.name }, body: changesOf(before, wish) }, done)}
      onClose={onClose}
    />
  )
}

interface ChangeDialogProps {
  readonly title: string
  readonly of: Changeable
  readonly isReserved: boolean
  readonly busy: boolean
  readonly error: ClientError | null
  /** `before`: as it was when the dialog was opened. */
  readonly onSave: (wish: Wish, before: Wish) => void
  readonly onClose: () => void
}

function ChangeDialog({ title, of, isReserved, busy, error, onSave, onClose }: ChangeDialogProps) {
  const [before] = useState<Wish>(() => wishOf(of))
  const [wish, setWish] = useState(before)
  const [isTried, setTried] = useState(false)
  const wrong = isTried ? wrongWith(wish, of) : {}
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(wrongWith(wish, of)).length === 0) onSave(wish, before)
  }
  return (
    <Dialog title={title} onClose={onClose}>
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
        {isReserved && (
          <CheckField
            label="Go on after the reserved term"
            hint="At the on-demand price. Otherwise it ends with its term."
            checked={wish.goesOn}
            onChange={(event) => setWish({ ...wish, goesOn: event.target.checked })}
          />
        )}
        {error !== null && <ErrorNotice error={error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={busy}>Save</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function doneWith(words: string, onClose: () => void): { readonly onSuccess: () => void } {
  return {
    onSuccess: () => {
      toast(words)
      onClose()
    },
  }
}

function wishOf(rental: Changeable): Wish {
  return {
    label: rental.label ?? '',
    end: localText(rental.autoTerminateAt),
    limit: editableUsd(rental.spendingLimitUsd),
    goesOn: rental.convertToOnDemandOnExpiry ?? true,
  }
}

function wrongWith({ end, limit }: Wish, { costSoFarUsd }: Changeable): { end?: string; limit?: string } {
  const at = end === '' ? undefined : parseInstant(end)
  const amount = limit.trim() === '' ? undefined : parseUsd(limit.trim())
  return {
    ...(end !== '' && (at === undefined || at <= systemClock.now()) ? { end: 'Choose a time in the future.' } : {}),
    ...(limit.trim() !== '' && (amount === undefined || amount < 0n)
      ? { limit: 'An amount such as 25 or 12.50, in dollars.' }
      : {}),
    // It would end at once, with its disk: that has a button of its own, which asks.
    ...(amount !== undefined && amount <= usd(costSoFarUsd)
      ? { limit: `It has cost ${money(costSoFarUsd)} already. Choose more, or terminate it.` }
      : {}),
  }
}

/** Only what is different: a label that somebody else has changed meanwhile stays. */
function changesOf(before: Wish, wish: Wish) {
  const at = parseInstant(wish.end)
  return {
    ...(wish.label === before.label ? {} : { label: wish.label.trim() === '' ? null : wish.label.trim() }),
    ...(wish.end === before.end ? {} : { autoTerminateAt: at === undefined ? null : formatInstant(at) }),
    ...(wish.limit === before.limit ? {} : { spendingLimitUsd: wish.limit.trim() === '' ? null : wish.limit.trim() }),
  }
}

/** `2026-11-15T14:30`, in the time of this machine: what a field for a time takes. */
function localText(text: string | null): string {
  const at = text === null ? undefined : parseInstant(text)
  if (at === undefined) return ''
  const offsetMs = toDate(at).getTimezoneOffset() * MINUTE_MS
  return formatInstant(instantOf(at - offsetMs)).slice(0, 16)
}
