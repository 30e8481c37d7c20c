/** `berth operator providers`: accounts at other clouds, their offers, costs and margins. */
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { checkLabels, priceRule, providerStateLabels, saleLabel } from '../../view/provider.ts'
import type { Tone } from '../../view/tone.ts'
import { parseJson } from '../kit/json-file.ts'
import { smokeRow } from './provider-smoke.ts'
import { tableOf } from '../kit/record.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import { providerBillRows } from './operator-provider-bill.ts'
import type { Call, Row } from '../kit/row-type.ts'
import { red, toned, type Cell } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

/** A cloud may demand pauses between requests. */
const CALL_MS = 70_000

const nameArg = { '<name>': 'name, as shown by berth operator providers ls' }
const CREDENTIALS = 'file with the credentials, or - for standard input'
const credentialsFrom = { '--credentials <file>': { help: CREDENTIALS, required: true as const } }
const ruleFlags = {
  markupPercentage: 'selling price: cost plus this percentage',
  floorPerGpuHourUsd: 'lowest selling price by markup, per GPU-hour',
  fixedPerGpuHourUsd: 'selling price per GPU-hour, instead of cost and markup',
  monthlyCapUsd: 'take no new orders once the costs of a month reach this amount',
  preference: 'placement prefers a higher one before the price (-100 to 100)',
}
const ruleFields = Object.keys(ruleFlags)

const labelled = ([label, tone]: readonly [label: string, tone: Tone]): Cell => toned(tone, label)

export const providerRows: readonly Row[] = [
  show('operator providers ls', 'listProviders', 'list accounts at other clouds, their health and their costs', {
    content: ({ providers, kinds }) => [
      tableOf(providers, [
        'name',
        { CLOUD: ({ title }) => title, STATUS: ({ state }) => labelled(providerStateLabels[state]) },
        'rentals',
        { 'COST THIS MONTH': ({ costThisMonthUsd }) => money(costThisMonthUsd), PRICE: priceRule },
      ]),
      '',
      ...providers.flatMap(({ name, state, stateReason }) =>
        stateReason === null || state === 'healthy' ? [] : [`${name}: ${stateReason}`],
      ),
      providers.length === 0
        ? 'To add one: berth operator providers create CLOUD NAME --credentials FILE'
        : `${count(providers.length, 'account')}.`,
      ...kinds.map(
        ({ provider, credentials }) => `${provider} needs ${credentials.map(({ name }) => name).join(', ')}.`,
      ),
    ],
    examples: ['berth operator providers ls'],
  }),
  act('operator providers create', 'addProvider', 'add an account at another cloud', {
    args: { '<provider>': 'cloud, as shown by berth operator providers ls', '<name>': 'your own name for it' },
    options: credentialsFrom,
    only: ['baseUrl', ...ruleFields],
    flags: { baseUrl: 'address of its API, if not the usual one', ...ruleFlags },
    prepare: async (call) => withBody(call.input, { credentials: await readCredentials(call, String(call.args[0])) }),
    notes:
      'The file is a JSON object with the credentials of the cloud. A cloud with only\none takes the bare text too.',
    examples: ['berth operator providers create lambda main --credentials key.txt --markup 20'],
    done: ({ name }) => [`Added ${name}.`, `To check it: berth operator providers check ${name}`],
  }),
  act('operator providers set', 'changeProvider', 'change prices, cap or preference', {
    args: nameArg,
    only: [...ruleFields, 'sellsBelowCost'],
    flags: {
      ...ruleFlags,
      sellsBelowCost: 'allow prices below cost',
    },
    examples: ['berth operator providers set main --markup 25 --monthly-cap 5000'],
    done: ({ name }) => `Changed ${name}.`,
  }),
  act('operator providers suspend', 'changeProvider', 'take no new orders at an account; its rentals go on', {
    args: nameArg,
    only: [],
    fixed: { suspended: true },
    done: ({ name }) => `Suspended ${name}.`,
  }),
  act('operator providers resume', 'changeProvider', 'take orders at a suspended account again', {
    args: nameArg,
    only: [],
    fixed: { suspended: false },
    done: ({ name }) => `Resumed ${name}.`,
  }),
  act('operator providers rotate', 'rotateProvider', 'replace the credentials of an account', {
    args: nameArg,
    options: credentialsFrom,
    only: [],
    prepare: async (call) => {
      const { providers } = await call.client.call('listProviders')
      const kind = providers.find(({ name }) => name === call.args[0])?.provider ?? ''
      return withBody(call.input, { credentials: await readCredentials(call, kind) })
    },
    examples: ['berth operator providers rotate main --credentials key.txt'],
    done: ({ name }) => [`Replaced the credentials of ${name}.`, `To check it: berth operator providers check ${name}`],
  }),
  act('operator providers check', 'checkProvider', 'check an account with calls that change nothing', {
    args: nameArg,
    timeoutMs: CALL_MS,
    isWrong: ({ ok }) => !ok,
    examples: ['berth operator providers check main'],
    done: ({ checks }) => [
      tableOf(checks, ['check', { RESULT: ({ result }) => labelled(checkLabels[result]) }, 'detail']),
    ],
  }),
  smokeRow,
  list('operator providers resources', 'listProviderResources', 'list machines, keys, addresses and disks at a cloud', {
    args: nameArg,
    columns: [
      'what',
      'id',
      {
        STATUS: ({ state }) => state ?? '',
        RENTAL: ({ rentalId }) => (rentalId === null ? red('unknown') : String(rentalId)),
      },
    ],
    flags: { rentalId: 'only those of this rental' },
    empty: 'Nothing of this installation exists there.',
    examples: ['berth operator providers resources main'],
  }),
  list('operator providers offers', 'listProviderOffers', 'list what a cloud offers now, sold here or not', {
    args: nameArg,
    columns: [
      'type',
      { REGION: ({ providerRegion, region }) => (region === null ? providerRegion : `${providerRegion} (${region})`) },
      'gpu:GPU',
      { GPUS: ({ gpuCount }) => String(gpuCount), 'COST/HR': ({ costPerHourUsd }) => money(costPerHourUsd) },
      {
        'PRICE/HR': ({ sale }) => (sale?.pricePerHourUsd ? money(sale.pricePerHourUsd) : ''),
        FREE: ({ sale }) => (sale === null ? '' : String(sale.free)),
        RENTED: ({ sale }) => (sale === null ? '' : String(sale.rented)),
        STATUS: (offer) => labelled(saleLabel(offer)),
      },
    ],
    examples: ['berth operator providers offers main'],
  }),
  list('operator providers margin', 'listMargins', 'list revenue, cost and margin of rentals at other clouds', {
    flags: {
      by: 'one line per provider, rental or day',
      from: 'first day (UTC)',
      to: 'last day (UTC)',
      name: 'only this account',
    },
    columns: [
      'subject',
      {
        REVENUE: ({ revenueUsd }) => money(revenueUsd),
        COST: ({ costUsd }) => money(costUsd),
        MARGIN: ({ marginUsd }) => (marginUsd.startsWith('-') ? red(money(marginUsd)) : money(marginUsd)),
      },
    ],
    examples: ['berth operator providers margin --by day'],
  }),
  ...providerBillRows,
  act(
    'operator providers rm',
    'removeProvider',
    'remove an account without rentals, and delete its credentials; asks first',
    {
      args: nameArg,
      confirm: ({ args }) => `Remove the account ${String(args[0])} and delete its credentials?`,
      done: ({ name }) => `Removed ${name}.`,
    },
  ),
]

/**
 * Reads a JSON object, or bare text if the cloud has only one credential. Credentials are never an argument, because
 * other users of the machine can see arguments.
 */
async function readCredentials(call: Call, provider: string): Promise<Record<string, unknown>> {
  const { shell, client } = call
  const file = (call.options as { credentials: string }).credentials
  const text = (file === '-' ? shell.readInput() : shell.readFile(file))?.trim() ?? ''
  if (text === '') throw new CliError(exitCodes.usage, `${file} is missing or empty: nothing was changed.`)
  const json = parseJson(text)
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>
  const { kinds } = await client.call('listProviders')
  const [only, ...others] = kinds.find((kind) => kind.provider === provider)?.credentials ?? []
  if (only === undefined || others.length > 0)
    throw new CliError(exitCodes.usage, `${file} does not hold a JSON object with the credentials of ${provider}.`)
  return { [only.name]: text }
}
