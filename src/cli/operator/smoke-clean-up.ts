/** Removes everything that a smoke test has created, and reads its cost. */
import { randomUUID } from 'node:crypto'
import { addMs, MINUTE_MS, systemClock } from '../../base/instant.ts'
import { formatUsd, nanoUsdOf, usd, zeroUsd } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { isClientError } from '../../client/error.ts'
import { pause } from '../../client/pause.ts'
import { explain } from '../kit/failure.ts'
import { POLL_MS, type Smoke } from './smoke-order.ts'

/** The server repeats a teardown for longer, and reports it as stuck. */
const CLEAN_UP_MS = 15 * MINUTE_MS
/** The cloud may demand pauses between requests. */
const LIST_MS = 70_000

export type Resource = Reply<'listProviderResources'>['resources'][number]

/** Continues until nothing remains. If this gives up, the server continues. */
export async function cleanUp(
  smoke: Smoke,
  again: AbortSignal,
): Promise<{ remaining: readonly Resource[]; problem: string | undefined }> {
  const { screen } = smoke.call
  const until = addMs(systemClock.now(), CLEAN_UP_MS)
  let progress: Progress = { isEnded: false, remaining: [], problem: undefined }
  for (let lastWords = ''; !again.aborted; await pause(POLL_MS, again)) {
    progress = await takeStep(smoke, progress)
    const { isEnded, remaining, problem } = progress
    if (isEnded && remaining.length === 0 && problem === undefined) return progress
    const words =
      problem ?? `Ending it. Left at the cloud: ${remaining.map(({ what }) => what).join(', ') || 'nothing'}.`
    if (words !== lastWords) screen.remark(words)
    lastWords = words
    if (systemClock.now() >= until) break
  }
  const { isEnded, remaining, problem } = progress
  const rental = smoke.rentalId === undefined ? '' : ` The server goes on with rental ${smoke.rentalId}.`
  screen.remark(`Gave up waiting.${rental} To see what is left: berth operator providers resources ${smoke.name}`)
  return { remaining, problem: problem ?? (isEnded ? undefined : 'The rental is not ended yet.') }
}

interface Progress {
  readonly isEnded: boolean
  readonly remaining: readonly Resource[]
  readonly problem: string | undefined
}

async function takeStep(smoke: Smoke, { isEnded: wasEnded, remaining: before }: Progress): Promise<Progress> {
  const { session } = smoke.call
  let [isEnded, remaining] = [wasEnded, before]
  try {
    isEnded ||= !smoke.isOrdered || (await end(smoke))
    await removeKey(smoke)
    if (isEnded) await takeCreditBack(smoke)
    remaining = await readRemaining(smoke)
    return { isEnded, remaining, problem: undefined }
  } catch (error) {
    if (!isClientError(error)) throw error
    const cause = explain(error, session)
    return { isEnded, remaining, problem: cause instanceof Error ? cause.message : String(cause) }
  }
}

async function readRemaining({ call: { client }, name, rentalId }: Smoke): Promise<readonly Resource[]> {
  if (rentalId === undefined) return []
  const input = { params: { name }, query: { rentalId }, timeoutMs: LIST_MS }
  return (await client.call('listProviderResources', input)).resources
}

/** Whether the rental has ended. Asks for it if nobody has. */
async function end(smoke: Smoke): Promise<boolean> {
  const { client } = smoke.call
  // The answer to the order may have been lost.
  smoke.rentalId ??= await findByLabel(smoke)
  if (smoke.rentalId === undefined) return true
  const params = { id: String(smoke.rentalId) }
  const { state } = await client.call('getRental', { params })
  if (state === 'Terminated') return true
  if (state !== 'Terminating') await client.call('terminateRental', { params, query: { reason: 'smoke test' } })
  return false
}

async function findByLabel({ call: { client }, label }: Smoke): Promise<number | undefined> {
  const { rentals } = await client.call('listRentals', { query: { q: label } })
  return rentals.find((one) => one.label === label)?.id
}

async function removeKey(smoke: Smoke): Promise<void> {
  if (smoke.sshKeyId === undefined) return
  await smoke.call.client.call('deleteSshKey', { params: { id: smoke.sshKeyId } })
  smoke.sshKeyId = undefined
}

/** Takes back the credit that the rental did not use. */
async function takeCreditBack(smoke: Smoke): Promise<void> {
  const { client } = smoke.call
  if (smoke.credited === 0n) return
  const { rentalId } = smoke
  const params = { id: String(rentalId) }
  const used = rentalId === undefined ? zeroUsd : usd((await client.call('getRental', { params })).costSoFarUsd)
  const unused = nanoUsdOf(smoke.credited - used)
  smoke.credited = zeroUsd
  if (unused <= 0n) return
  await client.call('adjustAccount', {
    params: { id: smoke.accountId },
    body: { amountUsd: formatUsd(nanoUsdOf(0n - unused)), reason: `Smoke test of ${smoke.name}: not used` },
    idempotencyKey: randomUUID(),
  })
}

export async function readCost({
  call: { client },
  name,
  rentalId,
}: Smoke): Promise<{ costUsd: string; revenueUsd: string }> {
  const none = { costUsd: formatUsd(zeroUsd), revenueUsd: formatUsd(zeroUsd) }
  if (rentalId === undefined) return none
  const { margins } = await client.call('listMargins', { query: { by: 'rental', name } })
  return margins.find(({ subject }) => subject === String(rentalId)) ?? none
}
