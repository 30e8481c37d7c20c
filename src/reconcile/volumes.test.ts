/** A copy may take any time: it fails by its host's word, never by the number of looks at it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Actor, App } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import { CopyInProgress, type Driver, type VolumeOutcome } from '../drivers/driver.ts'
import { openAccount, openTestLedger, startVolume, type TestLedger } from '../../test/harness/ledger.ts'
import { reconcileVolumes } from './volumes.ts'

/** More than a create may fail. */
const LOOKS = 20

let ledger: TestLedger
let actor: Actor
beforeAll(async () => {
  ledger = await openTestLedger()
  actor = await openAccount(ledger, 'ada', usd('1000'))
})
afterAll(() => ledger.close())

test('a copy that takes longer than many calls becomes active, one that fails often fails (issue 31, D)', async () => {
  const { db } = ledger.database
  const source = await startVolume(ledger, actor, usd('0.0001'), 1)
  const copy = await startVolume(ledger, actor, usd('0.0001'), 1)
  await db.updateTable('volume').set({ external_id: 'v-source' }).where('id', '=', source).execute()
  await db.deleteFrom('segment').where('volume_id', '=', copy).execute()
  const begin = { state: 'creating' as const, copy_of: source, external_id: null, attempts: 0 }
  await db.updateTable('volume').set(begin).where('id', '=', copy).execute()
  const stateOf = async (): Promise<string> =>
    (await db.selectFrom('volume').select('state').where('id', '=', copy).executeTakeFirstOrThrow()).state

  let outcome = (): VolumeOutcome => {
    throw new CopyInProgress()
  }
  const loop = reconcileVolumes(appWith(() => outcome()))
  const look = async (): Promise<void> => {
    ledger.clock.advance(2 * MINUTE_MS)
    await loop.run(new AbortController().signal)
  }
  for (let pass = 0; pass < LOOKS; pass += 1) await look()
  expect(await stateOf()).toBe('creating')
  outcome = () => ({ kind: 'created', externalId: 'v-copy', vip: 'host' })
  await look()
  expect(await stateOf()).toBe('active')

  await db.deleteFrom('segment').where('volume_id', '=', copy).execute()
  await db.updateTable('volume').set(begin).where('id', '=', copy).execute()
  outcome = () => {
    throw new Error('The disk of the host is full.')
  }
  for (let pass = 0; pass < LOOKS; pass += 1) await look()
  expect(await stateOf()).toBe('failed')
})

function appWith(create: () => VolumeOutcome): App {
  const refuse = (): never => {
    throw new Error('it only creates volumes')
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
      serves: ['container'],
      attaches: [],
      isLocal: true,
      regions: 'own',
      copies: true,
      create: async () => create(),
      destroy: refuse,
      list: async () => [],
      attach: refuse,
      detach: refuse,
    },
  }
  return { ...ledger.app, drivers: new Map([['mock', driver]]) }
}
