/** Agents spend on a clock that the test controls: random calls never exceed the limit of their key. */
import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { tools } from '../src/server/mcp/tool-list.ts'
import { openAgent, type AgentClient } from './harness/agent-client.ts'
import { startJourney, succeed, type Journey } from './harness/journey.ts'

/** `BERTH_TEST_AGENT_CALLS`: how many calls (CONTRIBUTING.md). */
const CALLS = Number(process.env['BERTH_TEST_AGENT_CALLS'] ?? 150)
const LIMIT = '12.5'
const LONG_MS = 3_600_000

let journey: Journey
let customer: Awaited<ReturnType<Journey['account']>>
beforeAll(async () => {
  journey = await startJourney()
  customer = await journey.account({ usd: '100000' })
})
afterAll(() => journey.close())

const machines = ['mock-sin-a100-01', 'mock-sin-rtx3090-01', 'none']
const amount = fc.oneof(fc.constantFrom(0.01, 5, 12.5, 13), fc.double({ min: 0.000001, max: 500, noNaN: true }))
const hours = fc.option(fc.double({ min: 0.01, max: 720, noNaN: true }), { nil: undefined })
const wish = fc.record({
  machineId: fc.constantFrom(...machines),
  gpus: fc.integer({ min: 1, max: 9 }),
  spendingLimitUsd: fc.option(amount, { nil: undefined }),
  hours,
})
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant('quote' as const), wish }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant('rent' as const), at: fc.nat(20), isChanged: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('power' as const),
      at: fc.nat(20),
      tool: fc.constantFrom('start', 'stop', 'terminate'),
      hours,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('any' as const),
      tool: fc.constantFrom(...tools.map(({ name }) => name)),
      junk: fc.object({ maxDepth: 1 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('wait' as const), minutes: fc.integer({ min: 1, max: 600 }) }) },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

test(`P52: ${CALLS} random calls never exceed the limit of the key`, { timeout: LONG_MS }, async () => {
  const { key } = await succeed(customer.call, 'POST', '/v2/api-keys', {
    name: 'agent',
    scopes: ['compute:read', 'compute:write', 'billing:read'],
    totalLimitUsd: LIMIT,
  })
  const client = await openAgent('2026-07-28', { url: `${journey.url}/mcp`, key: key as string })
  const quotes: string[] = []
  const rentals: string[] = []
  const seed = Number(process.env['BERTH_TEST_FUZZ_SEED'] ?? randomInt(1_000_000))
  const steps = fc.sample(step, { numRuns: CALLS, seed })
  for (const one of steps) {
    await take(client, one, { quotes, rentals })
    const { groups } = await succeed(customer.call, 'GET', '/v2/usage/costs?groupBy=key')
    const spent = (groups as Array<{ id: string; costUsd: string }>).find(
      ({ id }) => id === (key as string).split('_')[1],
    )
    expect([`seed ${seed}`, usd(spent?.costUsd ?? '0') <= usd(LIMIT)]).toEqual([`seed ${seed}`, true])
  }
  // All that it has is ended by its limits alone.
  await journey.advanceBy(HOUR_MS, 12)
  const { rentals: left } = await succeed(customer.call, 'GET', '/v2/rentals?ended=include')
  const unbounded = left.filter((one: { name: string }) => !rentals.includes(one.name))
  expect(unbounded).toEqual([])
  expect(rentals.length).toBeGreaterThan(0)
  await client.close()
})

async function take(client: AgentClient, one: Step, { quotes, rentals }: { quotes: string[]; rentals: string[] }) {
  const confirmed = async (tool: string, args: object) => {
    const answer = await client.call(tool, args)
    if (answer.reason !== 'confirmation_required') return answer
    const [, confirm = ''] = /The name is "([^"]+)"/.exec(JSON.parse(answer.text).message as string) ?? []
    return client.call(tool, { ...args, confirm })
  }
  switch (one.act) {
    case 'quote': {
      const { value } = await client.call('get_quote', one.wish)
      if (value !== undefined) quotes.push(value.quote as string)
      return
    }
    case 'rent': {
      const quote = quotes.at(-1 - (one.at % Math.max(1, quotes.length))) ?? 'none'
      const answer = await confirmed('rent', { quote: one.isChanged ? `${quote}x` : quote })
      if (one.isChanged && answer.reason !== 'quote_invalid') throw new Error(`a changed quote: ${answer.text}`)
      const name = answer.value?.rental as string | undefined
      if (name !== undefined && !rentals.includes(name)) rentals.push(name)
      await journey.pass()
      return
    }
    case 'power': {
      const rental = rentals[one.at % Math.max(1, rentals.length)]
      if (rental === undefined) return
      await confirmed(one.tool, { rental, ...(one.tool === 'start' ? { hours: one.hours } : {}) })
      await journey.pass()
      return
    }
    case 'any':
      if (!['rent', 'create_volume', 'deploy_model'].includes(one.tool))
        await client.call(one.tool, one.junk).catch(() => undefined)
      return
    case 'wait':
      await journey.advanceBy((one.minutes * MINUTE_MS) / 2, 2)
  }
}
