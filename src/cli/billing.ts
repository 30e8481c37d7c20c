/** `berth balance`. */
import type { Command } from 'commander'
import { systemClock, type Instant } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { fields } from './screen.ts'
import type { Run } from './session.ts'
import { money, time, until } from './wording.ts'

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
            ['Spending', isZero(balance.hourlySpendUsd) ? 'nothing runs' : `${money(balance.hourlySpendUsd)} an hour`],
            [
              'Empty',
              balance.emptyAt === null
                ? undefined
                : `${time(balance.emptyAt)} (${until(balance.emptyAt, systemClock.now())})`,
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
  const end = balance.emptyAt === null ? '' : `, empty ${until(balance.emptyAt, now)}`
  return `${left}; ${money(balance.hourlySpendUsd)} an hour${end}`
}

function isZero(usd: string): boolean {
  return parseUsd(usd) === 0n
}
