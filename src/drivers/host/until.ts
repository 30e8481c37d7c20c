/** Waits until a host has applied its desired state. */
import { setTimeout as pause } from 'node:timers/promises'
import { lastMessageOf, type HostWorld } from './world.ts'

/** Polling slows down, since many may wait at once. */
const POLL_MS = { first: 100, growth: 1.5, last: 1_000 } as const

/** Polls until true or aborted. `why`: the host's last message, for the error. */
export async function pollUntil(
  what: string,
  signal: AbortSignal,
  check: () => Promise<boolean>,
  why: () => Promise<string | undefined> = async () => undefined,
): Promise<void> {
  for (let waitMs: number = POLL_MS.first; !(await check()); waitMs = Math.min(waitMs * POLL_MS.growth, POLL_MS.last)) {
    signal.throwIfAborted()
    await pause(waitMs, undefined, { signal }).catch(async (error: unknown) => {
      const detail = await why()
      const text = `The host did not confirm in time that ${what}`
      throw new Error(detail === undefined ? `${text}.` : `${text}: ${detail}`, { cause: error })
    })
  }
}

/** Resolves once the machine has the volume. */
export function untilAttached(
  world: HostWorld,
  what: string,
  volumeId: string,
  machineId: string,
  signal: AbortSignal,
): Promise<void> {
  const isAttached = async (): Promise<boolean> =>
    (await world.findVolume(volumeId))?.attachedTo.includes(machineId) === true
  return pollUntil(what, signal, isAttached, () => lastMessageOf(world, machineId))
}

/** Resolves once the machine no longer has the volume. */
export function untilDetached(
  world: HostWorld,
  what: string,
  volumeId: string,
  machineId: string,
  signal: AbortSignal,
): Promise<void> {
  const isDetached = async (): Promise<boolean> =>
    (await world.findVolume(volumeId))?.heldBy.includes(machineId) !== true
  return pollUntil(what, signal, isDetached, () => lastMessageOf(world, machineId))
}
