/** `berth supply payouts`: payouts, what matures, and where they go. */
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { payoutBlockTexts, payoutDetail, payoutLabel } from '../../view/payout.ts'
import { utcTime } from '../../view/time.ts'
import { factsOf, tableOf, type Columns } from '../kit/record.ts'
import { custom, show } from '../kit/row.ts'
import { toned, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

type Payouts = Reply<'listPayouts'>

interface SetupOptions {
  readonly stripe?: true
  readonly country?: string
}

const SETUP_EXAMPLE = 'berth supply payouts setup --holder Racks --iban DE89370400440532013000'
const STRIPE_EXAMPLE = 'berth supply payouts setup --stripe --country DE'

const facts: Columns<Payouts> = [
  {
    Unpaid: ({ unpaidUsd }) => money(unpaidUsd),
    Payable: ({ payableUsd, minimumUsd }) => `${money(payableUsd)}; payouts begin at ${money(minimumUsd)}`,
    Maturing: ({ maturingUsd, holdbackDays }) => `${money(maturingUsd)}, payable ${holdbackDays} days after its charge`,
    'Next run': ({ nextRunAt }) => (nextRunAt === null ? 'when the operator starts one' : utcTime(nextRunAt)),
    'Paid to': paidTo,
    Waits: ({ blockedBy }) => blockedBy && toned('warn', payoutBlockTexts[blockedBy]),
  },
]

function paidTo({ details }: Payouts): string {
  if (details === null) return `not set up: ${SETUP_EXAMPLE}`
  const { to, confirmed, usableAt } = details
  return `${to}, ${confirmed ? `usable from ${utcTime(usableAt)}` : 'not confirmed by Stripe yet'}`
}

const columns: Columns<Payouts['payouts'][number]> = [
  'id',
  {
    STATE: (payout) => {
      const [label, tone] = payoutLabel(payout)
      return toned(tone, label.toLowerCase())
    },
    AMOUNT: ({ amountUsd }) => money(amountUsd),
    TO: ({ to }) => to,
    DETAIL: (payout) => payoutDetail(payout),
  },
  'createdAt',
]

function describe(payouts: Payouts): Content[] {
  return [
    ...factsOf(payouts, facts),
    '',
    payouts.payouts.length === 0 ? 'There are no payouts yet.' : tableOf(payouts.payouts, columns),
  ]
}

export const payoutRows: readonly Row[] = [
  show('supply payouts ls', 'listPayouts', 'list payouts, what matures, and where they go', {
    examples: ['berth supply payouts ls'],
    content: describe,
  }),
  custom<SetupOptions>('supply payouts setup', 'say where your earnings are paid', {
    operation: 'setPayoutBank',
    isOptional: ['holder'],
    flags: {
      holder: '--holder <name>  account holder, as the bank knows it',
      iban: '--iban <iban>  IBAN of your bank account',
      bic: '--bic <code>  BIC of the bank, outside of Europe',
      accountNumber: '--account-number <number>  account number in the US',
      routingNumber: '--routing-number <number>  routing number of the bank in the US',
    },
    options: {
      '--stripe': 'be paid through Stripe: prints a page to enter your details on',
      '--country <code>': 'your country for Stripe, such as DE',
    },
    notes: `All owners of the account are told by e-mail, and nothing is paid to new details
for 72 hours.`,
    examples: [SETUP_EXAMPLE, STRIPE_EXAMPLE],
    run: async ({ client, screen, options, input }) => {
      const bank = input.parts.body as { holder?: string } | undefined
      if (options.stripe === true) {
        const body = options.country === undefined ? {} : { country: options.country.toUpperCase() }
        const page = await client.call('openPayoutPage', { body })
        return screen.show(page, () => ['Open this page within a few minutes, and give it to nobody.', page.url])
      }
      const { holder } = bank ?? {}
      if (holder === undefined)
        throw new CliError(exitCodes.usage, 'Give a bank account, or --stripe.', [
          `Example: ${SETUP_EXAMPLE}`,
          `Example: ${STRIPE_EXAMPLE}`,
        ])
      const saved = await client.call('setPayoutBank', { body: { ...bank, holder } })
      screen.show(saved, () => describe(saved))
    },
  }),
]
