/**
 * `berth operator providers smoke`: rents the cheapest machine of an account through the API like any customer, logs
 * in, ends the rental, and waits until nothing of it remains at the cloud. Everything that was created is removed in
 * any case: after a failure, after Ctrl-C, and even if this program is killed, because the order contains an end time.
 */
import { randomBytes } from 'node:crypto'
import { SECOND_MS } from '../../base/instant.ts'
import { formatUsd, formatUsdForPeople, parseUsd, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { span } from '../../view/time.ts'
import { explain } from '../kit/failure.ts'
import { confirm } from '../kit/question.ts'
import { custom } from '../kit/row.ts'
import type { Call, Row } from '../kit/row-type.ts'
import { red, toned, type Content } from '../kit/screen.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import { chooseOffer, type SmokeChoice } from './smoke-choice.ts'
import { cleanUp, readCost, type Resource } from './smoke-clean-up.ts'
import { makeTestKey, type Login, type TestKey } from './smoke-login.ts'
import { rentAndLogIn, type Smoke } from './smoke-order.ts'

/** The cloud may demand pauses between requests. */
const OFFERS_MS = 70_000

interface SmokeOptions {
  readonly spendUpTo: NanoUsd
  readonly yes?: true
}

export const smokeRow: Row = custom<SmokeOptions>(
  'operator providers smoke',
  'rent the cheapest machine of an account, log in and end it; costs money',
  {
    operation: 'listProviders',
    args: { '<name>': 'name, as shown by berth operator providers ls' },
    options: {
      '--spend-up-to <usd>': {
        help: 'end the machine before it costs more than this',
        required: true,
        parse: parseCap,
      },
    },
    confirms: true,
    notes:
      'Needs ssh and ssh-keygen. Ctrl-C ends the machine and removes everything.\nYour account pays the selling price; what it lacks is credited first and taken\nback afterwards.',
    run: runSmoke,
    examples: ['berth operator providers smoke main --spend-up-to 2'],
  },
)

function parseCap(text: string): NanoUsd {
  const cap = parseUsd(text)
  if (cap === undefined || cap <= 0n) throw new CliError(exitCodes.usage, '--spend-up-to: must be an amount such as 2.')
  return cap
}

async function runSmoke(call: Call<SmokeOptions>): Promise<ExitCode> {
  const { client, screen, options } = call
  const name = String(call.args[0])
  const { providers, kinds } = await client.call('listProviders')
  const account = providers.find((one) => one.name === name)
  const kind = kinds.find(({ provider }) => provider === account?.provider)
  if (account === undefined || kind === undefined)
    throw new CliError(exitCodes.failed, `There is no provider account named ${name}.`, [
      'To list them: berth operator providers ls',
    ])
  const { offers } = await client.call('listProviderOffers', { params: { name }, timeoutMs: OFFERS_MS })
  const choice = chooseOffer(account, kind, offers, options.spendUpTo)
  const about = describeChoice(account.title, choice, options.spendUpTo)
  if (options.yes === true) screen.remark(...about)
  await confirm(call, 'Rent it, log in and end it?', about)
  const { account: ownAccount } = await client.call('getMe')
  const label = `smoke-${randomBytes(4).toString('hex')}`
  const smoke: Smoke = {
    call,
    name,
    choice,
    label,
    accountId: ownAccount.id,
    isOrdered: false,
    rentalId: undefined,
    sshKeyId: undefined,
    credited: zeroUsd,
    startMs: undefined,
    login: undefined,
  }
  return untilInterrupted((interrupted, again) => runAndCleanUp(smoke, options.spendUpTo, interrupted, again))
}

function describeChoice(title: string, { offer, cost, endsAfterMs }: SmokeChoice, cap: NanoUsd): Content[] {
  return [
    ['Cloud', title],
    ['Machine', `${offer.type} in ${offer.providerRegion}, ${offer.gpuCount} × ${offer.gpu}`],
    ['Cost', `${formatUsdForPeople(cost)}/hr`],
    ['Cap', `${formatUsdForPeople(cap)}: ended after ${span(endsAfterMs)} at the latest`],
    '',
  ]
}

/**
 * `interrupted` aborts on the first signal: end the machine now. `again` aborts on the second: leave the cleanup to the
 * server.
 */
async function untilInterrupted<T>(work: (interrupted: AbortSignal, again: AbortSignal) => Promise<T>): Promise<T> {
  const [first, second] = [new AbortController(), new AbortController()]
  const stop = (): void => (first.signal.aborted ? second : first).abort()
  process.on('SIGINT', stop).on('SIGTERM', stop)
  try {
    return await work(first.signal, second.signal)
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

async function runAndCleanUp(
  smoke: Smoke,
  cap: NanoUsd,
  interrupted: AbortSignal,
  again: AbortSignal,
): Promise<ExitCode> {
  const { screen, session } = smoke.call
  let failure: string | undefined
  let key: TestKey | undefined
  try {
    key = await makeTestKey(smoke.label)
    await rentAndLogIn(smoke, key, interrupted)
  } catch (error) {
    const cause = explain(error, session)
    failure = cause instanceof Error ? cause.message : String(cause)
    screen.remark(red(failure))
  } finally {
    await key?.remove()
  }
  const { remaining, problem } = await cleanUp(smoke, again)
  const { costUsd, revenueUsd } = await readCost(smoke)
  failure ??= problem ?? (usd(costUsd) > cap ? 'It cost more than the cap.' : undefined)
  const { offer } = smoke.choice
  const result = {
    ok: failure === undefined && remaining.length === 0,
    failure: failure ?? null,
    name: smoke.name,
    type: offer.type,
    region: offer.providerRegion,
    gpuCount: offer.gpuCount,
    rentalId: smoke.rentalId ?? null,
    startSeconds: smoke.startMs === undefined ? null : Math.round(smoke.startMs / SECOND_MS),
    login: smoke.login ?? null,
    left: remaining.map(({ what, id }) => ({ what, id })),
    costPerHourUsd: formatUsd(smoke.choice.cost),
    costUsd,
    capUsd: formatUsd(cap),
    revenueUsd,
  }
  screen.show(result, () => describeResult(result))
  return result.ok ? exitCodes.ok : exitCodes.failed
}

interface Result {
  readonly ok: boolean
  readonly failure: string | null
  readonly startSeconds: number | null
  readonly login: Login | null
  readonly left: ReadonlyArray<Pick<Resource, 'what' | 'id'>>
  readonly costUsd: string
  readonly capUsd: string
}

function describeResult({ ok, failure, startSeconds, login, left: resources, costUsd, capUsd }: Result): Content[] {
  return [
    '',
    ['Result', ok ? toned('good', 'passed') : red(`failed: ${failure ?? 'something is left at the cloud'}`)],
    ['Start', startSeconds === null ? undefined : span(startSeconds * SECOND_MS)],
    ['Login', login === null ? undefined : `${login.program}: ${login.output.join('; ')}`],
    ['Left', resources.length === 0 ? 'nothing' : red(resources.map(({ what, id }) => `${what} ${id}`).join(', '))],
    ['Cost', `${formatUsdForPeople(usd(costUsd))} of ${formatUsdForPeople(usd(capUsd))}`],
  ]
}
