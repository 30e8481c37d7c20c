/** The cost of an inference request, known shortly after its response. */
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { Client } from './client.ts'
import { pause } from './pause.ts'

/** On servers other than the one that responded, a cost is known within a second. */
const COST_TRIES = 8
const COST_EVERY_MS = 250

/** undefined: not known yet; ask `getRequestCost` later. */
export async function fetchCost(
  client: Pick<Client, 'call'>,
  requestId: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<NanoUsd | undefined> {
  for (let attempt = 1; requestId !== '' && attempt <= COST_TRIES && !signal.aborted; attempt += 1) {
    const { requests } = await client.call('getRequestCost', { body: { requestIds: [requestId] }, signal })
    const [request] = requests
    if (request !== undefined) return nanoUsdOf(BigInt(request.costNanoUsd))
    await pause(COST_EVERY_MS, signal)
  }
  return undefined
}
