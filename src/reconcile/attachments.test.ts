/** A host that does not answer delays its own volumes, and others only briefly. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Actor, App } from '../app/app.ts'
import { addMs, MINUTE_MS, toDate } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import type { Driver, VolumeDriver } from '../drivers/driver.ts'
import { openAccount, openTestLedger, startRental, startVolume, type TestLedger } from '../../test/harness/ledger.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { reconcileAttachments } from './attachments.ts'

/** One batch. */
const DEAD = 64

let ledger: TestLedger
let actor: Actor
beforeAll(async () => {
  ledger = await openTestLedger()
  actor = await openAccount(ledger, 'ada', usd('100000'))
})
afterAll(() => ledger.close())

/** A provider whose machine `dead` never answers; records calls that began after another had ended. */
function engineWithDeadHost(called: string[], late: string[]): App {
  let ended = 0
  const refuse = (): never => {
    throw new Error('it only attaches')
  }
  const attach: VolumeDriver['attach'] = async (_, machine, signal) => {
    called.push(machine)
    if (machine !== 'dead') return
    if (ended > 0) late.push(machine)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    // On a busy machine the first may time out before the last begins; only calls queued behind the first are late.
    await waitFor('all of them to be called', () => called.filter((one) => one === 'dead').length === DEAD)
    ended += 1
    throw new Error('The host did not confirm in time that it is done.')
  }
  const driver: Driver = {
    id: 'mock',
    traits: {
      simulated: false,
      elastic: false,
      ssh: false,
      logs: false,
      terminal: false,
      metrics: false,
      ports: 'direct',
      power: { stop: [], reboot: [] },
    },
    listLagMs: 0,
    callTimeoutMs: MINUTE_MS,
    check: refuse,
    inventory: refuse,
    create: refuse,
    destroy: refuse,
    list: refuse,
    volumes: {
      serves: ['bare-metal'],
      attaches: ['bare-metal'],
      isLocal: false,
      regions: 'own',
      create: refuse,
      destroy: refuse,
      list: refuse,
      attach,
      detach: attach,
    },
  }
  return { ...ledger.app, drivers: new Map([['mock', driver]]) }
}

async function askFor(rentalId: number): Promise<number> {
  const { db, clock } = ledger.database
  const id = await startVolume(ledger, actor, usd('0.0001'), 1)
  await db
    .updateTable('volume')
    .set({ external_id: `v-${id}` })
    .where('id', '=', id)
    .execute()
  const at = toDate(clock.now())
  await db.insertInto('attachment').values({ volume_id: id, rental_id: rentalId, asked_at: at, due_at: at }).execute()
  return id
}

async function rentalOn(machine: string): Promise<number> {
  const id = await startRental(ledger, actor, { pricePerHour: usd('1') })
  await ledger.database.db.updateTable('rental').set({ external_id: machine }).where('id', '=', id).execute()
  return id
}

test('the volumes of a dead host cost one timeout together, and are retried with back-off', async () => {
  const [dead, alive] = [await rentalOn('dead'), await rentalOn('alive')]
  for (let at = 0; at < DEAD; at += 1) await askFor(dead)
  // Later than all of the others.
  ledger.clock.advance(10)
  const good = await askFor(alive)
  const called: string[] = []
  const late: string[] = []
  const loop = reconcileAttachments(engineWithDeadHost(called, late))
  const { signal } = new AbortController()
  const stateOf = async (volumeId: number): Promise<string | undefined> =>
    (await ledger.database.db.selectFrom('attachment').select('state').where('volume_id', '=', volumeId).execute())[0]
      ?.state
  expect(await loop.run(signal)).toBe(true)
  expect(await loop.run(signal)).toBe(false)
  // One after the other, they would delay the rest for minutes.
  expect(late).toEqual([])
  expect(await stateOf(good)).toBe('attached')
  expect(called.filter((machine) => machine === 'dead')).toHaveLength(DEAD)
  const left = await ledger.database.db
    .selectFrom('attachment')
    .select(['state', 'attempts', 'due_at', 'lease_token'])
    .where('rental_id', '=', dead)
    .execute()
  expect(left).toHaveLength(DEAD)
  for (const one of left) {
    expect(one).toEqual({
      state: 'attaching',
      attempts: 1,
      due_at: addMs(ledger.clock.now(), 1_000),
      lease_token: null,
    })
  }
})
