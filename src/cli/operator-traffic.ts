/** `berth operator traffic`: what models answer in the whole house, by model or minute, and with --watch as it goes on. */
import { Option, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import { formatUsdForPeople, sumUsd, usd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import type { Model } from './model-state.ts'
import { readStuck, stuckLines } from './operator-rental.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'
import { parseWhole } from './supply.ts'
import { addWatchOptions, watch, type WatchOptions } from './watch.ts'

const MINUTES = 60
const EVERY_S = 5

type Traffic = Reply<'getTraffic'>
type ModelTraffic = Traffic['models'][number]

interface TrafficOptions extends WatchOptions {
  readonly by: 'model' | 'minute'
  readonly minutes: number
}

/** All that one look has seen. */
interface Look {
  readonly traffic: Traffic
  readonly models: readonly Model[]
  readonly stuck: Reply<'listAllRentals'>
}

/** Under `berth operator`. */
export function addOperatorTrafficCommand(operator: Command, run: Run, shell: Shell): void {
  const command = operator
    .command('traffic')
    .description('what models answer, of everyone, now')
    .addOption(new Option('--by <what>', 'what is summed').choices(['model', 'minute']).default('model'))
    .option('--minutes <n>', 'how far back', parseWhole(1, limits.trafficMinutes), MINUTES)
  addWatchOptions(command, EVERY_S)
  command.action(
    run('operator', async (session) => {
      const options = command.opts<TrafficOptions>()
      await watch(session, shell, options, async () => {
        const seen = await look(session.client, options.minutes)
        return { onWire: seen.traffic, lines: trafficLines(session.screen, seen, options.by) }
      })
    }),
  )
}

async function look(client: Client, minutes: number): Promise<Look> {
  const [traffic, { models }, stuck] = await Promise.all([
    client.call('getTraffic', { query: { minutes } }),
    client.call('listOperatedModels'),
    readStuck(client),
  ])
  return { traffic, models, stuck }
}

function trafficLines(screen: Screen, { traffic, models, stuck }: Look, by: TrafficOptions['by']): string[] {
  const warning = stuckLines(screen, stuck)
  return [
    ...(warning.length === 0 ? [] : [...warning, '']),
    ...totalLines(screen, traffic),
    '',
    ...(by === 'model' ? modelLines(screen, traffic, models) : minuteLines(screen, traffic)),
  ]
}

function totalLines(screen: Screen, { minutes }: Traffic): string[] {
  const sum = (of: (minute: Traffic['minutes'][number]) => number): number =>
    minutes.reduce((total, minute) => total + of(minute), 0)
  const [requests, failed] = [sum((minute) => minute.requests), sum((minute) => minute.failed)]
  const [input, output] = [sum((minute) => minute.inputTokens), sum((minute) => minute.outputTokens)]
  const span = minutes.length === 1 ? 'in this minute' : `in the last ${minutes.length} minutes`
  return fields(screen, [
    ['Requests', `${number(requests)} ${span}`],
    ['Failed', requests === 0 ? '0' : `${number(failed)}, ${((100 * failed) / requests).toFixed(1)} % of them`],
    ['Tokens', `${number(input + output)}: ${number(input)} in, ${number(output)} out`],
    ['Earned', formatUsdForPeople(sumUsd(minutes.map(({ costUsd }) => usd(costUsd))))],
  ])
}

/** The busiest first, as the server has them; then those that nobody has called. */
function modelLines(screen: Screen, traffic: Traffic, models: readonly Model[]): string[] {
  const offered = new Map(models.map((model) => [model.name, model]))
  const called = new Set(traffic.models.map(({ model }) => model))
  const rows = [
    ...traffic.models.map((one) => modelCells(one.model, one, offered.get(one.model))),
    ...models.filter(({ name }) => !called.has(name)).map((model) => modelCells(model.name, undefined, model)),
  ]
  if (rows.length === 0) return ['No model is offered yet.', 'berth models add --help shows how to add one.']
  return [
    ...table(screen, modelColumns, rows),
    '',
    'BUSY: in flight now, and after + what waits; of servers elsewhere only.',
    'FIRST BYTE and WHOLE: half, and 95 of 100, are faster.',
  ]
}

const modelColumns = [
  { title: 'MODEL', shrink: true },
  { title: 'REQUESTS', right: true },
  { title: 'FAILED', right: true },
  { title: 'BUSY', right: true },
  { title: 'FIRST BYTE', right: true },
  { title: 'WHOLE', right: true },
  { title: 'EARNED', right: true },
] as const

function modelCells(name: string, traffic: ModelTraffic | undefined, model: Model | undefined): Cell[] {
  const failed = traffic?.failed ?? 0
  return [
    name,
    number(traffic?.requests ?? 0),
    failed === 0 ? '0' : { text: number(failed), style: 'red' },
    busyWords(model),
    quantileWords(traffic?.firstByteMs ?? null),
    quantileWords(traffic?.totalMs ?? null),
    traffic === undefined ? '' : money(traffic.costUsd),
  ]
}

/** Empty: no server says. */
function busyWords(model: Model | undefined): string {
  const told = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : [health]))
  if (told.length === 0) return ''
  const inFlight = told.reduce((sum, health) => sum + health.inFlight, 0)
  const queued = told.reduce((sum, health) => sum + (health.queued ?? 0), 0)
  return queued === 0 ? number(inFlight) : `${number(inFlight)} +${number(queued)}`
}

/** Both in one unit: `13/26 ms`, `0.9/3.4 s`. */
function quantileWords(value: ModelTraffic['totalMs']): string {
  if (value === null) return ''
  const { p50, p95 } = value
  return p95 < 1_000
    ? `${Math.round(p50)}/${Math.round(p95)} ms`
    : `${(p50 / 1_000).toFixed(1)}/${(p95 / 1_000).toFixed(1)} s`
}

/** Those in which nothing ended are left out: they say nothing. */
function minuteLines(screen: Screen, { minutes }: Traffic): string[] {
  const rows = minutes.filter(({ requests }) => requests > 0)
  if (rows.length === 0) return ['Nobody has called a model in this time.']
  return [
    ...table(
      screen,
      minuteColumns,
      rows.map((one): Cell[] => [
        utcTime(one.at),
        number(one.requests),
        one.failed === 0 ? '0' : { text: number(one.failed), style: 'red' },
        number(one.inputTokens),
        number(one.outputTokens),
        money(one.costUsd),
      ]),
    ),
    '',
    'Minutes without a request are left out.',
  ]
}

const minuteColumns = [
  { title: 'MINUTE' },
  { title: 'REQUESTS', right: true },
  { title: 'FAILED', right: true },
  { title: 'TOKENS IN', right: true },
  { title: 'TOKENS OUT', right: true },
  { title: 'EARNED', right: true },
] as const

function number(value: number): string {
  return value.toLocaleString('en-US')
}
