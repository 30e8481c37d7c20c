/** Connected accounts and transfers, as the payment processor knows them: how suppliers are paid through it. */
import { compare } from './difference.ts'

export interface PayeeCalls {
  /** A connected account. The same key gives the same one. */
  createPayee(input: {
    readonly key: string
    readonly accountId: string
    readonly country: string | null
  }): Promise<string>
  /** A page on which the supplier enters or changes its details. It is open for minutes, to whoever has it. */
  openPayeePage(payeeId: string, isConfirmed: boolean): Promise<string>
  /** undefined: there is no such account. */
  readPayee(payeeId: string): Promise<Payee | undefined>
  /** undefined: the processor has too little money, and nothing was sent. */
  createTransfer(order: TransferOrder): Promise<TransferFacts | undefined>
  /** The transfer that was made for a payout, whatever became of the answer. undefined: none was. */
  findTransfer(payoutId: string): Promise<TransferFacts | undefined>
  /** undefined: there is no such transfer. */
  readTransfer(transferId: string): Promise<TransferFacts | undefined>
}

export interface Payee {
  readonly id: string
  readonly isConfirmed: boolean
  readonly country: string | null
  /** Another bank account has another one. null: there is none yet. */
  readonly fingerprint: string | null
  /** The last characters of the bank account. */
  readonly last4: string | null
}

export interface TransferOrder {
  /** The payout's id: the transfer group. */
  readonly id: string
  /** Another one only after a refusal, which the processor would repeat for the same. */
  readonly key: string
  readonly payeeId: string
  readonly cents: number
}

export interface TransferFacts {
  readonly id: string
  readonly isLive: boolean
  readonly payoutId: string | null
  readonly payeeId: string | null
  readonly cents: number
  readonly currency: string
  readonly reversals: ReadonlyArray<{ readonly id: string; readonly cents: number }>
}

export interface AwaitedTransfer {
  readonly id: string
  readonly isLive: boolean
  readonly payeeId: string | null
  readonly cents: number
}

/** Says what differs from the order. undefined: nothing. */
export function faultOfTransfer(payout: AwaitedTransfer, transfer: TransferFacts): string | undefined {
  const differences = [
    compare('live', transfer.isLive, payout.isLive),
    compare('payout', transfer.payoutId, payout.id),
    compare('recipient', transfer.payeeId, payout.payeeId),
    compare('amount', transfer.cents, payout.cents),
    compare('currency', transfer.currency, 'usd'),
  ].filter((text) => text !== undefined)
  return differences.length === 0 ? undefined : differences.join('; ')
}

/** Stripe transfers across borders to these countries only: the US, the UK, the EEA, Canada and Switzerland. */
export const payeeCountries: readonly string[] =
  'AT BE BG CA CH CY CZ DE DK EE ES FI FR GB GR HR HU IE IS IT LI LT LU LV MT NL NO PL PT RO SE SI SK US'.split(' ')
