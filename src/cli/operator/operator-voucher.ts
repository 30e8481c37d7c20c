/** `berth operator vouchers`. */
import { systemClock } from '../../base/instant.ts'
import { money } from '../../view/money.ts'
import { voucherState, voucherUses } from '../../view/credit.ts'
import { act, list } from '../kit/row.ts'
import { bold } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  act('operator vouchers add', 'createVoucher', 'create a voucher; its code is shown once', {
    args: { '<usd>': { help: 'credit of one use, in USD', field: 'amountUsd' } },
    flags: {
      uses: 'how often it can be used (default: once)',
      usesPerAccount: '--per-account <n>  how often one account can use it (default: once)',
      redeemableUntil: '--until <time>  when it can no longer be redeemed',
      creditDays: '--days <n>  days after which its credit expires (default: never)',
      note: 'what it is for; customers do not see it',
    },
    examples: ['berth operator vouchers add 25 --uses 100 --days 90 --note conference'],
    done: ({ voucher, code }) => [
      ['Voucher', voucher.id],
      ['Code', bold(code)],
      '',
      'Save the code now: it is not shown again. Customers redeem it with',
      `  berth billing redeem ${code}`,
      `or on the page /billing?voucher=${code} of the console.`,
    ],
  }),
  list('operator vouchers ls', 'listVouchers', 'list vouchers, the newest first', {
    noun: 'voucher',
    columns: [
      'id',
      {
        CODE: ({ codeEnd }) => `…${codeEnd}`,
        CREDIT: ({ amountUsd }) => money(amountUsd),
        USED: voucherUses,
        STATE: (voucher) => voucherState(voucher, systemClock.now())[0],
      },
      'createdAt',
      'note',
    ],
    empty: 'To create one: berth operator vouchers add 25',
  }),
  act('operator vouchers revoke', 'revokeVoucher', 'revoke a voucher; redeemed credit stays', {
    args: { '<id>': 'id of the voucher' },
    examples: ['berth operator vouchers revoke vch_ID'],
    done: (_, { args }) => `Revoked ${String(args[0])}.`,
  }),
]
