/** `berth budgets`: monthly budgets, their alerts and what happens when one is used up. */
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { act, list } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

type Budget = Reply<'listBudgets'>['budgets'][number]

const ADD_EXAMPLE = 'berth budgets create Research --monthly 500 --action block'

const budget = targetOf('budget', 'berth budgets ls', {
  read: async (client) => (await client.call('listBudgets')).budgets,
  id: 'id',
  name: 'name',
})

const ALERTS = '--alert <percent...>  alert at these percentages'
const ACTION =
  '--action <action>  at 100%: only alert, block new orders, stop rentals, or also terminate those that cannot stop'
const MONTHLY = '--monthly <usd>  amount per month'

export const rows: readonly Row[] = [
  list('budgets ls', 'listBudgets', 'list budgets with what is spent this month', {
    columns: [
      'name',
      { FOR: scopeOf, SPENT: ({ spentUsd, spentPercent }) => `${money(spentUsd)} (${spentPercent}%)` },
      'monthlyUsd:MONTHLY',
      'action',
      {
        STATE: (one) =>
          one.blocks ? toned('bad', 'blocking') : one.exceededAt === null ? '' : toned('warn', 'exceeded'),
      },
    ],
    wide: ['id', 'alertsPercent:ALERTS', 'exceededAt'],
    empty: `To add one: ${ADD_EXAMPLE}`,
  }),
  act('budgets create', 'createBudget', 'create a monthly budget', {
    args: { '<name>': 'name' },
    flags: {
      monthlyUsd: MONTHLY,
      alertsPercent: ALERTS,
      action: ACTION,
      scope: '--for <scope>  the whole account, one API key, or a label',
      scopeValue: '--value <text>  public ID of the key, or the label',
    },
    examples: [ADD_EXAMPLE, 'berth budgets create Training --for label --value training --monthly 200'],
    done: (row) => `Created ${row.name}: ${money(row.monthlyUsd)} per month, ${money(row.spentUsd)} spent so far.`,
  }),
  act('budgets set', 'changeBudget', 'change a budget; raising it above what is spent lifts the block', {
    target: budget,
    flags: { name: '--name <text>  new name', monthlyUsd: MONTHLY, alertsPercent: ALERTS, action: ACTION },
    examples: ['berth budgets set Research --monthly 800'],
    done: (changed) =>
      `${changed.name}: ${money(changed.spentUsd)} of ${money(changed.monthlyUsd)} spent${changed.blocks ? '; new orders are rejected' : ''}.`,
  }),
  act('budgets rm', 'deleteBudget', 'delete a budget and lift its block', {
    target: budget,
    examples: ['berth budgets rm Research'],
    onWire: (_, { target: { id, name } }) => ({ id, name, deleted: true }),
    done: (_, { target }) => `Deleted ${target.name}.`,
  }),
]

function scopeOf({ scope, scopeValue }: Budget): string {
  return scope === 'account' ? 'account' : `${scope} ${scopeValue ?? ''}`
}
