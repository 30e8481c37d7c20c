/** `berth operator rentals`, `volumes`, `log` and `traffic`: what happens across all accounts. */
import { money } from '../view/money.ts'
import { count, number } from '../view/number.ts'
import { age, utcTime } from '../view/time.ts'
import { systemClock } from '../base/instant.ts'
import { formatUsdForPeople, sumUsd, usd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { detailLines, recordLines } from './audit-record.ts'
import type { Model } from '../view/model.ts'
import { shortRentalKinds } from '../view/rental.ts'
import { readList } from './page.ts'
import { custom, list, show } from './row.ts'
import { fields, printable, table, type Cell, type Screen, type Style } from './screen.ts'
import { readStuck, stuckLines } from './stuck-rental.ts'
import type { Row } from './row-type.ts'

type Rental = Reply<'listAllRentals'>['rentals'][number]
type Volume = Reply<'listAllVolumes'>['volumes'][number]
type AuditRecord = Reply<'listAudit'>['records'][number]
type Traffic = Reply<'getTraffic'>

const ACCOUNT = { accountId: { help: 'only this account' } }

const rentalStyles = {
  Failed: 'red',
  Pending: 'yellow',
  Running: 'green',
  Terminating: 'yellow',
  Terminated: 'dim',
  Unknown: 'red',
} as const satisfies Record<Rental['status'], Style>

const rentalsRow = list<'listAllRentals', 'rentals', undefined, { stuck?: true }>({
  command: 'operator rentals',
  operation: 'listAllRentals',
  rows: 'rentals',
  rowsShown: 20,
  description: 'list rentals of all accounts, newest first',
  flags: {
    stuck: { help: 'only stuck rentals, with what to do about them' },
    status: { help: 'only this status' },
    ...ACCOUNT,
  },
  noun: 'rental',
  empty: ({ options, input }) => {
    if (options.stuck === true) return ['No rental is stuck.']
    return Object.keys(input.parts.query ?? {}).length === 0 ? ['There are no rentals yet.'] : ['No rentals match.']
  },
  columns: [
    { title: 'ID', right: true, of: (rental) => String(rental.id) },
    { title: 'NAME', of: (rental) => rental.name },
    { title: 'ACCOUNT', shrink: true, of: (rental) => rental.accountName },
    { title: 'KIND', of: (rental) => shortRentalKinds[rental.kind] },
    {
      title: 'STATUS',
      of: ({ status, stuckSince }) => ({ text: status, style: stuckSince === null ? rentalStyles[status] : 'red' }),
    },
    { title: 'FOR', of: (rental) => age(rental.statusSince, systemClock.now()) },
    {
      title: 'REASON',
      shrink: true,
      of: ({ statusReason, lastError }) => statusReason?.replaceAll('_', ' ') ?? lastError ?? '',
    },
    { title: 'ACCOUNT ID', wide: true, of: (rental) => rental.accountId },
    { title: 'GPUS', right: true, wide: true, of: (rental) => String(rental.gpuCount) },
    { title: 'REGION', wide: true, of: (rental) => rental.region },
    { title: 'SINCE', wide: true, of: (rental) => utcTime(rental.statusSince) },
    { title: 'STUCK SINCE', wide: true, of: (rental) => utcTime(rental.stuckSince) },
    { title: 'ENGINE', wide: true, of: (rental) => rental.driver },
    { title: 'ATTEMPTS', right: true, wide: true, of: (rental) => number(rental.attempts) },
    { title: 'ENGINE ID', wide: true, of: (rental) => rental.externalId ?? '' },
    { title: 'LAST ERROR', wide: true, of: (rental) => rental.lastError ?? '' },
    { title: 'AT', wide: true, of: (rental) => utcTime(rental.lastErrorAt) },
  ],
  below: (rentals, { options }) => {
    const stuck = rentals.filter(({ stuckSince }) => stuckSince !== null)
    if (stuck.length === 0) return []
    if (options.stuck !== true) return [`${stuck.length} stuck: berth operator rentals --stuck`]
    return [
      '',
      ...stuck.flatMap(stuckDetail),
      '',
      'The engine was asked to delete each of these and still has it. Berth keeps',
      'asking, and nobody is charged. To compare with the engine: berth audit.',
      'Delete by hand what remains there.',
    ]
  },
  examples: ['berth operator rentals --stuck', 'berth operator rentals --account acc_ID --status Running --wide'],
})

function stuckDetail({ id, driver, externalId, attempts, lastError, lastErrorAt }: Rental): string[] {
  const where = `Rental ${id}: ${driver} ${externalId ?? 'with unknown id'}, ${count(attempts, 'attempt')}`
  return lastError === null ? [where] : [where, `  Last error, at ${utcTime(lastErrorAt)}: ${printable(lastError)}`]
}

const volumeStyles = {
  creating: 'yellow',
  active: 'green',
  suspended: 'yellow',
  unknown: 'red',
  deleting: 'yellow',
  deleted: 'dim',
  failed: 'red',
} as const satisfies Record<Volume['state'], Style>

const volumesRow = list({
  command: 'operator volumes',
  operation: 'listAllVolumes',
  rows: 'volumes',
  rowsShown: 20,
  description: 'list volumes of all accounts, and their last errors',
  flags: {
    state: { help: 'only this state' },
    failing: { help: 'only volumes whose last engine call failed' },
    ...ACCOUNT,
  },
  noun: 'volume',
  empty: ['No volumes match.'],
  columns: [
    { title: 'ID', right: true, of: (volume) => String(volume.id) },
    { title: 'LABEL', shrink: true, of: (volume) => volume.label },
    { title: 'ACCOUNT', shrink: true, of: (volume) => volume.accountName },
    { title: 'GB', right: true, of: (volume) => number(volume.sizeGb) },
    { title: 'STATE', of: ({ state }) => ({ text: state, style: volumeStyles[state] }) },
    { title: 'FOR', of: (volume) => age(volume.stateSince, systemClock.now()) },
    { title: 'ENGINE', of: (volume) => volume.driver },
    { title: 'LAST ERROR', shrink: true, of: lastErrorOf },
  ],
  examples: ['berth operator volumes --failing', 'berth operator volumes --state unknown'],
})

/** Its own, or that of the first attachment that has one. */
function lastErrorOf({ lastError, attachments }: Volume): string {
  if (lastError !== null) return lastError
  const failing = attachments.find((one) => one.lastError !== null)
  return failing === undefined ? '' : `${failing.state} rental ${failing.rentalId}: ${failing.lastError}`
}

const logRow = custom<{ details?: true; account?: string }>({
  command: 'operator log',
  operation: 'listAudit',
  only: ['accountId'],
  rowsShown: 20,
  isPaged: true,
  flags: ACCOUNT,
  description: 'list the audit log, newest first',
  options: [{ flag: '--details', help: 'show the recorded values' }],
  run: async (call) => {
    const { screen, options } = call
    const page = await readList<AuditRecord>(call, 'listAudit', 'records')
    screen.show(page.onWire, () => {
      if (page.rows.length === 0) return [options.account === undefined ? 'No older entries.' : 'No entries match.']
      return [
        ...page.rows.flatMap((record) => [
          ...recordLines(screen, record, options.account === undefined),
          ...(options.details === true ? detailLines(screen, record) : []),
        ]),
        '',
        page.next ?? count(page.rows.length, 'entry'),
      ]
    })
  },
  examples: ['berth operator log', 'berth operator log --account acc_ID --details'],
})

const trafficRow = show<'getTraffic', { by: 'model' | 'minute' }>({
  command: 'operator traffic',
  operation: 'getTraffic',
  description: 'show live inference traffic across all accounts',
  flags: { minutes: { help: 'minutes to look back' } },
  options: [{ flag: '--by <group>', help: 'group by', choices: ['model', 'minute'], default: 'model' }],
  lines: async (traffic, { client, screen, options }) => {
    const [{ models }, stuck] = await Promise.all([client.call('listOperatedModels'), readStuck(client)])
    return [
      ...totalLines(screen, traffic),
      '',
      ...(options.by === 'model' ? modelLines(screen, traffic, models) : minuteLines(screen, traffic)),
      ...stuckLines(screen, stuck),
    ]
  },
  examples: ['berth operator traffic --watch', 'berth operator traffic --by minute --minutes 15'],
})

function totalLines(screen: Screen, { minutes }: Traffic): string[] {
  const sum = (of: (minute: Traffic['minutes'][number]) => number): number =>
    minutes.reduce((total, minute) => total + of(minute), 0)
  const [requests, failed] = [sum((minute) => minute.requests), sum((minute) => minute.failed)]
  const [input, output] = [sum((minute) => minute.inputTokens), sum((minute) => minute.outputTokens)]
  return fields(screen, [
    ['Requests', `${number(requests)} in the last ${count(minutes.length, 'minute')}`],
    ['Failed', requests === 0 ? '0' : `${number(failed)} (${((100 * failed) / requests).toFixed(1)}%)`],
    ['Tokens', `${number(input + output)}: ${number(input)} in, ${number(output)} out`],
    ['Revenue', formatUsdForPeople(sumUsd(minutes.map(({ costUsd }) => usd(costUsd))))],
  ])
}

/** The busiest first, as the server sends them; then those without requests. */
function modelLines(screen: Screen, traffic: Traffic, models: readonly Model[]): string[] {
  const onSale = new Map(models.map((model) => [model.name, model]))
  const called = new Set(traffic.models.map(({ model }) => model))
  const rows = [
    ...traffic.models.map((one) => modelCells(one.model, one, onSale.get(one.model))),
    ...models.filter(({ name }) => !called.has(name)).map((model) => modelCells(model.name, undefined, model)),
  ]
  if (rows.length === 0) return ['No models are on sale.', 'To add one: berth models add --help']
  return [
    ...table(
      screen,
      [
        { title: 'MODEL', shrink: true },
        { title: 'REQUESTS', right: true },
        { title: 'FAILED', right: true },
        { title: 'BUSY', right: true },
        { title: 'FIRST BYTE', right: true },
        { title: 'TOTAL', right: true },
        { title: 'REVENUE', right: true },
      ],
      rows,
    ),
    '',
    'BUSY: requests in flight, +queued, on deployments only.',
    'FIRST BYTE and TOTAL: median and 95th percentile.',
  ]
}

function modelCells(name: string, traffic: Traffic['models'][number] | undefined, model: Model | undefined): Cell[] {
  return [
    name,
    number(traffic?.requests ?? 0),
    failedCell(traffic?.failed ?? 0),
    busyOf(model),
    quantilesOf(traffic?.firstByteMs ?? null),
    quantilesOf(traffic?.totalMs ?? null),
    traffic === undefined ? '' : money(traffic.costUsd),
  ]
}

function failedCell(failed: number): Cell {
  return failed === 0 ? '0' : { text: number(failed), style: 'red' }
}

/** Empty: no deployment reports it. */
function busyOf(model: Model | undefined): string {
  const reported = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : [health]))
  if (reported.length === 0) return ''
  const inFlight = reported.reduce((sum, health) => sum + health.inFlight, 0)
  const queued = reported.reduce((sum, health) => sum + (health.queued ?? 0), 0)
  return queued === 0 ? number(inFlight) : `${number(inFlight)} +${number(queued)}`
}

/** Both in one unit: `13/26 ms`, `0.9/3.4 s`. */
function quantilesOf(value: Traffic['models'][number]['totalMs']): string {
  if (value === null) return ''
  const { p50, p95 } = value
  return p95 < 1_000
    ? `${Math.round(p50)}/${Math.round(p95)} ms`
    : `${(p50 / 1_000).toFixed(1)}/${(p95 / 1_000).toFixed(1)} s`
}

function minuteLines(screen: Screen, { minutes }: Traffic): string[] {
  const busy = minutes.filter(({ requests }) => requests > 0)
  if (busy.length === 0) return ['No requests in this time.']
  return [
    ...table(
      screen,
      [
        { title: 'MINUTE' },
        { title: 'REQUESTS', right: true },
        { title: 'FAILED', right: true },
        { title: 'TOKENS IN', right: true },
        { title: 'TOKENS OUT', right: true },
        { title: 'REVENUE', right: true },
      ],
      busy.map((one): Cell[] => [
        utcTime(one.at),
        number(one.requests),
        failedCell(one.failed),
        number(one.inputTokens),
        number(one.outputTokens),
        money(one.costUsd),
      ]),
    ),
    '',
    'Minutes without requests are left out.',
  ]
}

export const rows: readonly Row[] = [rentalsRow, volumesRow, logRow, trafficRow]
