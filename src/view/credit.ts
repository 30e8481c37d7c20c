/** Credits and vouchers for people. */
import type { Reply } from '../client/client.ts'
import { money } from './money.ts'
import type { Tone } from './tone.ts'

type Credits = Reply<'listCredits'>
type Voucher = Reply<'listVouchers'>['vouchers'][number]

export const creditLabels = {
  trial: 'Trial',
  voucher: 'Voucher',
  operator: 'Gift',
} as const satisfies Record<Credits['credits'][number]['kind'], string>

export function trialText({ amountUsd, days }: NonNullable<Credits['trial']>): string {
  return `You get ${money(amountUsd)} for ${days} days with the first card that you save or pay with.`
}

/** `now` in milliseconds. */
export function voucherState(voucher: Voucher, now: number): readonly [label: string, tone: Tone] {
  if (voucher.revokedAt !== null) return ['Revoked', 'bad']
  if (voucher.used >= voucher.uses) return ['Used up', 'plain']
  if (voucher.redeemableUntil !== null && Date.parse(voucher.redeemableUntil) <= now) return ['Expired', 'plain']
  return ['Active', 'good']
}

export function voucherUses({ used, uses, usesPerAccount }: Voucher): string {
  return `${used} of ${uses}${usesPerAccount === 1 ? '' : `, ${usesPerAccount} per account`}`
}
