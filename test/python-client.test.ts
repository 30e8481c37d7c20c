/** The generator of the Python client: where operations are found, and what becomes of names, amounts and times. */
import { expect, test } from 'vitest'
import { api } from '../src/contract/api.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { fieldName, placeOf, pythonName, snakeCase } from '../scripts/python-names.ts'
import { isPublic, pythonApi } from '../scripts/python-operations.ts'
import { writeResources } from '../scripts/python-resources.ts'
import { makeShapeWriter } from '../scripts/python-shapes.ts'
import { syncOf } from '../scripts/python-sync.ts'
import { makeTypeWriter } from '../scripts/python-types.ts'

const { operations, components } = pythonApi()
const types = makeTypeWriter(components)
const { resources, table } = writeResources(operations, types, makeShapeWriter(components))

test('P36: every operation that a key can call has a method of its own', () => {
  const expected = Object.entries<Endpoint>(api).filter(([, endpoint]) => isPublic(endpoint))
  expect(operations.map(({ id }) => id)).toEqual(expected.map(([id]) => id))
  const names = operations.map(({ place }) => [...place.group, place.method].join('.'))
  expect(new Set(names).size).toBe(names.length)
  expect(names).toEqual(expect.arrayContaining(['rentals.create', 'volumes.list', 'operator.accounts.credit']))
})

test.each([
  ['createBudget', '/v2/budgets', ['budgets'], 'create'],
  ['listSignUpInvitations', '/v2/operator/invitations', ['operator', 'sign_up_invitations'], 'list'],
  ['changePerson', '/v2/operator/people/{id}', ['operator', 'people'], 'change'],
  ['importProviderBill', '/v2/operator/providers/{name}/bills', ['operator', 'provider_bills'], 'import_'],
  ['createBatch', '/v1/batches', ['batches'], 'create'],
  // An operation of tomorrow.
  ['pauseDiscovery', '/v2/discovery/pause', ['discoveries'], 'pause'],
])('%s is a method by rule', (id, path, group, method) => {
  expect(placeOf(id, { path })).toEqual({ group, method })
})

test('names are those of Python', () => {
  expect(snakeCase('maxCostPerHourUsd')).toBe('max_cost_per_hour_usd')
  expect(snakeCase('managedK8sClusterId')).toBe('managed_k8s_cluster_id')
  expect(pythonName('from')).toBe('from_')
  expect(fieldName('model')).toBe('model')
  expect(fieldName('schema')).toBe('schema_')
})

test('amounts are decimals and times are aware, in both directions', () => {
  const models = types.models()
  expect(models).toMatch(/^class Rental\(BerthModel\):\n(?: .*\n|\n)*? {4}price_per_hour_usd: Usd = /m)
  expect(models).toMatch(/^class Rental\(BerthModel\):\n(?: .*\n|\n)*? {4}started_at: datetime \| None = /m)
  expect(models).toMatch(/^class StorageVolume\(BerthModel\):\n(?: .*\n|\n)*? {4}cost_per_hour: Usd = /m)
  expect(models).toMatch(/^ {4}key: str = Field\(repr=False\)$/m)
  expect(table).toMatch(/^CHANGE_RENTAL.*\("autoTerminateAt", "time"\).*\("spendingLimitUsd", "money"\)/m)
})

test('lists go on in the style of their operation', () => {
  const styles = new Map(operations.map(({ id, pages }) => [id, pages?.style]))
  expect(styles.get('listRentals')).toBe('cursor')
  expect(styles.get('listVolumes')).toBe('before')
  expect(styles.get('listFiles')).toBe('after')
  expect(styles.get('listMessageBatches')).toBe('after_id')
  expect(styles.get('searchMachines')).toBe('offset')
  expect(styles.get('listSshKeys')).toBe('whole')
  expect(styles.get('getRental')).toBeUndefined()
})

test('synchronous code is the asynchronous code without its words, and a new one is not forgotten', () => {
  expect(syncOf('async with a:\n    async for b in c():\n        await d.aclose()')).toBe(
    'with a:\n    for b in c():\n        d.close()',
  )
  expect(syncOf(resources)).not.toMatch(/\bawait\b|Async/)
  expect(() => syncOf('await asyncio.gather(a, b)')).toThrow('asyncio')
})
