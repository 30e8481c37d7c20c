/** Host reports: none can break the database, flood the log, or put unusable hardware on sale. */
import { randomInt } from 'node:crypto'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { HostReport } from '../../contract/agent.ts'
import { findOfferFault } from '../../domain/offer.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import { sampleSpec } from '../../drivers/conformance-bench.ts'
import { transact } from '../../store/platform/database.ts'
import { findHost, saveReport, setHostState } from '../../store/host/host.ts'
import { postgresHostWorld } from '../../store/host/host-world.ts'
import {
  startHostSockets,
  TestAgent,
  testOffer,
  type HostSockets,
  type TestHost,
} from '../../../test/harness/host-sockets.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { parseMessage } from './agent-session.ts'

const forever = new AbortController().signal
const FUZZED = 2_000
const BAD_CONNECTIONS = 30

let lab: HostSockets
const lines: Array<Record<string, unknown>> = []

beforeAll(async () => {
  const read = new Writable({
    write: (chunk: Buffer, _, done) => {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>)
      done()
    },
  })
  lab = await startHostSockets({ log: pino({}, read) })
})
afterAll(() => lab.close())

const baseReport: HostReport = {
  type: 'report',
  generation: 1,
  offer: testOffer,
  notes: ['A note.'],
  fault: { reason: 'tenants_not_isolated', message: 'Because.' },
  workloads: [
    {
      id: 'w-1',
      tag: 'berth-x-1-00',
      state: 'failed',
      failure: 'crashed',
      message: 'Why.',
      incarnation: 'a',
      disks: ['v'],
    },
  ],
  volumes: ['v'],
}

test.each([
  ['U+0000', '\0'],
  ['half a surrogate pair', '\uD800'],
  ['the other half', 'a\uDC00b'],
])('rejects a report with %s in any text, with a reason, and accepts the next one', async (_, bad) => {
  const host = await lab.addHost(`text-${bad.codePointAt(0)}`)
  const reports = [
    { ...baseReport, notes: [`note ${bad}`] },
    { ...baseReport, offer: { ...testOffer, gpuModel: bad } },
    { ...baseReport, offer: { ...testOffer, clusterName: `c${bad}` } },
    { ...baseReport, fault: { reason: 'x', message: bad } },
    { ...baseReport, volumes: [bad] },
    ...(['id', 'tag', 'message', 'incarnation'] as const).map((field) => ({
      ...baseReport,
      workloads: baseReport.workloads.map((one) => ({ ...one, [field]: `x${bad}` })),
    })),
  ]
  for (const report of reports) {
    const agent = await new TestAgent(lab.httpUrl, host).enter()
    agent.say(report)
    expect((await agent.hear('refused')).reason).toBe('bad_message')
    await agent.end()
  }
  const good = await new TestAgent(lab.httpUrl, host).enter()
  good.report({ notes: ['all is well 🚢'] })
  await waitFor('its report', async () => (await findHost(lab.database.db, host.id))?.notes[0] === 'all is well 🚢')
  await good.end()
  expect(lines.filter(({ err }) => err !== undefined)).toEqual([])
})

test(`of ${FUZZED} mutated reports, every accepted one can be stored`, async () => {
  const { id } = await lab.addHost('fuzzed')
  let taken = 0
  for (let n = 0; n < FUZZED; n += 1) {
    const parsed = parseMessage(JSON.stringify(mutate(baseReport)))
    if (!parsed.ok || parsed.value.type !== 'report') continue
    const report = parsed.value
    if (findOfferFault(report.offer) !== undefined) continue
    taken += 1
    await transact(lab.database, (tx) => saveReport(tx, id, null, report, lab.clock.now()))
  }
  expect(taken).toBeGreaterThan(FUZZED / 20)
})

test('strips characters that PostgreSQL cannot store from the output of an SSH host', async () => {
  const { id } = await lab.addHost('over-ssh')
  const report = { ...baseReport, notes: ['a\0b\uD800c'], fault: { reason: 'x', message: '\0' } }
  await transact(lab.database, (tx) => saveReport(tx, id, null, report, lab.clock.now()))
  await transact(lab.database, (tx) => setHostState(tx, id, 'quarantined', 'said \0 and ended'))
  const row = await findHost(lab.database.db, id)
  expect(row).toMatchObject({
    notes: ['a\uFFFDb\uFFFDc'],
    fault: { message: '\uFFFD' },
    state_reason: 'said \uFFFD and ended',
  })
})

test('limits the log lines of a misbehaving host', async () => {
  const host = await lab.addHost('noisy')
  lines.length = 0
  for (let n = 0; n < BAD_CONNECTIONS; n += 1) {
    const agent = await new TestAgent(lab.httpUrl, host).enter()
    agent.report({ notes: ['\0'] })
    await agent.hear('refused')
    await agent.end()
  }
  const about = lines.filter(({ hostId }) => hostId === 'noisy')
  expect(about.length).toBeGreaterThan(0)
  expect(about.length).toBeLessThan(BAD_CONNECTIONS)
  expect(about.some(({ reason }) => reason === 'bad_message')).toBe(true)
})

test('takes a host with a fault off sale, and puts it back when the fault is gone', async () => {
  const world = postgresHostWorld(lab.database, { from: 21_500, to: 21_600 })
  const driver = hostDriver({ world, clock: lab.clock, relayHost: 'relay.test', sellSimulated: true })
  const host: TestHost = await lab.addHost('faulty')
  const isListed = async (): Promise<boolean> => (await driver.inventory(forever)).some(({ id }) => id === host.id)
  const order = (tag: string) =>
    driver.create(
      tag,
      sampleSpec({ kind: 'container', ports: [], nodes: [{ machineId: host.id, gpuIndexes: [0] }] }),
      forever,
    )
  const agent = await new TestAgent(lab.httpUrl, host).enter()
  agent.report({})
  await waitFor('it to be on sale', isListed)
  const fault = { reason: 'tenants_not_isolated', message: 'There are no rules.' }
  agent.report({ fault })
  await waitFor('it to be off sale', async () => !(await isListed()))
  expect(await order('berth-x-1-00')).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
  expect((await findHost(lab.database.db, host.id))?.fault).toEqual(fault)
  agent.report({})
  await waitFor('it to be on sale', isListed)
  expect(await order('berth-x-2-00')).toMatchObject({ kind: 'created' })
  await agent.end()
})

/** One to three values replaced with something that a program could send by mistake or on purpose. */
function mutate(report: HostReport): unknown {
  const copy = structuredClone(report) as unknown
  for (let left = randomInt(1, 4); left > 0; left -= 1) mutateOne(copy as Record<string, unknown>)
  return copy
}

const texts = ['', '\0', '\uDFFF', 'x'.repeat(3_000), '🚢', '\u202E', "'; drop table host; --", '-1-00', 'NaN', '{}']
const strange = [...texts, 0, -1, 1.5, 2 ** 31, 2 ** 53, 1e308, null, true, [], {}, [null], { length: 1 }] as const

function mutateOne(value: Record<string, unknown>): void {
  const keys = Object.keys(value)
  const key = keys.length === 0 ? undefined : keys[randomInt(keys.length)]
  if (key === undefined) return
  const inner = value[key]
  if (typeof inner === 'object' && inner !== null && randomInt(4) > 0) {
    return mutateOne(inner as Record<string, unknown>)
  }
  const isLonger = typeof inner === 'string' && randomInt(2) === 0
  // A copy, since a later mutation may reach into the value and would otherwise change the list.
  value[key] = isLonger
    ? inner + (texts[randomInt(texts.length)] ?? '')
    : structuredClone(strange[randomInt(strange.length)])
}
