/** How the simulated engine makes machines and volumes, with the times and faults of each. */
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

/** How long the world remembers what is gone. Nothing depends on it but a person who looks. */
const GONE_KEPT_MS = HOUR_MS
/** Far above what a fault can make. */
const SAME_TAG_LIMIT = 100

export function refused<Reason extends string>(reason: Reason, message: string) {
  return { kind: 'refused', reason, message } as const
}

/**
 * Adds one to the world, or as many as its faults make it, and answers with the id of the first. Ids follow from the
 * tag; the number behind one is the next that is free, since nothing forbids to create with the same tag again.
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
  const wanted = faults.has('fault-duplicate') ? 2 : 1
  const made: string[] = []
  for (let n = 1; n <= SAME_TAG_LIMIT && made.length < wanted; n += 1) {
    const externalId = `${stem}-${n}`
    if (await add({ externalId, tag, ...life })) made.push(externalId)
  }
  const [first] = made
  if (first === undefined) throw new Error(`The simulated engine already has ${SAME_TAG_LIMIT} with the tag ${tag}.`)
  if (faults.has('fault-create-timeout')) throw new Error('The create call to the simulated engine timed out.')
  return first
}

function ordinaryTimes({ clock, seed, bootMs, destroyMs, listLagMs }: Engine, tag: string): OrdinaryTimes {
  const around = (what: string, ms: number): number => Math.round(ms * (0.5 + chance(seed, what, tag)))
  return {
    now: clock.now(),
    bootMs: around('boot', bootMs),
    destroyMs: around('destroy', destroyMs),
    listLagMs: Math.ceil(listLagMs * chance(seed, 'list', tag)),
    admittedListLagMs: listLagMs,
  }
}

/** From 0 up to but not including 1. */
export function chance(seed: string, what: string, tag: string): number {
  return sha256(`${seed}/${what}/${tag}`).readUInt32BE(0) / 2 ** 32
}
