import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf } from '../base/instant.ts'
import { nanoUsdOf, usd } from '../base/money.ts'
import type { DeploymentSpec } from '../contract/managed-deployment.ts'
import { containerOf, describeGpus, planReplica, type ReplicaCandidate, type ReplicaRequest } from './replica-plan.ts'

const now = instantOf(Date.UTC(2026, 10, 18))
const GIB_IN_MIB = 1_024
const spec: DeploymentSpec = {
  recipe: { name: 'vllm', hubModel: 'owner/seven', weightsGib: 14 },
  gpus: { count: 2 },
}

function machine(id: string, price: string, changes: Partial<ReplicaCandidate> = {}): ReplicaCandidate {
  return {
    id,
    price_nano_per_gpu_hour: usd(price),
    gpu_ram_mib: 24 * GIB_IN_MIB,
    gpus_total: 8,
    hardware: { ramGb: 512 },
    hasDownloads: true,
    ...changes,
  }
}

function plan(machines: readonly ReplicaCandidate[], changes: Partial<ReplicaRequest> = {}) {
  const request = { model: 'm', spec, container: { weights: null }, hourlyBudget: null, living: [], past: [] }
  const { choices, overBudget } = planReplica({ ...request, ...changes }, machines, now)
  const texts = choices.map((choice) => (choice.ok ? choice.value.machine.id : choice.reason))
  return { texts, choices, overBudget }
}

const living = (cost: string, node: string | null = null) => ({ node, cost_per_hour: usd(cost) })
const own = { recipe: { name: 'berth-engine', weightsGib: 1 }, gpus: { count: 1 } } as DeploymentSpec

describe('a plan for a replica', () => {
  test.each<[string, ReplicaCandidate[], Partial<ReplicaRequest>, string[], string | undefined]>([
    ['no machine', [], {}, [], undefined],
    ['the cheapest first', [machine('b', '2'), machine('a', '1')], {}, ['a', 'b'], undefined],
    [
      'at equal price the one without a replica',
      [machine('a', '1'), machine('b', '1')],
      { living: [living('1', 'a')] },
      ['b', 'a'],
      undefined,
    ],
    [
      'a model that fits only the second',
      [machine('small', '1', { gpu_ram_mib: 4 * GIB_IN_MIB }), machine('large', '2')],
      {},
      ['model_does_not_fit', 'large'],
      undefined,
    ],
    [
      'GPUs of AMD for an image for those of NVIDIA (gpus promise 47)',
      [machine('amd', '1', { hardware: { ramGb: 512, gpuVendor: 'amd' } }), machine('nvidia', '2')],
      {},
      ['gpu_vendor_differs', 'nvidia'],
      undefined,
    ],
    [
      'GPUs of NVIDIA for an image for those of AMD (gpus promise 47)',
      [machine('nvidia', '1'), machine('amd', '2', { hardware: { ramGb: 512, gpuVendor: 'amd' } })],
      { spec: { ...spec, recipe: { ...spec.recipe, gpuVendor: 'amd' } } },
      ['gpu_vendor_differs', 'amd'],
      undefined,
    ],
    [
      'GPUs of AMD for an engine that uses none',
      [machine('amd', '1', { hardware: { ramGb: 512, gpuVendor: 'amd' } })],
      { spec: own },
      ['amd'],
      undefined,
    ],
    [
      'weights, which one cannot download',
      [machine('a', '1', { hasDownloads: false }), machine('b', '2')],
      { container: { weights: { mountPath: '/models', files: [] } } },
      ['b'],
      undefined,
    ],
    ['our own engine, which is downloaded', [machine('a', '1', { hasDownloads: false })], { spec: own }, [], undefined],
    // Two GPUs at $1.50 are exactly the budget.
    ['exactly the budget', [machine('a', '1.5')], { hourlyBudget: usd('3') }, ['a'], undefined],
    ['more than the budget', [machine('a', '1.5')], { hourlyBudget: usd('2.99') }, [], 'hourly_budget'],
    [
      'what living replicas leave of the budget',
      [machine('a', '1'), machine('b', '2')],
      { hourlyBudget: usd('5'), living: [living('3')] },
      ['a'],
      'hourly_budget',
    ],
    [
      'a budget that is overdrawn',
      [machine('free', '0')],
      { hourlyBudget: usd('1'), living: [living('3')] },
      ['free'],
      undefined,
    ],
  ])('has %s', (_, machines, changes, expected, overBudget) => {
    const { texts, overBudget: failure } = plan(machines, changes)
    expect([texts, failure?.reason]).toEqual([expected, overBudget])
  })

  test('names the price of the best machine that the budget does not allow, and what is left', () => {
    const { overBudget } = plan([machine('b', '9'), machine('a', '4')], {
      hourlyBudget: usd('5'),
      living: [living('2')],
    })
    expect(overBudget?.message).toContain('8')
    expect(overBudget?.message).toContain('3')
  })

  test('never exceeds the budget, and leaves out no machine that it allows', () => {
    const machines = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 12 })
    fc.assert(
      fc.property(
        machines,
        fc.integer({ min: 0, max: 60 }),
        fc.integer({ min: 0, max: 60 }),
        (prices, budget, cost) => {
          const candidates = prices.map((price, n) => machine(`m${n}`, String(price)))
          const request = { hourlyBudget: usd(String(budget)), living: [living(String(cost))] }
          const { choices, overBudget } = plan(candidates, request)
          const costs = choices.map((choice) => (choice.ok ? choice.value.costPerHour : undefined))
          const allowed = prices.filter((price) => 2 * price <= Math.max(0, budget - cost)).toSorted((a, b) => a - b)
          expect(costs).toEqual(allowed.map((price) => nanoUsdOf(2n * usd(String(price)))))
          expect(overBudget === undefined).toBe(allowed.length === prices.length)
        },
      ),
    )
  })
})

test('a container of a private deployment has neither files of the operator nor names of others', () => {
  const own = { model: 'acc_1/m', kind: 'chat', is_public: false, account_id: 'acc_1' } as const
  const files = [{ path: 'a', bytes: 1, sha256: 'a'.repeat(64), source: { kind: 'object', key: 'a' } }]
  const withFiles = {
    ...spec,
    recipe: { name: 'vllm', weights: { mountPath: '/m', files } },
  } as unknown as DeploymentSpec
  expect(containerOf(own, withFiles, 'key')).toMatchObject({ ok: false, reason: 'recipe_option' })
  const source = { kind: 'https', url: 'https://files.test/poet' }
  const file = { path: 'poet/adapter_model.safetensors', bytes: 1, sha256: 'a'.repeat(64), source }
  const weights = { mountPath: '/m', files: [file] }
  const adapters = (name: string) =>
    ({ ...spec, recipe: { name: 'vllm', weights, adapters: [{ name, path: 'poet' }] } }) as unknown as DeploymentSpec
  expect(containerOf(own, adapters('other/x'), 'key')).toMatchObject({ ok: false, reason: 'recipe_option' })
  const container = containerOf(own, adapters('x'), 'key')
  expect(container.ok && container.value.adapters.map(({ name }) => name)).toEqual(['acc_1/x'])
})

test('GPUs are described with what limits them', () => {
  const gpus = { count: 2, model: 'H100', minMemoryGb: 80, region: 'here', maxUsdPerGpuHour: '3' }
  expect(describeGpus({ gpus })).toBe('2 × H100 with 80 GB in here for at most $3 per GPU-hour')
  expect(describeGpus({ gpus: { count: 1 } })).toBe('1 × GPU')
})
