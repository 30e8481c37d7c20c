import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import { costAt, displayName, machineOfAny, machineOfRental, parseSshCommand, sshCommand } from './own-machine.ts'

type Rental = Parameters<typeof machineOfRental>[0]
type AnyRental = Parameters<typeof machineOfAny>[0]

const rental = {
  id: 17,
  rentalType: 'bare-metal',
  name: 'calm-red-fox',
  label: 'training',
  status: 'Running',
  state: 'Running',
  actions: ['reboot', 'terminate'],
  gpuCount: 8,
  gpuType: 'h100',
  region: 'us-central-1',
  currentTerm: { costPerHour: 19.92 },
  createdAt: '2026-11-14T12:00:00.000Z',
  startedAt: '2026-11-14T12:01:00.000Z',
  providerData: { sshNetworking: [{ user: 'root', host: '192.0.2.7', port: 22 }] },
} as unknown as Rental

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
} as unknown as AnyRental

describe('machines', () => {
  test('a rental keeps its price, state and login', () => {
    expect(machineOfRental(rental)).toMatchObject({
      kind: 'bare-metal',
      id: '17',
      status: 'Running',
      gpus: '8 × H100',
      pricePerHour: usd('19.92'),
      ssh: { user: 'root', host: '192.0.2.7', port: 22 },
    })
  })

  test('a rental of any kind has its price and what is charged now', () => {
    expect(machineOfAny(container)).toMatchObject({
      kind: 'container',
      id: 'quiet-black-lion',
      label: null,
      status: 'Pending',
      gpus: '2 × H100 SXM5',
      pricePerHour: usd('0.78'),
      ssh: { user: 'root', host: 'relay.example', port: 20_001 },
      ports: ['relay.example:20002'],
      message: 'pulling',
      currentCostPerHour: 0n,
    })
    expect(machineOfAny({ ...container, kind: 'virtual-machine' })).toMatchObject({ id: '18', gpus: '2 × H100' })
  })

  test('a rental that is not running has no login', () => {
    expect(machineOfRental({ ...rental, state: 'Stopped' }).ssh).toBeUndefined()
  })
})

test('the label is the display name, unless it is empty', () => {
  expect(displayName({ label: 'training', name: 'fox' })).toBe('training')
  expect(displayName({ label: '', name: 'fox' })).toBe('fox')
  expect(displayName({ label: null, name: 'fox' })).toBe('fox')
})

test('the cost grows with what is charged now, not with the price', () => {
  const starting = machineOfAny(container)
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
    '',
    'ssh root@host',
    'ssh -oProxyCommand=x@host -p 22',
    'ssh root@-oProxyCommand=x -p 22',
    'ssh a;b@c -p 1',
  ])('rejects %j', (text) => expect(parseSshCommand(text)).toBeUndefined())
})
