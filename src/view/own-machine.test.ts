import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import {
  displayName,
  machineOfInstance,
  machineOfRental,
  maxCost,
  parseSshCommand,
  sshCommand,
  type OwnMachine,
} from './own-machine.ts'

type Rental = Parameters<typeof machineOfRental>[0]
type Instance = Parameters<typeof machineOfInstance>[0]

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

const instance = {
  id: 'quiet-black-lion',
  created: '2026-11-14T12:00:00.000Z',
  start: null,
  userMetadata: { label: 7 },
  sshCommand: 'ssh root@relay.example -p 20001',
  portMappings: [{ domain: 'relay.example', port: 20002 }],
  status_message: 'pulling',
  state: 'Pending',
  actions: ['terminate'],
  instance: {
    status: 'starting',
    gpu_count: 2,
    hardware: { gpus: [{ model: 'NVIDIA-H100-SXM5-80GB' }] },
    location: { region: 'us-west' },
    pricing: { price: { amount: 0.39 } },
  },
} as unknown as Instance

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

  test('an instance becomes a rental of kind container, priced for all its GPUs', () => {
    expect(machineOfInstance(instance)).toMatchObject({
      kind: 'container',
      label: null,
      status: 'Pending',
      gpus: '2 × H100 SXM5',
      pricePerHour: usd('0.78'),
      ssh: { user: 'root', host: 'relay.example', port: 20_001 },
      ports: ['relay.example:20002'],
      message: 'pulling',
    })
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

test('only a running machine has a cost so far', () => {
  const machine: OwnMachine = machineOfRental(rental)
  const hourLater = Date.parse('2026-11-14T13:01:00.000Z')
  expect(maxCost(machine, hourLater)).toBe(usd('19.92'))
  expect(maxCost({ ...machine, status: 'Failed' }, hourLater)).toBeUndefined()
  expect(maxCost(machine, Date.parse('2026-11-14T11:00:00.000Z'))).toBe(usd('0'))
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
