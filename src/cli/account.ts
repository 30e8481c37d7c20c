/** `berth account`: whose account it is, how it stands, and what it has chosen for itself. */
import { Argument, type Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { utcTime } from '../view/time.ts'
import { fields, type Screen } from './screen.ts'
import type { Run } from './session.ts'

const DATE_CHARS = 10
const KEPT = 'of requests to models and of answers are kept, sealed, for seven days'
const NOT_KEPT = 'are not kept: of requests to models only counts, times and costs are'

export function addAccountCommands(program: Command, run: Run): void {
  const account = program
    .command('account')
    .description('the account, how it stands, what it has chosen')
    .usage('[options] [keep-bodies]')
    .commandsGroup('Customers:')
    .action(
      run('customer', async ({ client, screen }) => {
        const me = await client.call('getMe')
        screen.show(me, () => accountLines(screen, me))
      }),
    )
  addKeepBodies(account, run)
}

function accountLines(screen: Screen, { account, email, role, key }: Reply<'getMe'>): string[] {
  return [
    ...fields(screen, [
      ['Account', { text: account.name, style: 'bold' }],
      ['Id', `${account.id}, which the operator needs to add money`],
      ['Standing', account.suspended ? { text: 'suspended; ask the operator', style: 'red' } : 'good'],
      ['Supplier', account.supplier ? 'yes: machines of yours can join' : undefined],
      ['Since', utcTime(account.createdAt).slice(0, DATE_CHARS)],
      ['You', `${email}, ${role}`],
      ['Key', `${key.publicId} "${key.name}"`],
      ['Texts', account.keepsBodies ? KEPT : NOT_KEPT],
    ]),
    '',
    account.keepsBodies
      ? 'To keep texts no longer: berth account keep-bodies off'
      : 'To keep texts: berth account keep-bodies on',
  ]
}

function addKeepBodies(account: Command, run: Run): void {
  account
    .command('keep-bodies')
    .description('keep the texts of requests to models, or not')
    .addArgument(new Argument('<on|off>', 'from now on; owners only').choices(['on', 'off']))
    .addHelpText(
      'after',
      `
With on, what models are asked and what they answer can be read for seven days
with berth requests show. It is stored sealed, for keys of this account only.
With off, only counts, times and costs are kept.`,
    )
    .action(
      run('customer', async ({ client, screen }, choice = '') => {
        const changed = await client.call('changeAccountSettings', { body: { keepsBodies: choice === 'on' } })
        screen.show(changed, () =>
          changed.keepsBodies
            ? [
                'What models are asked and answer is kept from now on: sealed, for seven days.',
                'Read it with: berth requests show ID',
              ]
            : [
                'Texts are no longer kept: only counts, times and costs are.',
                'Those that were kept until now can be read until they are seven days old.',
              ],
        )
      }),
    )
}
