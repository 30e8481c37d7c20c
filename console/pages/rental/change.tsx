/** Changing a rental: label, scheduled end and spending limit. */
import { formatInstant, instantOf, MINUTE_MS, parseInstant, toDate } from '../../../src/base/instant.ts'
import { limits } from '../../../src/base/limits.ts'
import { parseUsd, usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { RentalState } from '../../../src/contract/rental-state.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { editableUsd, money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Button } from '../../ui/button.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { checkEnd, endOf } from '../rent/guards.tsx'

type Rental = Reply<'getRental'>

export function ChangeButton({ status, onClick }: { status: RentalState; onClick: () => void }) {
  const mayWrite = useMay('compute:write')
  const disabledReason = !isLiving(status)
    ? `The machine is ${status}`
    : mayWrite
      ? undefined
      : missingScope('compute:write')
  return (
    <Button disabledReason={disabledReason} onClick={onClick}>
      Change
    </Button>
  )
}

interface Values {
  readonly label: string
  /** In the time zone of the browser. */
  readonly endsAt: string
  readonly limitUsd: string
  readonly continues: boolean
}

const paths = {
  endsAt: 'autoTerminateAt',
  limitUsd: 'spendingLimitUsd',
  continues: 'convertToOnDemandOnExpiry',
} as const

export function ChangeDialog({ rental, onClose }: { rental: Rental; onClose: () => void }) {
  const form = useCallForm('changeRental', {
    input: { params: { id: String(rental.id) } },
    refreshes: ['listRentals', 'getRental'],
    initial: () => valuesOf(rental),
    body: (values) => changesOf(rental, values),
    check: (values) => check(rental, values),
    paths,
    onDone: () => {
      toast('Rental saved')
      onClose()
    },
  })
  return (
    <FormDialog title="Change rental" form={form} action="Save" onClose={onClose}>
      <TextField
        label="Label"
        maxLength={limits.labelChars}
        hint="Leave empty to show the machine name."
        {...form.text('label')}
      />
      <TextField
        label="Ends at"
        type="datetime-local"
        hint="Terminates automatically at this time, in your time zone. Leave empty for no scheduled end."
        {...form.text('endsAt')}
      />
      <TextField
        label="Spending limit (USD)"
        inputMode="decimal"
        hint="Terminates when its total cost reaches this amount. Leave empty for no limit."
        {...form.text('limitUsd')}
      />
      {rental.termEndsAt !== null && (
        <CheckField
          label="Continue on demand when the term ends"
          hint="Otherwise the rental ends with its term."
          {...form.check('continues')}
        />
      )}
    </FormDialog>
  )
}

function valuesOf(rental: Rental): Values {
  return {
    label: rental.label ?? '',
    endsAt: localText(rental.autoTerminateAt),
    limitUsd: editableUsd(rental.spendingLimitUsd),
    continues: rental.convertToOnDemandOnExpiry ?? true,
  }
}

/** A limit below the cost would terminate the machine at once, without the confirmation of the Terminate button. */
function check({ costSoFarUsd }: Rental, values: Values) {
  const limit = parseUsd(values.limitUsd.trim())
  const isTooLow = limit !== undefined && limit <= usd(costSoFarUsd)
  return {
    ...checkEnd(values),
    limitUsd: isTooLow
      ? `It has already cost ${money(costSoFarUsd)}. Choose a higher limit, or terminate it.`
      : undefined,
  }
}

/** Returns only changed fields, so that changes made by others meanwhile stay. */
function changesOf(rental: Rental, values: Values) {
  const before = valuesOf(rental)
  return {
    label: values.label === before.label ? undefined : (optionalText(values.label) ?? null),
    autoTerminateAt: values.endsAt === before.endsAt ? undefined : (endOf(values) ?? null),
    spendingLimitUsd: values.limitUsd === before.limitUsd ? undefined : (optionalText(values.limitUsd) ?? null),
    convertToOnDemandOnExpiry: values.continues === before.continues ? undefined : values.continues,
  }
}

/** The value of a time field, in the time zone of the browser: `2026-11-15T14:30`. */
function localText(text: string | null): string {
  const at = text === null ? undefined : parseInstant(text)
  if (at === undefined) return ''
  const offsetMs = toDate(at).getTimezoneOffset() * MINUTE_MS
  return formatInstant(instantOf(at - offsetMs)).slice(0, 16)
}
