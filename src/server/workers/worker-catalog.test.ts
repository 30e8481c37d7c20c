/** The shares of a deployment add up to what it allows. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { deploymentOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import type { Catalog, Deployment } from '../../gateway/catalog.ts'
import { catalogOfServer, catalogOfWorker } from './worker-catalog.ts'

const address = { kind: 'tcp', host: '127.0.0.1', port: 1, tls: false } as const

function catalogWith(deployment: Partial<Deployment>): Catalog {
  const model = modelOn([{ ...deploymentOn({ host: '127.0.0.1', port: 1 }), address, ...deployment }])
  return new Map([[model.name, model]])
}

function placesIn(catalog: Catalog): number {
  return [...catalog.values()].flatMap(({ deployments }) => deployments).reduce((sum, one) => sum + one.concurrency, 0)
}

test('the server and its workers together use every place of a deployment, and no more', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5_000 }), fc.integer({ min: 2, max: 64 }), (concurrency, workers) => {
      const catalog = catalogWith({ concurrency })
      const all = [
        catalogOfServer(catalog, workers),
        ...Array.from({ length: workers }, (_, worker) => catalogOfWorker(catalog, workers, worker)),
      ]
      expect(all.map(placesIn).reduce((sum, places) => sum + places, 0)).toBe(concurrency)
    }),
  )
})

test.each([
  ['a deployment with few places', { concurrency: 4 }],
  ['an engine of this server', { concurrency: 1_000, address: { kind: 'unix', path: '/x' } }],
  ['a rented machine', { concurrency: 1_000, address: { kind: 'link', hostId: 'h', workloadId: 'w', port: 1 } }],
] as const)('the server alone serves %s', (_, deployment) => {
  const catalog = catalogWith(deployment)
  expect(catalogOfWorker(catalog, 2, 0).size).toBe(0)
  expect(catalogOfServer(catalog, 2)).toEqual(catalog)
})
