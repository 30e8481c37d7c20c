/** The Lambda driver passes the driver suite at its simulator, and opens the ports of an order. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import { manualClock } from '../../../../test/sim/clock.ts'
import { LambdaSim } from '../../../../test/sim/clouds/lambda/cloud.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import { unitId } from '../../../domain/unit.ts'
import { offerIdOf } from '../offer.ts'
import { lambda } from './cloud.ts'

const region = 'us-east-1'
const type = 'gpu_1x_h100_sxm5'

function benchOf(sim: LambdaSim): CloudBench {
  return {
    ...fleetFaults(sim, lambda),
    credentials: { apiKey: sim.apiKey },
    offer: { region, type, gpus: 1, paysUsdPerGpuHour: '3.29' },
    operations: { create: 'launchInstance', list: 'listInstances' },
    noCapacity: {
      kind: 'answer',
      answer: {
        status: 400,
        body: { error: { code: 'instance-operations/launch/insufficient-capacity', message: 'Sold out.' } },
      },
    },
    setCapacity: (units) => sim.setCapacity(type, region, units),
    raiseCost: () => sim.setPrice(type, 330),
    withdraw: () => void sim.types.delete(type),
    bills: () => sim.bills(),
    booted: (tag) => sim.booted(tag),
    showStrangeState: () => void (sim.runningState = 'hibernated'),
  }
}

cloudConformance({ vendor: lambda, makeBench: (clock) => benchOf(new LambdaSim({ clock })) })

it('opens the ports of an order with a ruleset of its region, which goes after the machine', async () => {
  let sim = new LambdaSim({ clock: manualClock() })
  const opened = await openBench(lambda, (clock) => {
    sim = new LambdaSim({ clock })
    return benchOf(sim)
  })
  const { driver, clock, spec } = opened
  const { signal } = new AbortController()
  const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
  const order = spec({ ports: [8080, 9000] })
  // The launch is lost: the next attempt finds the ruleset.
  sim.server.arm('launchInstance', { kind: 'lost' })
  await expect(driver.create(tag, order, signal)).rejects.toBeInstanceOf(Error)
  const outcome = await driver.create(tag, order, signal)
  expect(sim.rulesets.all()).toMatchObject([
    { name: tag, region, rules: [{ port_range: [8080, 8080] }, { port_range: [9000, 9000] }] },
  ])
  const ruleset = (await driver.companions.list(tag, signal)).find(({ what }) => what === 'firewall-ruleset')
  if (outcome.kind !== 'created' || ruleset === undefined) throw new Error('the order was not created')
  await expect(driver.companions.remove(ruleset, signal)).rejects.toBeInstanceOf(Error)
  clock.advance(60_000)
  await driver.destroy(outcome.externalId, signal)
  clock.advance(60_000)
  await driver.companions.remove(ruleset, signal)
  expect(sim.rulesets.all()).toEqual([])
  // A region where the vendor refuses rulesets is no place for the order.
  const refusal = { status: 400, body: { error: { code: 'global/invalid-parameters', message: 'Refused.' } } }
  sim.server.arm('createFirewallRuleset', { kind: 'answer', answer: refusal })
  const other = tagOf('cafe000000', 'rental', { id: 8, nonce: 'c0ffee00' })
  expect(await driver.create(other, order, signal)).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
  expect(await driver.companions.list(other, signal)).toEqual([])
  expect(sim.server.violations).toEqual([])
  await opened.close()
})

describe('lambda only', () => {
  const { signal } = new AbortController()
  const tag = (id: number) => tagOf('cafe000000', 'rental', { id, nonce: 'c0ffee00' })
  let [sim, opened]: [LambdaSim, OpenBench] = [undefined as never, undefined as never]
  beforeEach(async () => {
    opened = await openBench(lambda, (clock) => benchOf((sim = new LambdaSim({ clock }))))
  })
  afterEach(async () => {
    await opened.close()
    if (sim.server.violations.length > 0) throw new Error(sim.server.violations.join('\n'))
  })
  const run = async () => {
    const outcome = await opened.driver.create(tag(1), opened.spec(), signal)
    if (outcome.kind !== 'created') throw new Error(outcome.message)
    opened.clock.advance(60_000)
    return outcome.externalId
  }

  it('sends all of seven orders at once, as its launch limit allows, and postpones the others (issue 31, 8: S-2)', async () => {
    const startedAt = opened.clock.now()
    let left = [1, 2, 3, 4, 5, 6, 7]
    for (let rounds = 0; left.length > 0 && rounds < 20; rounds += 1) {
      const outcomes = await Promise.all(
        left.map(async (id) => ({ id, ...(await opened.driver.create(tag(id), opened.spec(), signal)) })),
      )
      expect(outcomes.filter(({ kind }) => kind === 'refused')).toEqual([])
      left = outcomes.filter(({ kind }) => kind === 'postponed').map(({ id }) => id)
    }
    expect([...sim.launches().values()]).toEqual([1, 1, 1, 1, 1, 1, 1])
    expect(opened.clock.now() - startedAt).toBeGreaterThanOrEqual(6 * 12_000)
    expect(opened.driver.providers.pausedUntil('main')).toBeUndefined()
  })

  it.each(['unhealthy', 'hibernated'] as const)(
    'pays for a machine that is %s, and its customer does not',
    async (state) => {
      await run()
      sim.runningState = state
      expect(await opened.driver.list(tag(1), signal)).toMatchObject([
        { state: 'unreachable', cost: { perHour: 3_290_000_000n } },
      ])
    },
  )

  it('takes the error for a machine that ends already as done, and every other one as an error (issue 31, 8: L-3)', async () => {
    const id = await run()
    await opened.driver.destroy(id, signal)
    await opened.driver.destroy(id, signal)
    opened.clock.advance(60_000)
    expect(await opened.driver.list(tag(1), signal)).toEqual([])
    sim.server.arm('terminateInstance', { kind: 'answer', answer: { status: 500, body: {} } })
    const other = await run()
    await expect(opened.driver.destroy(other, signal)).rejects.toThrow('500')
  })

  it.each([
    ['provider/quota-limit', 'no_capacity'],
    ['global/invalid-parameters', 'rejected_by_provider'],
  ])(
    'takes %s for %s, and tells the operator alone what the vendor said (issue 31, 8: L-2, S-5)',
    async (code, reason) => {
      const answer = { status: 400, body: { error: { code, message: 'Ask support about ticket 17.' } } }
      sim.server.arm('launchInstance', { kind: 'answer', answer })
      const outcome = await opened.driver.create(tag(1), opened.spec(), signal)
      expect(outcome).toMatchObject({ kind: 'refused', reason, message: 'Lambda refused the order.' })
      expect(outcome.kind === 'refused' && outcome.detail).toContain('ticket 17')
    },
  )

  it('opens no ports where rulesets have no effect (issue 31, 8: L-5)', async () => {
    sim.setCapacity(type, 'us-south-1', 1)
    const offerId = offerIdOf('lambda', { account: 'main', region: 'us-south-1', type })
    const nodes = [{ machineId: unitId(offerId, 1), gpuIndexes: [0] }]
    const outcome = await opened.driver.create(tag(1), opened.spec({ nodes, ports: [8080] }), signal)
    expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
  })

  it('sells what it can read, and never takes a machine that it cannot read for gone (issue 31, 8: S-8)', async () => {
    const id = await run()
    const answered = await fetch(`${opened.baseUrl}/api/v1/instance-types`, { headers: bearer(sim) })
    const types = (await answered.json()) as { data: Record<string, object> }
    const first = Object.keys(types.data)[0] ?? ''
    types.data[first] = { instance_type: { name: first } }
    sim.server.arm('listInstanceTypes', { kind: 'answer', answer: { status: 200, body: types }, isStrange: true })
    sim.server.limitsRate = false
    expect((await opened.driver.inventory(signal)).length).toBeGreaterThan(0)
    expect(opened.warnings).toHaveLength(1)
    const bare = { data: [{ id: id.slice('main/'.length), name: tag(1) }] }
    sim.server.arm('listInstances', { kind: 'answer', answer: { status: 200, body: bare }, isStrange: true })
    const [machine] = await opened.driver.list(tag(1), signal)
    expect(machine).toMatchObject({ externalId: id, state: 'unreachable' })
    expect(machine?.cost).toBeUndefined()
  })
})

function bearer(sim: LambdaSim): Record<string, string> {
  return { authorization: `Bearer ${sim.apiKey}` }
}
