/** The shares of a deployment add up to what it allows. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { deploymentOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import type { Catalog, Deployment } from '../../gateway/catalog.ts'
import { catalogOfServer, catalogOfWorker, movedLimits } from './worker-catalog.ts'

const address = { kind: 'tcp', host: '127.0.0.1', port: 1, tls: false } as const

function catalogWith(deployment: Partial<Deployment>): Catalog {
  const model = modelOn([{ ...deploymentOn({ host: '127.0.0.1', port: 1 }), id: 'd', address, ...deployment }])
  return new Map([[model.name, model]])
}

function placesIn(catalog: Catalog): number {
  return [...catalog.values()]
    .flatMap(({ deployments }) => deployments)
    .reduce((sum, one) => sum + (one.share ?? one.concurrency), 0)
}

test('the server and its workers together use every place of a limit, and no more (gpus promise 5)', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5_000 }),
      fc.integer({ min: 2, max: 64 }),
      fc.nat(100),
      (concurrency, workers, more) => {
        const catalog = catalogWith({ concurrency: Math.max(1, concurrency - more) })
        const limits = new Map([['d', concurrency]])
        const all = [
          catalogOfServer(catalog, limits, workers),
          ...Array.from({ length: workers }, (_, worker) => catalogOfWorker(catalog, limits, workers, worker)),
        ]
        expect(all.map(placesIn).reduce((sum, places) => sum + places, 0)).toBe(Math.max(1, concurrency - more))
        expect(Math.min(...all.filter(({ size }) => size > 0).map(placesIn))).toBeGreaterThanOrEqual(1)
      },
    ),
  )
})

test.each([
  ['a deployment with few places', { concurrency: 4 }],
  ['an engine of this server', { concurrency: 1_000, address: { kind: 'unix', path: '/x' } }],
  ['a rented machine', { concurrency: 1_000, address: { kind: 'link', hostId: 'h', workloadId: 'w', port: 1 } }],
] as const)('the server alone serves %s', (_, deployment) => {
  const catalog = catalogWith(deployment)
  const limits = new Map([['d', 1_000]])
  expect(catalogOfWorker(catalog, limits, 2, 0).size).toBe(0)
  expect(catalogOfServer(catalog, limits, 2)).toEqual(catalog)
})

test('a limit is divided again when it has moved by more than a tenth (gpus promise 5)', () => {
  const catalog = catalogWith({ concurrency: 1_000 })
  const moved = (before: number, now: number) => movedLimits(catalog, new Map([['d', before]]), () => now)
  expect(moved(100, 110)).toBeUndefined()
  expect(moved(100, 111)).toEqual(new Map([['d', 111]]))
  expect(moved(100, 89)).toEqual(new Map([['d', 89]]))
  expect(movedLimits(catalog, new Map(), () => 32)).toEqual(new Map([['d', 32]]))
})
