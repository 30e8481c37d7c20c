/** Supplier commands: list, price and unlist machines, and show earnings. */
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { TestAgent, testOffer } from '../../../test/harness/host-sockets.ts'
import { succeed } from '../../../test/harness/journey.ts'
import type { Call } from '../../../test/harness/server.ts'
import { waitFor, waitForDayWithTimeLeft } from '../../../test/harness/wait.ts'
import { formatInstant, systemClock } from '../../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf, sumUsd, usd } from '../../base/money.ts'
import { HEARTBEAT_MS } from '../../domain/host.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let supplier: { id: string; key: string; call: Call }
let customer: { id: string; key: string; call: Call }
let agent: TestAgent
let beat: NodeJS.Timeout

/** Of simulated engines: a machine of the marketplace at $0.84, and one that is sold at the house price. */
const MACHINE = 'mock-iad-l40s-01'
const HOUSE_PRICED = 'mock-lab-h100-01'
const FEE_PERCENT = 15n

beforeAll(async () => {
  cli = await startCliTest({ BERTH_DRIVERS: 'mock,host' })
  supplier = await cli.server.account({ platformFeePercentage: Number(FEE_PERCENT) })
  customer = await cli.server.account({ usd: '1000' })
})
afterAll(async () => {
  clearInterval(beat)
  await agent.end()
  await cli.close()
})

const berth = (...args: string[]) => cli.berth([...args, '--key', supplier.key])

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await berth(...args)
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return out
}

const inTerminal = (...args: string[]): Promise<string> => cli.onScreen(args, { BERTH_KEY: supplier.key })

test('explains how to join a machine when there are none', async () => {
  expect(await inTerminal('supply', 'machines')).toContain('berth supply tokens create')
  const screen = await inTerminal('supply', 'earnings')
  expect(screen).toMatch(/^Unpaid +\$0\.00; /m)
  expect(screen).toMatch(/^Platform fee +15%/m)
  expect(screen).toContain('Nothing was earned in this time.\n')
  expect(await done('supply', 'earnings', '--by', 'machine')).toContain('Nothing was earned in this time.\n')
})

test('lists machines with price and rented GPUs, in pages', async () => {
  for (const id of [MACHINE, HOUSE_PRICED]) {
    const body = { supplierId: supplier.id, reason: 'for the test' }
    await waitFor('the machine to be known', async () => {
      const { status } = await cli.server.operator('PATCH', `/v2/operator/machines/${id}`, body)
      return status === 200
    })
  }
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { token } = JSON.parse(await done('supply', 'tokens', 'create', '--json')) as { token: string }
  const body = { token, name: 'pier-1', offer: testOffer, publicKey: publicKey.export({ format: 'jwk' }).x }
  await succeed(cli.server.anonymous, 'POST', '/v2/agent/join', body)
  agent = await new TestAgent(cli.server.url, { id: 'pier-1', privateKey }).enter()
  agent.report()
  beat = setInterval(() => agent.report(), HEARTBEAT_MS)
  await waitFor('the machine to be on sale', async () => (await done('supply', 'machines')).includes('pier-1'))

  const screen = await inTerminal('supply', 'machines')
  expect(screen).toMatch(/^mock-lab-h100-01 +on sale +mock-\S+ +8 H100 .+ +0 of 8 +book {2}vm$/m)
  expect(screen).toMatch(/^mock-iad-l40s-01 +on sale +us-\S+ +4 L40S +0 of 4 +\$0\.84 {2}container$/m)
  expect(screen).toMatch(/^pier-1 +on sale +us-\S+ +2 RTX \S+ +0 of 2 +\$0\.40 {2}container +\d\S*$/m)
  expect(screen).toMatch(/\n\n3 machines\. 3 on sale; 0 of \d+ GPUs rented\. Prices are per GPU-hour\.\n$/)

  const seen: string[] = []
  let next: string[] = ['supply', 'machines', '--limit', '2']
  while (next.length > 0) {
    const page = await done(...next)
    seen.push(...page.split('\n').flatMap((line) => /^(?:mock|pier)-\S+/.exec(line) ?? []))
    next = /^There are more: berth (.*)$/m.exec(page)?.[1]?.split(' ') ?? []
  }
  expect(seen).toEqual([MACHINE, HOUSE_PRICED, 'pier-1'])
  expect(JSON.parse(await done('supply', 'machines', '--json'))).toMatchObject({
    machines: [{ id: MACHINE, gpusInUse: 0 }, { id: HOUSE_PRICED }, { id: 'pier-1' }],
    nextCursor: null,
  })
})

test('a price applies to new rentals, and a machine off sale keeps its tenants', async () => {
  // The next test shows earnings by day, so all of them must fall on one day.
  await waitForDayWithTimeLeft()
  const order = { cluster_name: 'mock-iad', node_name: MACHINE, gpu_count: 2 }
  const { instance_name } = await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', order)
  const instances = async () =>
    (await succeed(customer.call, 'GET', '/v1/marketplace/instances')).instances as Array<{
      instance: { status: string; pricing: { price: { amount: number } } }
    }>
  await waitFor('it to run', async () => (await instances())[0]?.instance.status === 'online')

  expect(await done('supply', 'price', MACHINE, '0.52')).toBe(
    `${MACHINE} costs $0.52 per GPU-hour. Running rentals keep their price.\n`,
  )
  expect((await instances())[0]?.instance.pricing.price.amount).toBe(0.84)
  expect(await done('supply', 'unlist', MACHINE)).toBe(`${MACHINE} is off sale. Running rentals (2 GPUs) continue.\n`)
  const again = await customer.call('POST', '/v1/marketplace/instances/create', order)
  expect(again).toMatchObject({ status: 400, body: { reason: 'node_not_ready' } })
  expect(await done('supply', 'machines')).toMatch(/^mock-iad-l40s-01 +off sale .* 2 of \d +\$0\.52 /m)
  expect(await done('supply', 'price', MACHINE, '0.55')).toContain(`To put it on sale: berth supply list ${MACHINE}\n`)
  expect(await done('supply', 'list', MACHINE)).toBe(`${MACHINE} is on sale at $0.55 per GPU-hour.\n`)
  expect(await done('supply', 'list', HOUSE_PRICED)).toBe(
    `${HOUSE_PRICED} is on sale at the price in the price book.\n`,
  )
  expect(JSON.parse(await done('supply', 'unlist', 'pier-1', '--json'))).toMatchObject({ id: 'pier-1', listed: false })
  await done('supply', 'drain', 'pier-1')
  expect(await done('supply', 'list', 'pier-1')).toBe('pier-1 goes on sale when it is no longer draining.\n')

  await succeed(customer.call, 'POST', '/v1/marketplace/instances/terminate', { id: instance_name })
  await waitFor('it to be gone', async () => (await instances()).length === 0)
})

test('earnings are the customer’s payment minus the fee, by day and by machine', async () => {
  await waitFor('the bill to be closed', async () => {
    const balance = await succeed(customer.call, 'GET', '/v2/customer/balance')
    return balance.heldUsd === '0.000000000'
  })
  const { lines } = await succeed(customer.call, 'GET', '/v2/customer/statement')
  const charges = (lines as Array<{ kind: string; amountUsd: string }>).filter(({ kind }) => kind === 'charge')
  // Each is shared by itself.
  const shares = charges.map(({ amountUsd }) => ((0n - usd(amountUsd)) * (100n - FEE_PERCENT)) / 100n)
  const earned = sumUsd(shares.map(nanoUsdOf))
  expect(earned).toBeGreaterThan(10_000n)
  const payout = { amountUsd: '0.00001', reason: 'bank transfer' }
  await succeed(cli.server.operator, 'POST', `/v2/operator/accounts/${supplier.id}/payout`, payout)
  const words = formatUsdForPeople(earned).replace('$', String.raw`\$`)
  const today = formatInstant(systemClock.now()).slice(0, 10)

  const screen = await inTerminal('supply', 'earnings', '--days', '2')
  const unpaid = formatUsdForPeople(nanoUsdOf(earned - 10_000n))
  expect(screen).toContain(`Unpaid        ${unpaid}; `)
  expect(screen).toMatch(/^Paid out +<\$0\.0001 in total$/m)
  expect(screen).toMatch(new RegExp(String.raw`^Earned +${words} from \d{4}-\d\d-\d\d to ${today} \(UTC\)$`, 'm'))
  expect(screen).toMatch(/^Occupancy +[\d.]+% of the GPU-hours in that time$/m)
  expect(screen).toMatch(new RegExp(String.raw`\n\d{4}-\d\d-\d\d +0 +\$0\.00\n${today} +[\d.]+ +${words}\n$`))
  // Days on which nothing was sold would fill the screen.
  const long = await done('supply', 'earnings', '--days', '90')
  expect(long.match(/^\d{4}-\d\d-\d\d /gm)).toEqual([`${today} `])

  const byMachine = await inTerminal('supply', 'earnings', '--by', 'machine')
  const row = String.raw`^${MACHINE} +[\d.]+ +[\d.]+ +[\d.]+% +${words} +${words}$`
  expect(byMachine).toMatch(new RegExp(row, 'm'))
  expect(byMachine).toMatch(/^pier-1 +0 +[\d.]+ +0% +\$0\.00 +\$0\.00$/m)
  expect(byMachine).toContain('\n3 machines. ')
  expect(JSON.parse(await done('supply', 'earnings', '--days', '1', '--json'))).toMatchObject({
    to: today,
    from: today,
  })
})

test('a removed machine is shown on request', async () => {
  expect(await done('supply', 'machines')).toMatch(/^pier-1 +draining /m)
  clearInterval(beat)
  expect(await cli.berth(['supply', 'leave', 'pier-1'])).toMatchObject({ code: 2, out: '' })
  await done('supply', 'leave', 'pier-1', '--yes')
  const output = await done('supply', 'machines')
  expect(output).not.toContain('pier-1')
  expect(output).toContain('\n2 machines. 2 on sale; ')
  expect(output).toContain('\n1 removed machine not shown: berth supply machines ls --include-left\n')
  expect(await done('supply', 'machines', '--include-left')).toMatch(/^pier-1 +left /m)
})

test('rejects invalid requests with a next step', async () => {
  const unknown = await berth('supply', 'price', 'mock-iad-l40s-02', '1')
  expect(unknown).toMatchObject({
    code: 1,
    out: '',
    error: expect.stringContaining('To list them: berth supply machines ls'),
  })
  const byTheBook = await berth('supply', 'price', HOUSE_PRICED, '1')
  expect(byTheBook).toMatchObject({ code: 1, out: '', error: expect.stringContaining('price book') })
  for (const [args, message] of [
    [['price', MACHINE, 'cheap'], 'Must be a price in USD up to 1000'],
    [['price', MACHINE, '1000.01'], 'Must be a price in USD up to 1000'],
    [['price', MACHINE], "missing required argument 'usd'"],
    [['list', 'no such'], 'Not a valid value.'],
    [['machines', '--limit', '0'], 'from 1 to 1000.'],
    [['earnings', '--days', '91'], 'from 1 to 90.'],
    [['earnings', '--by', 'week'], 'Allowed choices are day, machine'],
  ] as const) {
    expect(await berth('supply', ...args)).toMatchObject({ code: 2, out: '', error: expect.stringContaining(message) })
  }
})
