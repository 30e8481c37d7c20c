/** The conditions that an operator's home page lists. */
import { expect, test } from 'vitest'
import { attentionOf } from './attention.ts'

type Summary = Parameters<typeof attentionOf>[0]
type Models = Parameters<typeof attentionOf>[1]

const calm = {
  gpus: { total: 8, rented: 2, faulty: 0 },
  hosts: { total: 2, offline: 0, quarantined: 0 },
  rentals: { running: 2, starting: 0, unreachable: 0, failed: 0, stuck: 0 },
} as Summary
const model = (name: string, more: object) =>
  ({ name, enabled: true, engine: null, local: null, deployments: [], ...more }) as unknown as Models['models'][number]

test('a faulty GPU and a model without a deployment need attention (issue 31, 10 F13)', () => {
  expect(attentionOf(calm, { models: [model('off', { enabled: false })] })).toEqual([])
  const faulty = { ...calm, gpus: { ...calm.gpus, faulty: 1 } }
  expect(attentionOf(faulty, { models: [model('demo/assistant', {})] })).toEqual([
    { text: '1 faulty GPU', to: '/operator/fleet' },
    { text: 'Model demo/assistant: no deployment', to: '/operator/models' },
  ])
})
