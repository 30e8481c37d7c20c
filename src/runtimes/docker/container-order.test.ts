import { expect, test } from 'vitest'
import { programOf, workloadOf } from '../../../test/harness/docker-runtime.ts'
import { chooseCpus, containerOrder, gpuModeOf, type GpuMode } from './container-order.ts'
import { hasProjectQuota } from './notes.ts'
import { infoReply } from './reply.ts'

const info = infoReply.parse({ NCPU: 8, MemTotal: 16_000_000_000 })
const gpus = [0, 1, 2].map((index) => ({ index, uuid: `GPU-${index}`, name: 'NVIDIA H200', simulated: false }))
const orderFor = (gpuMode: GpuMode, gpuIndexes: number[], changes: Parameters<typeof workloadOf>[1] = {}) =>
  containerOrder(
    { ...workloadOf('one', changes), node: { index: 0, gpuIndexes, peers: [] } },
    {
      image: 'a:1',
      info,
      gpus,
      gpuMode,
      diskQuota: true,
      cpus: [2, 3],
      portAddress: '127.0.0.1',
      hostProcesses: 32_768,
      noticeFolder: '/var/lib/berth/notices',
    },
  )

test('GPUs are attached by the nvidia driver, and images cannot request others', () => {
  expect(orderFor('request', [0, 2])).toMatchObject({
    Env: ['BERTH_GPUS=0,2', 'NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-2'],
    HostConfig: {
      DeviceRequests: [{ Driver: 'nvidia', DeviceIDs: ['GPU-0', 'GPU-2'], Capabilities: [['gpu']] }],
      StorageOpt: { size: '1000000000' },
      CpusetCpus: '2,3',
    },
  })
  expect(orderFor('request', [])).toMatchObject({
    Env: ['BERTH_GPUS=', 'NVIDIA_VISIBLE_DEVICES=void'],
    HostConfig: { DeviceRequests: [] },
  })
})

test('GPUs are attached by CDI if the daemon supports it', () => {
  expect(orderFor('cdi', [1])).toMatchObject({
    Env: ['BERTH_GPUS=1', 'NVIDIA_VISIBLE_DEVICES=void'],
    HostConfig: { DeviceRequests: [{ Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=GPU-1'] }] },
  })
  expect(gpuModeOf(info)).toBe('request')
  expect(gpuModeOf({ ...info, CDISpecDirs: ['/etc/cdi'] })).toBe('cdi')
  expect(gpuModeOf({ ...info, CDISpecDirs: ['/etc/cdi'], Runtimes: { nvidia: {} } })).toBe('request')
  const devices = [{ Source: 'cdi', ID: 'nvidia.com/gpu=0' }]
  expect(gpuModeOf({ ...info, DiscoveredDevices: devices, Runtimes: { nvidia: {} } })).toBe('cdi')
})

test('the image decides what runs unless the order does; /dev/shm is half of the memory unless the order says', () => {
  const plain = orderFor('request', []) as { HostConfig: { ShmSize: number } }
  expect(plain).not.toHaveProperty('Entrypoint')
  expect(plain).not.toHaveProperty('Cmd')
  expect(plain.HostConfig.ShmSize).toBe(100_000_000)
  const program = programOf({ env: { A: 'b', BERTH_GPUS: '9' }, args: ['x'], shmGb: 0.15 })
  const order = orderFor('request', [], { program, ports: [80] })
  expect(order).toMatchObject({
    Env: ['A=b', 'BERTH_GPUS=', 'NVIDIA_VISIBLE_DEVICES=void'],
    Cmd: ['x'],
    ExposedPorts: { '80/tcp': {} },
    HostConfig: { ShmSize: 150_000_000 },
  })
  expect(order).not.toHaveProperty('Entrypoint')
  const commanded = orderFor('request', [], { program: programOf({ command: ['/bin/a'], shmGb: 99 }) })
  expect(commanded).toMatchObject({ Entrypoint: ['/bin/a'], HostConfig: { ShmSize: 200_000_000 } })
})

test('a compile cache is a writable volume, and variables of the order win over its own', () => {
  const cache = { volume: 'berth-compile-cache-1-0', variables: { VLLM_CACHE_ROOT: '/a', TRITON_CACHE_DIR: '/b' } }
  const program = programOf({ env: { TRITON_CACHE_DIR: '/own' } })
  const order = containerOrder(workloadOf('one', { program }), {
    image: 'a:1',
    info,
    gpus,
    gpuMode: 'request',
    diskQuota: false,
    cpus: undefined,
    portAddress: '127.0.0.1',
    hostProcesses: 32_768,
    noticeFolder: '/var/lib/berth/notices',
    cache,
  })
  expect(order).toMatchObject({
    Env: expect.arrayContaining(['VLLM_CACHE_ROOT=/a', 'TRITON_CACHE_DIR=/own']),
    HostConfig: { Mounts: [{ Type: 'volume', Source: cache.volume, Target: '/var/cache/berth' }] },
  })
  expect(JSON.stringify(order)).not.toContain('"ReadOnly":true')
})

test('rejects a GPU that the host does not have', () => {
  expect(() => orderFor('request', [7])).toThrow('no GPU 7')
})

test.each([
  ['alone', 2, [], [0, 1]],
  ['beside others', 2, ['0,1', '4'], [2, 3]],
  ['a part counts as a whole', 1.5, ['0,1'], [2, 3]],
  ['where all are taken, the least used', 2, ['0,1,2,3,4,5', '6,7', '0,1,2,3'], [4, 5]],
  ['no more than there are', 99, [], [0, 1, 2, 3, 4, 5, 6, 7]],
])('assigns CPUs: %s', (_, count, usedCpus, chosen) => {
  expect(chooseCpus(count, info, usedCpus)).toEqual(chosen)
})

test.each([
  ['/var/lib/docker', 'rw,relatime,prjquota', true],
  ['/var/lib/docker', 'rw,relatime', false],
  ['/var', 'rw,pquota', true],
  ['/var/lib/dock', 'rw,pquota', false],
])('detects disk quota support from the mount: %s %s', (at, options, holds) => {
  const mounts = `/dev/a / ext4 rw 0 0\n/dev/b ${at} xfs ${options} 0 0\n`
  expect(hasProjectQuota(mounts, '/var/lib/docker')).toBe(holds)
})
