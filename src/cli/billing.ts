/** `berth balance`. */
import type { Command } from 'commander'
import { systemClock, type Instant } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { hourlyPrice, money } from '../view/money.ts'
import { relativeTime, utcTime } from '../view/time.ts'
import { fields } from './screen.ts'
import type { Run } from './session.ts'

export function addBillingCommands(program: Command, run: Run): void {
  program
    .command('balance')
    .description('show balance, available, on hold, and how long it lasts')
    .action(
      run('customer', async ({ client, screen }) => {
        const balance = await client.call('getCustomerBalance')
        screen.show(balance, () =>
          fields(screen, [
            ['Balance', { text: money(balance.balanceUsd), style: 'bold' }],
            ['Available', `${money(balance.availableUsd)}, for new rentals`],
            ['On hold', `${money(balance.heldUsd)}, for what runs and for reserved terms`],
            ...creditFacts(balance),
            ['Spending', isZero(balance.hourlySpendUsd) ? 'nothing runs' : hourlyPrice(balance.hourlySpendUsd)],
            [
              'Empty',
              balance.emptyAt === null
                ? undefined
                : `${utcTime(balance.emptyAt)} (${relativeTime(balance.emptyAt, systemClock.now())})`,
            ],
            ['Earnings', isZero(balance.earningsUsd) ? undefined : `${money(balance.earningsUsd)}, not yet paid out`],
          ]),
        )
      }),
    )
}

/** Nothing where the account has none. */
export function creditFacts(account: Parameters<typeof creditWords>[0]): Array<readonly [string, string]> {
  const words = creditWords(account)
  return words === undefined ? [] : [['Credit line', words]]
}

/** undefined: the account has none. */
export function creditWords(account: {
  readonly creditLineUsd: string
  readonly creditUsedUsd: string
}): string | undefined {
  if (isZero(account.creditLineUsd) && isZero(account.creditUsedUsd)) return undefined
  return `${money(account.creditLineUsd)} for reserved terms, ${money(account.creditUsedUsd)} used`
}

/** The balance in one line. */
export function balanceWords(balance: Reply<'getCustomerBalance'>, now: Instant): string {
  const left = money(balance.balanceUsd)
  if (isZero(balance.hourlySpendUsd)) return `${left}; nothing runs`
  const end = balance.emptyAt === null ? '' : `, empty ${relativeTime(balance.emptyAt, now)}`
  return `${left}; ${hourlyPrice(balance.hourlySpendUsd)}${end}`
}

function isZero(usd: string): boolean {
  return parseUsd(usd) === 0n
}
