/** `berth requests ls` and `berth cost`: the log of inference requests, and what they cost. */
import { InvalidArgumentError } from 'commander'
import { systemClock } from '../../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf, sumUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { count } from '../../view/number.ts'
import { duration, outcomeLabels, protocolOf, requestUsage } from '../../view/request.ts'
import { age } from '../../view/time.ts'
import { act, list, show } from '../kit/row.ts'
import { bold, toned, type Content } from '../kit/screen.ts'
import type { Call, Row } from '../kit/row-type.ts'

const EXAMPLE_ID = 'req_cc1cbf2556a145c74b1c4df0a8df525b'

export const rows: readonly Row[] = [
  list('requests ls', 'listInferenceRequests', 'list inference requests, newest first', {
    rowsShown: 20,
    flags: {
      model: '--model <name>  only this model',
      keyId: '--by-key <id>  only this API key, as shown by berth keys ls',
      operation: 'only this protocol or kind of work: chat, responses, messages, embedding, …',
      outcome: 'only this outcome',
      inBatch: 'only lines of batches',
      since: { text: 'only after this time: 24h, 7d, or a day such as 2026-11-01', isPast: true },
    },
    columns: [
      'requestId:ID',
      { AGE: ({ at }) => age(at, systemClock.now()) },
      'model',
      { OUTCOME: ({ outcome }) => toned(outcomeLabels[outcome][1], outcome) },
      'costUsd',
    ],
    wide: [
      { PROTOCOL: protocolOf, USAGE: requestUsage, DURATION: ({ totalMs }) => duration(totalMs) },
      'keyId:KEY',
      'at:TIME',
    ],
    unmatched: 'The log goes back 30 days.',
    empty: ['There were no inference requests in the last 30 days.', 'To send one: berth chat "Hello"'],
    hint: 'To see one: berth requests show ID',
    examples: [
      'berth requests ls --since 24h',
      'berth requests ls --model owner/small --outcome failed',
      'berth requests ls --operation messages',
    ],
  }),
  show('requests show', 'getInferenceRequest', 'show an inference request, with its bodies if stored', {
    args: { '<id>': 'id, such as req_…, as shown by berth requests ls' },
    examples: [`berth requests show ${EXAMPLE_ID}`],
    facts: [
      { Request: ({ requestId }) => bold(requestId) },
      'at:Time',
      'model',
      {
        Protocol: (request) => `${protocolOf(request)}${request.streamed ? ', streamed' : ''}`,
        Outcome: ({ outcome }) => {
          const [label, tone] = outcomeLabels[outcome]
          return toned(tone, outcome === 'failed' ? `${label}, not charged` : label)
        },
      },
      'reason',
      'status:HTTP status',
      {
        Usage: requestUsage,
        'First byte': ({ firstByteMs }) => (firstByteMs === null ? 'none' : `after ${duration(firstByteMs)}`),
        Duration: ({ totalMs }) => duration(totalMs),
      },
      'costUsd',
      'keyId:API key',
      'traceId:Trace',
    ],
    content: async ({ requestBody, responseBody }, { client }) => [
      '',
      ...(requestBody === null && responseBody === null
        ? await explainMissingBodies(client)
        : [
            toned('plain', 'Request body'),
            ...readableLines(requestBody),
            '',
            toned('plain', 'Response body'),
            ...readableLines(responseBody),
          ]),
    ],
  }),
  act('cost', 'getRequestCost', 'show the cost of inference requests', {
    args: {
      '<id...>': {
        help: 'ids such as req_…, from the header X-Inference-Request-Id; at most 100',
        field: 'requestIds',
        parse: (text) => {
          if (/^[\w-]{1,100}$/.test(text)) return text
          throw new InvalidArgumentError('Only letters, digits, - and _.')
        },
      },
    },
    examples: [`berth cost ${EXAMPLE_ID}`],
    prepare: ({ args }) => ({ parts: { body: { requestIds: [...new Set(args[0] as string[])] } } }),
    onWire: ({ requests }, call) => ({ requests, unknown: unknownIds(requests, call) }),
    isWrong: ({ requests }, call) => unknownIds(requests, call).length > 0,
    done: ({ requests }, call) => {
      const costs = new Map(requests.map((one) => [one.requestId, nanoUsdOf(BigInt(one.costNanoUsd))]))
      return [
        {
          titles: ['REQUEST', 'COST'],
          rows: idsIn(call).map((id) => {
            const cost = costs.get(id)
            return [id, cost === undefined ? toned('warn', 'unknown') : formatUsdForPeople(cost)]
          }),
        },
        '',
        `${count(requests.length, 'request')}, ${formatUsdForPeople(sumUsd(costs.values()))} in total`,
        unknownIds(requests, call).length === 0
          ? undefined
          : 'Unknown requests belong to another account, or were rejected.',
      ]
    },
  }),
]

function idsIn({ input }: Call): readonly string[] {
  return input.parts.body?.['requestIds'] as readonly string[]
}

function unknownIds(requests: Reply<'getRequestCost'>['requests'], call: Call): string[] {
  const existingIds = new Set(requests.map(({ requestId }) => requestId))
  return idsIn(call).filter((id) => !existingIds.has(id))
}

/** JSON is indented; a stream and anything else is shown as it is. */
function readableLines(body: string | null): Content[] {
  if (body === null) return ['not stored']
  if (body === '') return ['empty']
  let text = body
  try {
    text = JSON.stringify(JSON.parse(body), null, 2)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return text.trimEnd().split(/\r?\n/)
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
