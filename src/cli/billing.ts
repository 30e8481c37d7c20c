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
    .description('what is left, and how long it lasts')
    .action(
      run('customer', async ({ client, screen }) => {
        const balance = await client.call('getCustomerBalance')
        screen.show(balance, () =>
          fields(screen, [
            ['Balance', { text: money(balance.balanceUsd), style: 'bold' }],
            ['Available', `${money(balance.availableUsd)}, for new rentals`],
            ['Held', `${money(balance.heldUsd)}, set aside for what runs`],
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
