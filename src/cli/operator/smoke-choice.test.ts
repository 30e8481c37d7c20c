/** Which machine a smoke test rents, and when it rents none. */
import { expect, test } from 'vitest'
import { MINUTE_MS } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { chooseOffer } from './smoke-choice.ts'

type Offer = Parameters<typeof chooseOffer>[2][number]

const account = { name: 'main', state: 'healthy', stateReason: null, sellsBelowCost: false } as const
const minutes = { billing: { from: 'running', incrementSeconds: 60, minimumSeconds: 0 } } as const

function offer(type: string, costPerHourUsd: string, change: Partial<Offer> = {}): Offer {
  return {
    offerId: `lambda:main:us-east-1:${type}`,
    type,
    providerRegion: 'us-east-1',
    region: 'us-east-1',
    gpu: 'H100',
    gpuType: 'h100',
    gpuCount: 1,
    networkType: 'ethernet',
    machineType: 'virtual-machine',
    available: 1,
    costPerHourUsd,
    unsold: null,
    sale: { pricePerHourUsd: '9.00', free: 1, rented: 0, seenAt: '2026-11-16T00:00:00.000Z' },
    ...change,
  }
}

test('takes the cheapest machine that is free and has a price that pays for it, and ends it before the cap', () => {
  const [sold] = [offer('c', '3').sale]
  const offers = [
    offer('a', '4'),
    offer('b', '3'),
    offer('free', '1', { sale: null }),
    offer('taken', '1', { sale: sold === null || sold === undefined ? null : { ...sold, free: 0 } }),
    offer('unpriced', '1', { sale: sold ? { ...sold, pricePerHourUsd: null } : null }),
    offer('loss', '1', { sale: sold ? { ...sold, pricePerHourUsd: '0.50' } : null }),
    offer('unsold', '1', { unsold: 'gpu_not_sold' }),
  ]
  const chosen = chooseOffer(account, minutes, offers, usd('2'))
  expect([chosen.offer.type, chosen.cost, chosen.endsAfterMs]).toEqual(['b', usd('3'), 38 * MINUTE_MS])
  const atLoss = chooseOffer({ ...account, sellsBelowCost: true }, minutes, offers, usd('2'))
  expect(atLoss.offer.type).toBe('loss')
})

test.each([
  ['suspended', { state: 'suspended' }, [offer('a', '1')], minutes, 'providers resume main'],
  ['nothing on sale', {}, [offer('a', '1', { sale: null })], minutes, 'providers offers main'],
  [
    'no price',
    {},
    [offer('a', '1', { sale: { pricePerHourUsd: null, free: 1, rented: 0, seenAt: '' } })],
    minutes,
    '--markup',
  ],
  ['too expensive', { sellsBelowCost: true }, [offer('a', '60')], minutes, '--spend-up-to 5.00'],
  [
    'a minimum period above the cap',
    {},
    [offer('a', '1')],
    { billing: { from: 'create', incrementSeconds: 3600, minimumSeconds: 86_400 } },
    '--spend-up-to 24.00',
  ],
] as const)('rents nothing: %s', (_, change, offers, kind, next) => {
  const choose = () => chooseOffer({ ...account, ...change }, kind, offers, usd('2'))
  expect(choose).toThrow(expect.objectContaining({ next: [expect.stringContaining(next)] }))
})
