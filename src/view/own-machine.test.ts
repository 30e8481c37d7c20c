import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import { costAt, displayName, machineOf, sshCommand } from './own-machine.ts'

type Rental = Parameters<typeof machineOf>[0]

const container = {
  id: 18,
  name: 'quiet-black-lion',
  label: null,
  kind: 'container',
  state: 'Pending',
  actions: ['terminate'],
  statusMessage: 'pulling',
  gpuModel: 'NVIDIA-H100-SXM5-80GB',
  gpuType: 'h100',
  gpuCount: 2,
  region: 'us-west',
  pricePerHourUsd: '0.780000000',
  currentCostPerHourUsd: '0.000000000',
  costSoFarUsd: '1.500000000',
  ssh: { user: 'root', host: 'relay.example', port: 20_001 },
  portMappings: [{ port: 8_080, host: 'relay.example', publicPort: 20_002 }],
  createdAt: '2026-11-14T12:00:00.000Z',
  startedAt: null,
} as unknown as Rental

describe('machines', () => {
  test('a rental has its price and what is charged now', () => {
    expect(machineOf(container)).toMatchObject({
      kind: 'container',
      id: '18',
      label: null,
      status: 'Pending',
      gpus: '2 × H100 SXM5',
      pricePerHour: usd('0.78'),
      ssh: { user: 'root', host: 'relay.example', port: 20_001 },
      ports: ['relay.example:20002'],
      message: 'pulling',
      currentCostPerHour: 0n,
    })
    expect(machineOf({ ...container, kind: 'virtual-machine' })).toMatchObject({ gpus: '2 × H100' })
  })
})

test('the label is the display name, unless it is empty', () => {
  expect(displayName({ label: 'training', name: 'fox' })).toBe('training')
  expect(displayName({ label: '', name: 'fox' })).toBe('fox')
  expect(displayName({ label: null, name: 'fox' })).toBe('fox')
})

test('the cost grows with what is charged now, not with the price', () => {
  const starting = machineOf(container)
  const running = { ...starting, currentCostPerHour: starting.pricePerHour }
  const [read, hourLater] = [Date.parse('2026-11-14T13:00:00.000Z'), Date.parse('2026-11-14T14:00:00.000Z')]
  expect(costAt(starting, read, hourLater)).toBe(usd('1.5'))
  expect(costAt(running, read, hourLater)).toBe(usd('2.28'))
  expect(costAt(running, hourLater, read)).toBe(usd('1.5'))
})

describe('ssh', () => {
  test('keeps host keys by the name of the machine', () => {
    expect(sshCommand('fox', { user: 'root', host: '192.0.2.7', port: 22 })).toBe(
      'ssh -p 22 -o HostKeyAlias=berth-fox -o StrictHostKeyChecking=accept-new root@192.0.2.7',
    )
  })

  test.each([
    { user: '-oProxyCommand=x', host: 'relay.example', port: 22 },
    { user: 'root', host: '-oProxyCommand=x', port: 22 },
    { user: 'a;b', host: 'c', port: 1 },
    null,
  ])('rejects %j', (ssh) => expect(machineOf({ ...container, ssh }).ssh).toBeUndefined())
})
