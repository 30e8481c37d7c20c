/** `berth requests`: what models were asked with the keys of the account, and what became of it. */
import { InvalidArgumentError, Option, type Command } from 'commander'
import { addMs, DAY_MS, formatInstant, HOUR_MS, parseInstant, systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Client, Reply } from '../client/client.ts'
import { isRefusal } from '../client/error.ts'
import { requestOutcome } from '../contract/request-log.ts'
import { age, utcTime } from '../view/time.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { parseModelName } from './model-option.ts'
import { fields, printable, table, type Cell, type Screen, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { moreOr, parseName, parseWhole } from './supply.ts'

type LoggedRequest = Reply<'listInferenceRequests'>['requests'][number]
type RequestWithTexts = Reply<'getInferenceRequest'>

const SHOWN = 20

interface RequestOptions {
  readonly limit: number
  readonly cursor?: string
  readonly model?: string
  readonly byKey?: string
  readonly outcome?: LoggedRequest['outcome']
  readonly since?: string
  readonly wide?: true
}

export function addRequestCommands(program: Command, run: Run): void {
  const requests = program
    .command('requests')
    .description('the log of calls of models, newest first')
    .usage('[options] [show]')
    .commandsGroup('Customers:')
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'go on where a long list was cut')
    .option('--model <name>', 'only of this model', parseModelName)
    .option('--by-key <id>', 'only with this key, as berth keys ls shows it', parseName)
    .addOption(new Option('--outcome <outcome>', 'only what ended so').choices(requestOutcome.options))
    .option('--since <when>', 'only from then on: 24h, 7d, or a day such as 2026-11-01', parseSince)
    .option('--wide', 'also when, what was used, how long it took, and the key')
  requests.action(
    run('customer', async ({ client, screen }) => {
      const options = requests.opts<RequestOptions>()
      const { wide, byKey, ...query } = options
      const page = await client.call('listInferenceRequests', {
        query: { ...query, ...(byKey === undefined ? {} : { keyId: byKey }) },
      })
      screen.show(page, () => {
        if (page.requests.length === 0) return noRequests(options)
        const end = `${count(page.requests.length, 'request')}. See one with: berth requests show ID`
        return [
          ...table(screen, wide ? wideColumns : columns, page.requests.map(wide ? wideCells : cells)),
          '',
          moreOr(page.nextCursor, commandOf(options), end),
        ]
      })
    }),
  )
  addShow(requests, run)
}

/** The next page is one of the same requests. */
function commandOf({ limit, model, byKey, outcome, since, wide }: RequestOptions): string {
  return [
    'berth requests',
    ...(limit === SHOWN ? [] : [`--limit ${limit}`]),
    ...(model === undefined ? [] : [`--model ${model}`]),
    ...(byKey === undefined ? [] : [`--by-key ${byKey}`]),
    ...(outcome === undefined ? [] : [`--outcome ${outcome}`]),
    ...(since === undefined ? [] : [`--since ${since}`]),
    ...(wide === undefined ? [] : ['--wide']),
  ].join(' ')
}

function noRequests({ model, byKey, outcome, since }: RequestOptions): string[] {
  return [model, byKey, outcome, since].some((one) => one !== undefined)
    ? ['There is no request like this.', 'Fewer options show more; the log goes back 30 days.']
    : ['No model was called in the last 30 days.', 'Try one: berth chat "Hello"']
}

const columns = [
  { title: 'ID' },
  { title: 'AGO', right: true },
  { title: 'MODEL', shrink: true },
  { title: 'OUTCOME' },
  { title: 'COST', right: true },
] as const

function cells(request: LoggedRequest): Cell[] {
  return [
    request.requestId,
    age(request.at, systemClock.now()),
    request.model,
    { text: request.outcome, style: styleOf(request.outcome) },
    money(request.costUsd),
  ]
}

const wideColumns = [
  ...columns,
  { title: 'KIND' },
  { title: 'USED', right: true },
  { title: 'TOOK', right: true },
  { title: 'KEY' },
  { title: 'WHEN' },
] as const

function wideCells(request: LoggedRequest): Cell[] {
  const { operation, totalMs, keyId, at } = request
  return [...cells(request), kindWord(operation), usedWords(request), seconds(totalMs), keyId, utcTime(at)]
}

function styleOf(outcome: LoggedRequest['outcome']): Style {
  if (outcome === 'answered') return 'green'
  return outcome === 'cut' ? 'yellow' : 'red'
}

function addShow(requests: Command, run: Run): void {
  requests
    .command('show')
    .description('one call of a model, with its texts where kept')
    .argument('<id>', 'as berth requests shows it, such as req_…', parseName)
    .action(
      run('customer', async ({ client, screen, json }, id = '') => {
        const request = await readRequest(client, id)
        const hasTexts = request.requestBody !== null || request.responseBody !== null
        const texts = hasTexts || json ? textLines(screen, request) : await whyNoTexts(client)
        screen.show(request, () => [...factLines(screen, request), '', ...texts])
      }),
    )
}

async function readRequest(client: Client, id: string): Promise<RequestWithTexts> {
  try {
    return await client.call('getInferenceRequest', { params: { id } })
  } catch (error) {
    if (!isRefusal(error, 'request_not_found')) throw error
    throw new CliError(exitCodes.failed, `There is no request ${id} in the log.`, [
      'berth requests lists them: from a moment after their end, for 30 days.',
    ])
  }
}

const outcomeWords = {
  answered: 'answered',
  cut: 'left by the client before the end',
  broken: 'broken off by the engine in the middle',
  failed: 'failed, and cost nothing',
} as const satisfies Record<LoggedRequest['outcome'], string>

function factLines(screen: Screen, request: LoggedRequest): string[] {
  const { operation, outcome, reason, status, streamed, firstByteMs } = request
  return fields(screen, [
    ['Request', { text: request.requestId, style: 'bold' }],
    ['Time', utcTime(request.at)],
    ['Model', request.model],
    ['Kind', `${kindWord(operation)}${streamed ? ', streamed' : ''}`],
    ['Outcome', { text: outcomeWords[outcome], style: styleOf(outcome) }],
    ['Reason', reason ?? undefined],
    ['HTTP', String(status)],
    ['Used', usedWords(request)],
    ['First byte', firstByteMs === null ? 'none came' : `after ${seconds(firstByteMs)}`],
    ['Took', seconds(request.totalMs)],
    ['Cost', money(request.costUsd)],
    ['Key', request.keyId],
    ['Trace', request.traceId],
  ])
}

function textLines(screen: Screen, { requestBody, responseBody }: RequestWithTexts): string[] {
  return [
    screen.paint('dim', 'Asked'),
    ...readableLines(requestBody),
    '',
    screen.paint('dim', 'Answered'),
    ...readableLines(responseBody),
  ]
}

/** JSON with its lines; a stream and whatever else as it is. */
function readableLines(body: string | null): string[] {
  if (body === null) return ['not kept']
  if (body === '') return ['nothing']
  let text = body
  try {
    text = JSON.stringify(JSON.parse(body), null, 2)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return text.trimEnd().split(/\r?\n/).map(printable)
}

async function whyNoTexts(client: Client): Promise<string[]> {
  const { account } = await client.call('getMe')
  return account.keepsBodies
    ? [
        'Its texts were not kept, or are older than seven days, or another key sent it:',
        'what other keys sent is read with a key that also has the scope keys.',
      ]
    : ['This account keeps no texts of requests. To keep them from now on:', '  berth account keep-bodies on']
}

function kindWord(operation: string): string {
  return operation === 'image' ? 'picture' : operation
}

/** Tokens of the prompt and the answer, characters, or pixels times steps. */
function usedWords({ operation, inputUnits, cachedUnits, outputUnits }: LoggedRequest): string {
  if (operation === 'speech') return count(inputUnits, 'character')
  if (operation === 'image') return count(outputUnits, 'pixel step')
  const cached = cachedUnits === 0 ? '' : ` (${cachedUnits.toLocaleString('en-US')} cached)`
  return `${inputUnits.toLocaleString('en-US')}${cached} in, ${outputUnits.toLocaleString('en-US')} out`
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}

function parseSince(text: string): string {
  const [, number, unit] = /^(\d{1,3})([hd])$/.exec(text) ?? []
  if (number !== undefined) {
    const ms = Number.parseInt(number, 10) * (unit === 'h' ? HOUR_MS : DAY_MS)
    return formatInstant(addMs(systemClock.now(), -ms))
  }
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? parseInstant(text) : undefined
  if (at === undefined) throw new InvalidArgumentError('Such as 24h, 7d, 2026-11-01 or 2026-11-01T12:00:00Z.')
  return formatInstant(at)
}
