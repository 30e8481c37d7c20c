/** `berth requests` and `berth cost`: the log of inference requests, and what they cost. */
import { money } from '../view/money.ts'
import { duration, requestUsage } from '../view/request.ts'
import { count } from '../view/number.ts'
import { age, utcTime } from '../view/time.ts'
import { InvalidArgumentError } from 'commander'
import { systemClock } from '../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf, sumUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { act, list, show } from './row.ts'
import { fields, printable, table, type Screen, type Style } from './screen.ts'
import type { Row } from './row-type.ts'

type LoggedRequest = Reply<'listInferenceRequests'>['requests'][number]

const outcomes = {
  answered: { text: 'answered', style: 'green' },
  cut: { text: 'cut off by the client', style: 'yellow' },
  broken: { text: 'broken off by the engine', style: 'red' },
  failed: { text: 'failed, not charged', style: 'red' },
} as const satisfies Record<LoggedRequest['outcome'], { text: string; style: Style }>

export const rows: readonly Row[] = [
  list<
    'listInferenceRequests',
    'requests',
    undefined,
    { model?: string; key?: string; outcome?: string; since?: string }
  >({
    command: 'requests',
    operation: 'listInferenceRequests',
    rows: 'requests',
    rowsShown: 20,
    description: 'list inference requests, newest first',
    flags: {
      model: { flag: '--model <name>', help: 'only this model' },
      keyId: { flag: '--by-key <id>', help: 'only this API key, as shown by berth keys ls' },
      outcome: { help: 'only this outcome' },
      since: { help: 'only after this time: 24h, 7d, or a day such as 2026-11-01', isPast: true },
    },
    noun: 'request',
    empty: ({ input }) =>
      Object.keys(input.parts.query ?? {}).length > 0
        ? ['No requests match.', 'The log goes back 30 days.']
        : ['There were no inference requests in the last 30 days.', 'To send one: berth chat "Hello"'],
    hint: 'To see one: berth requests show ID',
    columns: [
      { title: 'ID', of: (one) => one.requestId },
      { title: 'AGE', right: true, of: (one) => age(one.at, systemClock.now()) },
      { title: 'MODEL', shrink: true, of: (one) => one.model },
      { title: 'OUTCOME', of: ({ outcome }) => ({ text: outcome, style: outcomes[outcome].style }) },
      { title: 'COST', right: true, of: (one) => money(one.costUsd) },
      { title: 'KIND', wide: true, of: (one) => one.operation },
      { title: 'USAGE', right: true, wide: true, of: requestUsage },
      { title: 'DURATION', right: true, wide: true, of: (one) => duration(one.totalMs) },
      { title: 'KEY', wide: true, of: (one) => one.keyId },
      { title: 'TIME', wide: true, of: (one) => utcTime(one.at) },
    ],
    examples: ['berth requests --since 24h', 'berth requests --model owner/small --outcome failed'],
  }),
  show({
    command: 'requests show',
    operation: 'getInferenceRequest',
    description: 'show an inference request, with its bodies if stored',
    args: [{ name: '<id>', help: 'id, such as req_…, as shown by berth requests', field: 'id' }],
    lines: async (request, { screen, client }) => {
      const hasBodies = request.requestBody !== null || request.responseBody !== null
      return [
        ...factLines(screen, request),
        '',
        ...(hasBodies ? bodyLines(screen, request) : await explainMissingBodies(client)),
      ]
    },
    examples: ['berth requests show req_cc1cbf2556a145c74b1c4df0a8df525b'],
  }),
  act({
    command: 'cost',
    operation: 'getRequestCost',
    description: 'show the cost of inference requests',
    args: [
      {
        name: '<id...>',
        help: 'ids such as req_…, from the header X-Inference-Request-Id; at most 100',
        field: 'requestIds',
        parse: (text) => {
          if (/^[\w-]{1,100}$/.test(text)) return text
          throw new InvalidArgumentError('Only letters, digits, - and _.')
        },
      },
    ],
    prepare: ({ args }) => ({ parts: { body: { requestIds: [...new Set(args[0] as string[])] } } }),
    onWire: ({ requests }, { input }) => ({ requests, unknown: unknownIds(requests, input.parts.body) }),
    isWrong: ({ requests }, { input }) => unknownIds(requests, input.parts.body).length > 0,
    done: ({ requests }, { screen, input }) => {
      const costs = new Map(requests.map((one) => [one.requestId, nanoUsdOf(BigInt(one.costNanoUsd))]))
      const unknown = unknownIds(requests, input.parts.body)
      return [
        ...table(
          screen,
          [{ title: 'REQUEST' }, { title: 'COST', right: true }],
          idsIn(input.parts.body).map((id) => {
            const cost = costs.get(id)
            return [id, cost === undefined ? { text: 'unknown', style: 'yellow' } : formatUsdForPeople(cost)]
          }),
        ),
        '',
        `${count(requests.length, 'request')}, ${formatUsdForPeople(sumUsd(costs.values()))} in total`,
        ...(unknown.length === 0 ? [] : ['Unknown requests belong to another account, or were rejected.']),
      ]
    },
    examples: ['berth cost req_cc1cbf2556a145c74b1c4df0a8df525b'],
  }),
]

function idsIn(body: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  return body?.['requestIds'] as readonly string[]
}

function unknownIds(
  requests: Reply<'getRequestCost'>['requests'],
  body: Readonly<Record<string, unknown>> | undefined,
): string[] {
  const known = new Set(requests.map(({ requestId }) => requestId))
  return idsIn(body).filter((id) => !known.has(id))
}

function factLines(screen: Screen, request: LoggedRequest): string[] {
  const { firstByteMs } = request
  return fields(screen, [
    ['Request', { text: request.requestId, style: 'bold' }],
    ['Time', utcTime(request.at)],
    ['Model', request.model],
    ['Kind', `${request.operation}${request.streamed ? ', streamed' : ''}`],
    ['Outcome', outcomes[request.outcome]],
    ['Reason', request.reason],
    ['HTTP status', String(request.status)],
    ['Usage', requestUsage(request)],
    ['First byte', firstByteMs === null ? 'none' : `after ${duration(firstByteMs)}`],
    ['Duration', duration(request.totalMs)],
    ['Cost', money(request.costUsd)],
    ['API key', request.keyId],
    ['Trace', request.traceId],
  ])
}

function bodyLines(screen: Screen, { requestBody, responseBody }: Reply<'getInferenceRequest'>): string[] {
  return [
    screen.paint('dim', 'Request body'),
    ...readableLines(requestBody),
    '',
    screen.paint('dim', 'Response body'),
    ...readableLines(responseBody),
  ]
}

/** JSON is indented; a stream and anything else is shown as it is. */
function readableLines(body: string | null): string[] {
  if (body === null) return ['not stored']
  if (body === '') return ['empty']
  let text = body
  try {
    text = JSON.stringify(JSON.parse(body), null, 2)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return text.trimEnd().split(/\r?\n/).map(printable)
}

async function explainMissingBodies(client: Client): Promise<string[]> {
  const { account } = await client.call('getMe')
  return account.keepsBodies
    ? [
        'Its bodies were not stored, are older than 7 days, or belong to another key:',
        'to read the requests of other keys, use a key that also has the scope keys.',
      ]
    : ['This account does not store bodies. To store them from now on:', '  berth account keep-bodies on']
}
