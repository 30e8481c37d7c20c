/** The Lambda driver passes the driver suite at its simulator, and opens the ports of an order. */
import { expect, it } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import { manualClock } from '../../../sim/clock.ts'
import { LambdaSim } from '../../../sim/clouds/lambda/cloud.ts'
import { cloudConformance, openBench, type CloudBench } from '../../../../test/harness/cloud-conformance.ts'
import { lambda } from './cloud.ts'

const region = 'us-east-1'
const type = 'gpu_1x_h100_sxm5'

function benchOf(sim: LambdaSim): CloudBench {
  return {
    server: sim.server,
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
    failBoot: () => void (sim.bootsFail = 1),
    lagList: () => void (sim.listLagMs = lambda.listLagMs),
    loseMachine: () => void (sim.preemptAfterMs = 120_000),
    refuseDestroy: () => void (sim.terminateRefusals = 1),
    setCapacity: (units) => sim.setCapacity(type, region, units),
    raiseCost: () => sim.setPrice(type, 330),
    withdraw: () => void sim.types.delete(type),
    leftovers: () => sim.leftovers(),
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
  const made = await driver.create(tag, order, signal)
  expect(sim.rulesets.all()).toMatchObject([
    { name: tag, region, rules: [{ port_range: [8080, 8080] }, { port_range: [9000, 9000] }] },
  ])
  const ruleset = (await driver.companions.list(tag, signal)).find(({ what }) => what === 'firewall-ruleset')
  if (made.kind !== 'created' || ruleset === undefined) throw new Error('the order was not created')
  await expect(driver.companions.remove(ruleset, signal)).rejects.toBeInstanceOf(Error)
  clock.advance(60_000)
  await driver.destroy(made.externalId, signal)
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
