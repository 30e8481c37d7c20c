/** `berth billing auto` and `berth billing cards`: automatic top-ups and the cards that they charge. */
import { systemClock } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { cardText, consentText } from '../../domain/auto-top-up-terms.ts'
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { autoTopUpOffTexts } from '../../view/payment.ts'
import { relativeTime, utcTime } from '../../view/time.ts'
import { confirm } from '../kit/question.ts'
import { factsOf, type Columns } from '../kit/record.ts'
import { act, custom, list } from '../kit/row.ts'
import { toned, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

type AutoTopUp = Reply<'getAutoTopUp'>
type Terms = { readonly [Name in 'belowUsd' | 'amountUsd' | 'monthlyCapUsd' | 'cardId']?: string }

const SET_EXAMPLE = 'berth billing auto --below 20 --add 100 --cap 500'
const SAVE_CARD = 'To save a card: berth billing add 100 --save-card'
const required = { belowUsd: '--below', amountUsd: '--add', monthlyCapUsd: '--cap' } as const

export const autoTopUpRows: readonly Row[] = [
  custom('billing auto', 'show the automatic top-up, or turn it on', {
    operation: 'setAutoTopUp',
    only: ['belowUsd', 'amountUsd', 'monthlyCapUsd', 'cardId'],
    isOptional: ['belowUsd', 'amountUsd', 'monthlyCapUsd'],
    flags: {
      belowUsd: '--below <usd>  charge when less is available',
      amountUsd: '--add <usd>  credit of one charge; tax comes on top',
      monthlyCapUsd: '--cap <usd>  the most per month, tax included',
      cardId: '--card <id>  the card to charge (default: the one saved last)',
    },
    confirms: true,
    examples: [SET_EXAMPLE, 'berth billing auto'],
    run: async (call) => {
      const { client, screen } = call
      const terms = (call.input.parts.body ?? {}) as Terms
      const missing = Object.entries(required).filter(([name]) => terms[name as keyof Terms] === undefined)
      if (missing.length === Object.keys(required).length && terms.cardId === undefined) {
        const current = await client.call('getAutoTopUp')
        return screen.show(current, () => describe(current))
      }
      if (missing.length > 0) {
        const flags = missing.map(([, flag]) => flag).join(', ')
        throw new CliError(exitCodes.usage, `Missing: ${flags}.`, [`Example: ${SET_EXAMPLE}`])
      }
      const changed = await turnOn(call, terms as Required<Terms>)
      screen.show(changed, () => describe(changed))
    },
  }),
  act('billing auto off', 'turnOffAutoTopUp', 'turn the automatic top-up off', {
    examples: ['berth billing auto off'],
    done: () => 'Automatic top-up is off.',
  }),
  list('billing cards ls', 'listSavedCards', 'list saved cards, the newest first', {
    noun: 'card',
    columns: ['id', { CARD: cardText, EXPIRES: ({ expMonth, expYear }) => `${expMonth}/${expYear}` }, 'savedAt:SAVED'],
    empty: SAVE_CARD,
  }),
  act('billing cards rm', 'removeSavedCard', 'remove a saved card', {
    args: { '<id>': 'id of the card' },
    examples: ['berth billing cards rm pm_ID'],
    done: (_, { args }) => `Removed ${String(args[0])}.`,
  }),
  act('billing cards manage', 'openCardPortal', 'open the page for cards and billing details', {
    done: ({ url }) => ['Open this page within a few minutes. Whoever has it can change your cards.', url],
  }),
]

/** The agreement is printed with the question, and recorded with the answer. */
async function turnOn(call: Call, terms: Required<Terms>): Promise<AutoTopUp> {
  const { client } = call
  const { cards } = await client.call('listSavedCards')
  const card = terms.cardId === undefined ? cards[0] : cards.find(({ id }) => id === terms.cardId)
  if (card === undefined) throw new CliError(exitCodes.failed, 'There is no such saved card.', [SAVE_CARD])
  const agreement = consentText(
    { below: usd(terms.belowUsd), amount: usd(terms.amountUsd), cap: usd(terms.monthlyCapUsd) },
    cardText(card),
  )
  await confirm(call, 'Do you agree?', [agreement])
  return client.call('setAutoTopUp', { body: { ...terms, cardId: card.id, consent: true } })
}

const facts: Columns<AutoTopUp> = [
  {
    'Automatic top-up': stateOf,
    'When below': ({ belowUsd }) => belowUsd && money(belowUsd),
    Adds: ({ amountUsd }) => amountUsd && `${money(amountUsd)} plus tax`,
    'Monthly cap': ({ monthlyCapUsd, chargedThisMonthUsd }) =>
      monthlyCapUsd && `${money(monthlyCapUsd)}, ${money(chargedThisMonthUsd)} charged this month`,
    Card: ({ card }) => card && cardText(card),
    'Last attempt': ({ lastAttemptAt }) => lastAttemptAt && relativeTime(lastAttemptAt, systemClock.now()),
    Agreed: ({ consent }) => consent && `${utcTime(consent.at)}: ${consent.text}`,
  },
]

function describe(current: AutoTopUp): Content[] {
  return current.belowUsd === null
    ? ['Automatic top-up is off.', `To turn it on: ${SET_EXAMPLE}`]
    : [...factsOf(current, facts)]
}

function stateOf({ enabled, offReason, pausedUntil, failures }: AutoTopUp) {
  if (!enabled) return toned('warn', offReason === null ? 'off' : `off: ${autoTopUpOffTexts[offReason]}`)
  if (pausedUntil !== null && Date.parse(pausedUntil) > systemClock.now())
    return toned('warn', `on; the cap is reached until ${utcTime(pausedUntil)}`)
  return failures === 0 ? 'on' : toned('warn', `on; ${failures} of 3 failures`)
}
