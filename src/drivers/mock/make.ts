/** Creates simulated machines and volumes with their times and faults. */
import { sha256 } from '../../base/id.ts'
import { addMs, HOUR_MS, type Clock } from '../../base/instant.ts'
import { planLife, type Life, type MockFault, type OrdinaryTimes } from './faults.ts'
import type { MockWorld } from './world.ts'

export interface Engine {
  readonly world: MockWorld
  readonly clock: Clock
  readonly seed: string
  readonly bootMs: number
  readonly destroyMs: number
  readonly listLagMs: number
}

/** Gone machines are kept this long, for people who look at the table. */
const GONE_KEPT_MS = HOUR_MS
/** Far above what a fault creates. */
const MAX_SAME_TAG = 100

export function refused<Reason extends string>(reason: Reason, message: string) {
  return { kind: 'refused', reason, message } as const
}

/**
 * Adds one machine or volume, or two with the fault for duplicates, and returns the id of the first. Ids derive from the
 * tag and a counter, since the same tag may be created again.
 */
export async function make(
  engine: Engine,
  noun: 'm' | 'v',
  tag: string,
  faults: ReadonlySet<MockFault>,
  add: (life: Life & { externalId: string; tag: string }) => Promise<boolean>,
): Promise<string> {
  if (faults.has('fault-create-lost')) throw new Error('The simulated engine did not answer the create call.')
  const times = ordinaryTimes(engine, tag)
  await engine.world.forgetGone(addMs(times.now, -GONE_KEPT_MS))
  const life = planLife(faults, times)
  const stem = `mock-${noun}-${sha256(`${engine.seed}/id/${tag}`).toString('hex').slice(0, 12)}`
  const count = faults.has('fault-duplicate') ? 2 : 1
  const ids: string[] = []
  for (let n = 1; n <= MAX_SAME_TAG && ids.length < count; n += 1) {
    const externalId = `${stem}-${n}`
    if (await add({ externalId, tag, ...life })) ids.push(externalId)
  }
  const [first] = ids
  if (first === undefined) throw new Error(`The simulated engine already has ${MAX_SAME_TAG} with the tag ${tag}.`)
  if (faults.has('fault-create-timeout')) throw new Error('The create call to the simulated engine timed out.')
  return first
}

export function ordinaryTimes({ clock, seed, bootMs, destroyMs, listLagMs }: Engine, tag: string): OrdinaryTimes {
  const around = (what: string, ms: number): number => Math.round(ms * (0.5 + chance(seed, what, tag)))
  return {
    now: clock.now(),
    bootMs: around('boot', bootMs),
    destroyMs: around('destroy', destroyMs),
    listLagMs: Math.ceil(listLagMs * chance(seed, 'list', tag)),
    admittedListLagMs: listLagMs,
  }
}

/** The result is in [0, 1). */
export function chance(seed: string, what: string, tag: string): number {
  return sha256(`${seed}/${what}/${tag}`).readUInt32BE(0) / 2 ** 32
}
