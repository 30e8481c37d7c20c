/** `berth operator rentals ls`, `volumes`, `log`, `traffic` and `summary`: what happens across all accounts. */
import { systemClock } from '../../base/instant.ts'
import { formatUsdForPeople, sumUsd, usd } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import type { Model } from '../../view/model.ts'
import { money } from '../../view/money.ts'
import { count, number } from '../../view/number.ts'
import { age, utcTime } from '../../view/time.ts'
import { stateTone } from '../../view/tone.ts'
import { detailContent, recordContent, type AuditRecord } from './audit-record.ts'
import { readList } from '../kit/page.ts'
import { tableOf } from '../kit/record.ts'
import { custom, list, show } from '../kit/row.ts'
import { red, toned, type Cell, type Content } from '../kit/screen.ts'
import { describeStuck, readStuck } from './stuck-rental.ts'
import type { Row } from '../kit/row-type.ts'

type Rental = Reply<'listAllRentals'>['rentals'][number]
type Volume = Reply<'listAllVolumes'>['volumes'][number]
type Traffic = Reply<'getTraffic'>

const ACCOUNT = { accountId: 'only this account' }

const rentalsRow = list<'listAllRentals', undefined, { stuck?: true }>(
  'operator rentals ls',
  'listAllRentals',
  'list rentals of all accounts, newest first',
  {
    rowsShown: 20,
    flags: { stuck: 'only stuck rentals, with what to do about them', status: 'only this status', ...ACCOUNT },
    empty: ({ options }) => (options.stuck === true ? ['No rental is stuck.'] : undefined),
    columns: [
      'id',
      'name',
      'accountName:ACCOUNT',
      'kind',
      {
        STATUS: ({ status, stuckSince }) => toned(stuckSince === null ? stateTone(status) : 'bad', status),
        FOR: ({ statusSince }) => age(statusSince, systemClock.now()),
        REASON: ({ statusReason, lastError }) => statusReason?.replaceAll('_', ' ') ?? lastError,
      },
    ],
    wide: [
      'accountId',
      'gpuCount:GPUS',
      'region',
      'statusSince:SINCE',
      'stuckSince',
      'driver:ENGINE',
      'attempts',
      'externalId:ENGINE ID',
      'lastError',
      'lastErrorAt:AT',
    ],
    below: (rentals, { options }) => {
      const stuck = rentals.filter(({ stuckSince }) => stuckSince !== null)
      if (stuck.length === 0) return []
      if (options.stuck !== true) return [`${stuck.length} stuck: berth operator rentals ls --stuck`]
      return [
        '',
        ...stuck.flatMap(stuckDetail),
        '',
        'The engine was asked to delete each of these and still has it. Berth keeps',
        'asking, and nobody is charged. To compare with the engine: berth audit.',
        'Delete by hand what remains there.',
      ]
    },
    examples: [
      'berth operator rentals ls --stuck',
      'berth operator rentals ls --account acc_ID --status Running --wide',
    ],
  },
)

function stuckDetail({ id, driver, externalId, attempts, lastError, lastErrorAt }: Rental): Content[] {
  return [
    `Rental ${id}: ${driver} ${externalId ?? 'with unknown id'}, ${count(attempts, 'attempt')}`,
    lastError === null ? undefined : `  Last error, at ${utcTime(lastErrorAt)}: ${lastError}`,
  ]
}

const volumesRow = list(
  'operator volumes ls',
  'listAllVolumes',
  'list volumes of all accounts, and their last errors',
  {
    rowsShown: 20,
    flags: { state: 'only this state', failing: 'only volumes whose last engine call failed', ...ACCOUNT },
    columns: [
      'id',
      'label',
      'accountName:ACCOUNT',
      'sizeGb:GB',
      'state',
      { FOR: ({ stateSince }) => age(stateSince, systemClock.now()) },
      'driver:ENGINE',
      { 'LAST ERROR': lastErrorOf },
    ],
    examples: ['berth operator volumes ls --failing', 'berth operator volumes ls --state unknown'],
  },
)

/** The error of the volume, otherwise of its first failing attachment. */
function lastErrorOf({ lastError, attachments }: Volume): string | undefined {
  if (lastError !== null) return lastError
  const failing = attachments.find((one) => one.lastError !== null)
  return failing === undefined ? undefined : `${failing.state} rental ${failing.rentalId}: ${failing.lastError}`
}

const logRow = custom<{ details?: true; account?: string }>('operator log', 'list the audit log, newest first', {
  operation: 'listAudit',
  only: ['accountId'],
  flags: ACCOUNT,
  rowsShown: 20,
  isPaged: true,
  options: { '--details': 'show the recorded values' },
  examples: ['berth operator log', 'berth operator log --account acc_ID --details'],
  run: async (call) => {
    const { screen, options } = call
    const page = await readList<AuditRecord>(call, 'listAudit')
    screen.show(page.onWire, () => {
      if (page.rows.length === 0) return [options.account === undefined ? 'No older entries.' : 'No entries match.']
      return [
        ...page.rows.flatMap((record) => [
          ...recordContent(record, options.account === undefined),
          ...(options.details === true ? detailContent(record) : []),
        ]),
        '',
        page.next ?? count(page.rows.length, 'entry'),
      ]
    })
  },
})

const trafficRow = show<'getTraffic', { by: 'model' | 'minute' }>(
  'operator traffic',
  'getTraffic',
  'show live inference traffic across all accounts',
  {
    flags: { minutes: 'minutes to look back' },
    options: { '--by <group>': { help: 'group by', choices: ['model', 'minute'], default: 'model' } },
    examples: ['berth operator traffic --watch', 'berth operator traffic --by minute --minutes 15'],
    content: async (traffic, { client, options }) => {
      const [{ models }, stuck] = await Promise.all([client.call('listOperatedModels'), readStuck(client)])
      return [
        ...describeTotals(traffic),
        '',
        ...(options.by === 'model' ? describeModels(traffic, models) : describeMinutes(traffic)),
        ...describeStuck(stuck),
      ]
    },
  },
)

const summaryRow = show<'getOperatorSummary'>(
  'operator summary',
  'getOperatorSummary',
  'show rentals, GPUs, hosts and money of the whole installation',
  {
    content: ({ rentals, gpus, hosts, money: sums }) => [
      [
        'Rentals',
        `${number(rentals.running)} running, ${number(rentals.starting)} starting, ${number(rentals.failed)} failed`,
      ],
      ['Stuck', rentals.stuck === 0 ? '0' : red(`${number(rentals.stuck)}: berth operator rentals ls --stuck`)],
      ['GPUs', `${number(gpus.rented)} of ${number(gpus.total)} rented, ${number(gpus.faulty)} faulty`],
      ['Hosts', `${number(hosts.total)}, ${number(hosts.offline)} offline, ${number(hosts.quarantined)} quarantined`],
      ['Balances', `${money(sums.balancesUsd)} after charges so far, ${money(sums.heldUsd)} of it on hold`],
      ['Charged', `${money(sums.chargedTodayUsd)} today, ${money(sums.chargedThisMonthUsd)} this month (UTC)`],
      ['Paid in', `${money(sums.paidInTodayUsd)} today`],
      ['Owed', `${money(sums.unpaidEarningsUsd)} to suppliers`],
    ],
  },
)

function describeTotals({ minutes }: Traffic): Content[] {
  const sum = (of: (minute: Traffic['minutes'][number]) => number): number =>
    minutes.reduce((total, minute) => total + of(minute), 0)
  const [requests, failed] = [sum((minute) => minute.requests), sum((minute) => minute.failed)]
  const [input, output] = [sum((minute) => minute.inputTokens), sum((minute) => minute.outputTokens)]
  return [
    ['Requests', `${number(requests)} in the last ${count(minutes.length, 'minute')}`],
    ['Failed', requests === 0 ? '0' : `${number(failed)} (${((100 * failed) / requests).toFixed(1)}%)`],
    ['Tokens', `${number(input + output)}: ${number(input)} in, ${number(output)} out`],
    ['Revenue', formatUsdForPeople(sumUsd(minutes.map(({ costUsd }) => usd(costUsd))))],
  ]
}

interface ModelTraffic {
  readonly name: string
  readonly traffic?: Traffic['models'][number]
  readonly model: Model | undefined
}

/** Models by traffic, in the order of the server, then models without requests. */
function describeModels({ models: called }: Traffic, models: readonly Model[]): Content[] {
  const onSale = new Map(models.map((model) => [model.name, model]))
  const names = new Set(called.map(({ model }) => model))
  const all: ModelTraffic[] = [
    ...called.map((traffic) => ({ name: traffic.model, traffic, model: onSale.get(traffic.model) })),
    ...models.filter(({ name }) => !names.has(name)).map((model) => ({ name: model.name, model })),
  ]
  if (all.length === 0) return ['No models are on sale.', 'To add one: berth models create --help']
  return [
    tableOf(all, [
      'name:MODEL',
      {
        REQUESTS: ({ traffic }) => number(traffic?.requests ?? 0),
        FAILED: ({ traffic }) => failedCell(traffic?.failed ?? 0),
        BUSY: ({ model }) => busyOf(model),
        'FIRST BYTE': ({ traffic }) => quantilesOf(traffic?.firstByteMs),
        TOTAL: ({ traffic }) => quantilesOf(traffic?.totalMs),
        REVENUE: ({ traffic }) => (traffic === undefined ? '' : money(traffic.costUsd)),
      },
    ]),
    '',
    'BUSY: requests in flight, +queued, on deployments only.',
    'FIRST BYTE and TOTAL: median and 95th percentile.',
  ]
}

function failedCell(failed: number): Cell {
  return failed === 0 ? '0' : red(number(failed))
}

/** Empty: no deployment reports its load. */
function busyOf(model: Model | undefined): string {
  const reported = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : [health]))
  if (reported.length === 0) return ''
  const inFlight = reported.reduce((sum, health) => sum + health.inFlight, 0)
  const queued = reported.reduce((sum, health) => sum + (health.queued ?? 0), 0)
  return queued === 0 ? number(inFlight) : `${number(inFlight)} +${number(queued)}`
}

/** Shows both quantiles in one unit: `13/26 ms`, `0.9/3.4 s`. */
function quantilesOf(value: Traffic['models'][number]['totalMs'] | undefined): string {
  if (value === null || value === undefined) return ''
  const { p50, p95 } = value
  return p95 < 1_000
    ? `${Math.round(p50)}/${Math.round(p95)} ms`
    : `${(p50 / 1_000).toFixed(1)}/${(p95 / 1_000).toFixed(1)} s`
}

function describeMinutes({ minutes }: Traffic): Content[] {
  const busy = minutes.filter(({ requests }) => requests > 0)
  if (busy.length === 0) return ['No requests in this time.']
  return [
    tableOf(busy, [
      'at:MINUTE',
      'requests',
      { FAILED: ({ failed }) => failedCell(failed) },
      'inputTokens:TOKENS IN',
      'outputTokens:TOKENS OUT',
      'costUsd:REVENUE',
    ]),
    '',
    'Minutes without requests are left out.',
  ]
}

export const rows: readonly Row[] = [rentalsRow, volumesRow, logRow, trafficRow, summaryRow]
