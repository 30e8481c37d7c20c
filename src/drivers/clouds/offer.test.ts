/** Which offers of vendors can be sold. */
import { expect, test } from 'vitest'
import { usd } from '../../base/money.ts'
import type { CloudOffer } from './cloud.ts'
import { lambda } from './lambda/cloud.ts'
import { gpuOf, mergeOffers, offerIdOf, placeOfMachine, sellableOf } from './offer.ts'
import type { CloudAccount } from './world.ts'

const account: CloudAccount = {
  id: 'prv_1',
  name: 'main',
  version: 1,
  baseUrl: '',
  credentials: {},
  regions: { 'moon-1': 'us-central-1', 'moon-2': 'nowhere' },
  preference: 3,
  sellsBelowCost: false,
  closed: null,
}
const offer: CloudOffer = {
  type: 'gpu_8x_h100_sxm5',
  region: 'us-east-1',
  kind: 'virtual-machine',
  gpu: 'H100 (80 GB SXM5)',
  gpus: 8,
  networkType: 'ethernet',
  available: null,
  costPerHour: usd('23.000000001'),
  cpus: 208,
  ramGb: 1800,
  storageGb: 22_528,
}

test.each([
  ['H100 (80 GB SXM5)', 'h100', 'sxm5'],
  ['H100 (80 GB PCIe)', 'h100', 'pcie'],
  ['8x NVIDIA H100 80GB HBM3', 'h100', 'sxm5'],
  ['nvidia.h200.sxm', 'h200', 'sxm5'],
  ['H200 NVL', 'h200', 'pcie'],
  ['B200 (180 GB SXM6)', 'b200', 'sxm6'],
  ['A10 (24 GB PCIe)', null, 'pcie'],
  ['GH200 (96 GB)', undefined, undefined],
  ['Radeon', undefined, undefined],
])('%s is a %s', (text, gpuType, formFactor) => {
  expect(gpuOf(text)?.gpuType).toBe(gpuType)
  expect(gpuOf(text)?.formFactor).toBe(formFactor)
})

test('an offer is sold whole, at a cost per GPU that is rounded up', () => {
  expect(sellableOf(lambda, account, offer)).toMatchObject({
    kind: 'sold',
    item: {
      region: 'us-east-1',
      gpuType: 'h100',
      gpusTotal: 8,
      soldWhole: true,
      costUsdPerGpuHour: '2.875000001',
      preference: 3,
    },
  })
})

test.each([
  [{ gpu: 'A10 (24 GB PCIe)' }, 'gpu_not_sold'],
  [{ region: 'moon-2' }, 'region_not_mapped'],
  [{ region: 'moon-3' }, 'region_not_mapped'],
  [{ type: 'x'.repeat(80) }, 'name_too_long'],
  [{ available: 0 }, 'no_capacity'],
  // This region is for virtual machines only.
  [{ kind: 'bare-metal' }, 'region_not_mapped'],
] as const)('an offer with %j is not sold: %s', (change, reason) => {
  expect(sellableOf(lambda, account, { ...offer, ...change })).toEqual({ kind: 'unsold', reason })
})

test('an account maps regions that the driver does not know', () => {
  expect(sellableOf(lambda, account, { ...offer, region: 'moon-1' })).toMatchObject({
    item: { region: 'us-central-1' },
  })
})

test('the id of an offer leads back to its account, region and type', () => {
  const place = { account: 'main', region: 'us-east-1', type: 'h100:8.x' }
  const id = offerIdOf('lambda', place)
  expect(placeOfMachine('lambda', id)).toEqual(place)
  expect(placeOfMachine('lambda', `${id}.12`)).toEqual(place)
  expect(placeOfMachine('verda', id)).toBeUndefined()
  expect(placeOfMachine('lambda', 'mock-lab-h100-01')).toBeUndefined()
})

test('offers of one type in one place become one, with the larger number and the higher price (issue 31, 8: S-4)', () => {
  const cheap = { ...offer, available: 0, costPerHour: usd('20') }
  const dear = { ...offer, available: 4, costPerHour: usd('21') }
  const elsewhere = { ...offer, region: 'us-west-1' }
  expect(mergeOffers([cheap, elsewhere, dear])).toEqual([dear, elsewhere])
  expect(
    mergeOffers([
      { ...dear, available: 0 },
      { ...cheap, available: 2 },
    ]),
  ).toEqual([{ ...dear, available: 2 }])
  expect(mergeOffers([cheap, { ...dear, available: null }])).toEqual([{ ...dear, available: null }])
})
