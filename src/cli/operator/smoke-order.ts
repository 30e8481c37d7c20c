/** The rental of a smoke test: ordered through the API like any other, at one account, and used once over SSH. */
import { isLiving } from '../../domain/rental.ts'
import { randomUUID } from 'node:crypto'
import { addMs, formatInstant, MINUTE_MS, SECOND_MS, systemClock } from '../../base/instant.ts'
import { formatUsd, maxUsd, nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { CallInput } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import { count } from '../../view/number.ts'
import { machineOf, type OwnMachine } from '../../view/own-machine.ts'
import { span } from '../../view/time.ts'
import type { Call } from '../kit/row-type.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { SmokeChoice } from './smoke-choice.ts'
import type { Login, TestKey } from './smoke-login.ts'

export const POLL_MS = SECOND_MS
/** A running machine must accept the login within this time. */
const LOGIN_MS = 10 * MINUTE_MS

/** Everything that a test has created and learned so far. */
export interface Smoke {
  readonly call: Call
  readonly name: string
  readonly choice: SmokeChoice
  readonly label: string
  readonly accountId: string
  /** Whether the order may exist. */
  isOrdered: boolean
  rentalId: number | undefined
  sshKeyId: string | undefined
  credited: NanoUsd
  startMs: number | undefined
  login: Login | undefined
}

export async function rentAndLogIn(smoke: Smoke, key: TestKey, interrupted: AbortSignal): Promise<void> {
  const { call, choice, label } = smoke
  const { client, screen } = call
  const added = await client.call('addSshKey', {
    body: { name: label, publicKey: key.publicKey },
    idempotencyKey: randomUUID(),
  })
  smoke.sshKeyId = added.id
  await creditWhatIsMissing(smoke)
  checkInterrupt(interrupted)
  const orderedAt = systemClock.now()
  const deadline = addMs(orderedAt, choice.endsAfterMs)
  smoke.isOrdered = true
  smoke.rentalId = await order(smoke, formatInstant(deadline))
  screen.remark(`Ordered rental ${smoke.rentalId}.`)
  const machine = await waitUntilRunning(smoke, deadline, interrupted)
  smoke.startMs = systemClock.now() - orderedAt
  screen.remark(`Running after ${span(smoke.startMs)}. Logging in to ${machine.ssh?.host ?? 'it'}.`)
  smoke.login = await logIn(key, machine, Math.min(deadline, addMs(systemClock.now(), LOGIN_MS)), interrupted)
  const { program, output } = smoke.login
  screen.remark(`Logged in. ${program}: ${output.join('; ')}`)
  if (program === 'nvidia-smi' && output.length !== choice.offer.gpuCount)
    throw new CliError(
      exitCodes.failed,
      `The machine shows ${count(output.length, 'GPU')}, ${choice.offer.gpuCount} were ordered.`,
    )
}

async function creditWhatIsMissing(smoke: Smoke): Promise<void> {
  const { client } = smoke.call
  const { availableUsd } = await client.call('getCustomerBalance')
  const missing = nanoUsdOf(smoke.choice.price - maxUsd(usd(availableUsd), zeroUsd))
  if (missing <= 0n) return
  await client.call('creditAccount', {
    params: { id: smoke.accountId },
    body: { amountUsd: formatUsd(missing), kind: 'credit', reason: `Smoke test of ${smoke.name}` },
    idempotencyKey: randomUUID(),
  })
  smoke.credited = missing
}

async function order({ call, choice, label, name }: Smoke, autoTerminateAt: string): Promise<number> {
  const { offer, price } = choice
  const body = {
    kind: offer.machineType,
    gpuCount: offer.gpuCount,
    gpuType: offer.gpuType,
    region: offer.region,
    networkType: offer.networkType,
    label,
    autoTerminateAt,
    providerAccount: name,
    maxCostPerHourUsd: formatUsd(price),
  } as CallInput<'createRental'>['body']
  return (await call.client.call('createRental', { body, idempotencyKey: randomUUID() })).id
}

async function waitUntilRunning(smoke: Smoke, deadline: number, interrupted: AbortSignal): Promise<OwnMachine> {
  const { client, screen } = smoke.call
  for (let lastWords = ''; ; await pause(POLL_MS, interrupted)) {
    checkInterrupt(interrupted)
    const machine = machineOf(await client.call('getRental', { params: { id: String(smoke.rentalId) } }))
    const words = machine.message ?? machine.status
    if (words !== lastWords) screen.remark(words)
    lastWords = words
    if (machine.status === 'Running' && machine.ssh !== undefined) return machine
    if (!isLiving(machine.status))
      throw new CliError(exitCodes.failed, `It did not start: ${words.replace(/\.$/, '')}.`)
    if (systemClock.now() >= deadline) throw atCap()
  }
}

async function logIn(key: TestKey, { ssh }: OwnMachine, until: number, interrupted: AbortSignal): Promise<Login> {
  for (; ssh !== undefined; await pause(POLL_MS, interrupted)) {
    checkInterrupt(interrupted)
    const login = await key.tryLogin(ssh, interrupted)
    if (login !== undefined) return login
    if (systemClock.now() >= until) break
  }
  checkInterrupt(interrupted)
  throw new CliError(exitCodes.failed, 'It runs, but nobody can log in.')
}

function checkInterrupt(interrupted: AbortSignal): void {
  if (interrupted.aborted) throw new CliError(exitCodes.failed, 'Interrupted: the machine is ended.')
}

function atCap(): CliError {
  return new CliError(exitCodes.failed, 'It did not start before its cost would reach the cap.')
}
