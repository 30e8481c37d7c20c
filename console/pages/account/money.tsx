/**
 * Money that the operator moves. Before it is sent, the dialog says in a sentence what will stand in the books; amounts
 * are exact decimals from the field to the ledger. The key of the request is made when the dialog opens, so pressing
 * twice moves the money once.
 */
import { useState, type FormEvent } from 'react'
import { positiveUsdText } from '../../../src/contract/shared.ts'
import { money } from '../../../src/view/money.ts'
import { useCreate } from '../../api/create.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { booksSentence, doneSentence, type MoneyWish } from './books.ts'
import { faultOfReason } from './quota.tsx'
import type { Account } from './record.tsx'

export type MoneyMove = MoneyWish['move']

const titles: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add money',
  adjust: 'Adjust the balance',
  refund: 'Refund a rental',
  payout: 'Pay out earnings',
}

const actions: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add the money',
  adjust: 'Adjust',
  refund: 'Refund',
  payout: 'Record the payout',
}

interface AccountMoneyDialogProps {
  readonly account: Account
  readonly move: MoneyMove
  readonly rentalId: number | undefined
  readonly onClose: () => void
}

export function AccountMoneyDialog({ account, move, rentalId, onClose }: AccountMoneyDialogProps) {
  const [wish, setWish] = useState<MoneyWish>({
    move,
    amount: '',
    kind: 'purchase',
    direction: 'up',
    rental: rentalId === undefined ? '' : String(rentalId),
  })
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const { send, busy, error } = useMove(account, () => {
    toast(doneSentence(account, wish))
    onClose()
  })
  const faults = faultsOf(wish, reason)
  const isRight = Object.values(faults).every((fault) => fault === undefined)
  const set = (change: Partial<MoneyWish>): void => setWish({ ...wish, ...change })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (isRight) send(wish, reason)
  }
  return (
    <Dialog title={`${titles[move]}: ${account.name}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Choices wish={wish} set={set} rentalFault={isChecked ? faults.rental : undefined} />
        <TextField
          label="Amount in USD"
          inputMode="decimal"
          value={wish.amount}
          onChange={(event) => set({ amount: event.target.value.trim() })}
          error={isChecked ? faults.amount : undefined}
          hint={hintOf(account, move)}
        />
        <TextField
          label="Reason"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          error={isChecked ? faults.reason : undefined}
          hint="Stands in the books and in the audit log."
        />
        <p aria-live="polite" className="min-h-16 rounded-md bg-sunken px-3 py-2 text-sm">
          {faults.amount === undefined && faults.rental === undefined
            ? booksSentence(account, wish)
            : 'What will stand in the books is said here.'}
        </p>
        {error !== null && <ErrorNotice error={error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={busy}>{actions[move]}</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

interface ChoicesProps {
  readonly wish: MoneyWish
  readonly set: (change: Partial<MoneyWish>) => void
  readonly rentalFault: string | undefined
}

/** What else is to be said of a move. */
function Choices({ wish, set, rentalFault }: ChoicesProps) {
  switch (wish.move) {
    case 'credit':
      return (
        <SelectField
          label="Where it comes from"
          choices={[
            { value: 'purchase', label: 'A purchase: money that came in' },
            { value: 'credit', label: 'A gift of the house' },
          ]}
          value={wish.kind}
          onChange={(event) => set({ kind: event.target.value === 'credit' ? 'credit' : 'purchase' })}
        />
      )
    case 'adjust':
      return (
        <SelectField
          label="Direction"
          choices={[
            { value: 'up', label: 'Up: the account gets it' },
            { value: 'down', label: 'Down: the account loses it' },
          ]}
          value={wish.direction}
          onChange={(event) => set({ direction: event.target.value === 'down' ? 'down' : 'up' })}
        />
      )
    case 'refund':
      return (
        <TextField
          label="Number of the rental"
          inputMode="numeric"
          value={wish.rental}
          onChange={(event) => set({ rental: event.target.value.trim() })}
          error={rentalFault}
        />
      )
    case 'payout':
      return null
  }
}

function useMove(account: Account, onSuccess: () => void) {
  const reads = ['getAccount', 'listAccounts', 'listAudit', 'getCustomerBalance', 'getStatement'] as const
  const credit = useCreate('creditAccount', reads)
  const adjust = useCreate('adjustAccount', reads)
  const refund = useCreate('refundCharge', reads)
  const payout = useCreate('payOutSupplier', reads)
  const request = { params: { id: account.id } }
  const send = ({ move, amount, kind, direction, rental }: MoneyWish, reason: string): void => {
    if (move === 'credit') credit.mutate({ ...request, body: { amountUsd: amount, kind, reason } }, { onSuccess })
    else if (move === 'adjust') {
      const amountUsd = direction === 'down' ? `-${amount}` : amount
      adjust.mutate({ ...request, body: { amountUsd, reason } }, { onSuccess })
    } else if (move === 'refund') {
      const rentalId = Number.parseInt(rental, 10)
      refund.mutate({ ...request, body: { amountUsd: amount, rentalId, reason } }, { onSuccess })
    } else payout.mutate({ ...request, body: { amountUsd: amount, reason } }, { onSuccess })
  }
  const all = [credit, adjust, refund, payout]
  return {
    send,
    busy: all.some((one) => one.isPending),
    error: all.find((one) => one.error !== null)?.error ?? null,
  }
}

function faultsOf(
  wish: MoneyWish,
  reason: string,
): Readonly<Record<'amount' | 'rental' | 'reason', string | undefined>> {
  return {
    amount: positiveUsdText.safeParse(wish.amount).success
      ? undefined
      : 'Write an amount above zero with a dot and nine decimals at most, such as 12.50.',
    rental:
      wish.move === 'refund' && !/^[1-9]\d{0,9}$/.test(wish.rental)
        ? 'Write the number of the rental; the table of rentals has it.'
        : undefined,
    reason: faultOfReason(reason),
  }
}

function hintOf(account: Account, move: MoneyMove): string {
  if (move === 'payout') return `Unpaid earnings: ${money(account.earningsUsd)}`
  if (move === 'refund') return 'At most what the rental was charged and has not got back.'
  return `Available: ${money(account.availableUsd)}`
}
