/** Machines as described by /proc and /sys: recorded files under a separate root. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readHardware } from './hardware.ts'
import { makeMeter } from './metrics.ts'

let root: string
let machines = 0

beforeAll(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-hardware-'))
})
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

const GIB = 1_073_741_824

/** Four cores of two threads, and 64 GiB. */
const eightThreads: Readonly<Record<string, string>> = {
  'proc/cpuinfo': 'processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n',
  'proc/meminfo': `MemTotal:       ${64 * 1_048_576} kB\nMemAvailable:   ${60 * 1_048_576} kB\n`,
  'sys/devices/system/cpu/online': '0-7\n',
  ...Object.fromEntries(
    [0, 1, 2, 3, 4, 5, 6, 7].map((cpu) => [
      `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`,
      `${cpu % 4},${(cpu % 4) + 4}\n`,
    ]),
  ),
}

function machine(files: Readonly<Record<string, string>>): string {
  machines += 1
  const dir = path.join(root, String(machines))
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true })
    fs.writeFileSync(path.join(dir, name), text)
  }
  return dir
}

function read(files: Readonly<Record<string, string>>) {
  return readHardware(root, machine({ ...eightThreads, ...files }))
}

const wholeMachine = { cpuModel: 'AMD EPYC 9654 96-Core Processor', cpuCores: 4, virtualCores: 8, ramGb: 64 }

describe('a machine', () => {
  test('has cores, threads and memory; two threads of a core count as one core', () => {
    expect(read({})).toMatchObject(wholeMachine)
  })

  test('offers the free disk space of its folder', () => {
    const { bavail, bsize } = fs.statfsSync(root)
    const { storageGb } = read({})
    expect(storageGb).toBeGreaterThan(0)
    expect(Math.abs(storageGb - (bavail * bsize) / GIB)).toBeLessThan(5)
  })

  test.each([
    ['processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n', 'ARM Neoverse V2'],
    ['processor\t: 0\nCPU part\t: 0x123\n', `${os.arch()} CPU`],
  ])('of ARM has a model too', (cpuinfo, cpuModel) => {
    expect(read({ 'proc/cpuinfo': cpuinfo })).toMatchObject({ cpuModel })
  })

  test('without /proc and /sys falls back to Node', () => {
    const hardware = readHardware(root, machine({ 'proc/none': '' }))
    expect(hardware.virtualCores).toBe(os.cpus().length)
    expect(hardware.ramGb).toBeCloseTo(os.totalmem() / GIB, 0)
  })

  test('reads this machine', () => {
    const hardware = readHardware(root)
    expect(hardware.virtualCores).toBeGreaterThan(0)
    expect(hardware.virtualCores).toBeLessThanOrEqual(os.cpus().length)
    expect(hardware.ramGb).toBeLessThanOrEqual(os.totalmem() / GIB)
    expect(hardware.cpuModel).not.toBe('')
  })
})

describe('control group limits apply', () => {
  const v2 = { 'proc/self/cgroup': '0::/berth/agent\n', 'sys/fs/cgroup/cgroup.procs': '' }

  test('in version 2, with the lowest limit of all ancestors', () => {
    const files = {
      ...v2,
      'sys/fs/cgroup/berth/cpu.max': '300000 100000\n',
      'sys/fs/cgroup/berth/memory.max': 'max\n',
      'sys/fs/cgroup/berth/agent/cpu.max': 'max 100000\n',
      'sys/fs/cgroup/berth/agent/memory.max': `${16 * GIB}\n`,
    }
    expect(read(files)).toMatchObject({ cpuCores: 1.5, virtualCores: 3, ramGb: 16 })
  })

  test('in version 2, by CPU set', () => {
    expect(read({ ...v2, 'sys/fs/cgroup/berth/agent/cpuset.cpus.effective': '0-1,4\n' })).toMatchObject({
      cpuCores: 2,
      virtualCores: 3,
    })
  })

  test('in version 2, without any limit', () => {
    const files = { ...v2, 'sys/fs/cgroup/berth/agent/cpu.max': 'max 100000', 'sys/fs/cgroup/berth/memory.max': 'max' }
    expect(read(files)).toMatchObject(wholeMachine)
  })

  const v1 = {
    'proc/self/cgroup': '4:memory:/pod/a\n1:cpu,cpuacct:/pod/a\n0::/\n',
    'sys/fs/cgroup/memory/cgroup.procs': '',
    'sys/fs/cgroup/cpu/cgroup.procs': '',
    'sys/fs/cgroup/unified/cgroup.procs': '',
  }

  test('in version 1', () => {
    const files = {
      ...v1,
      'sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes': `${8 * GIB}\n`,
      'sys/fs/cgroup/cpu/pod/a/cpu.cfs_quota_us': '50000\n',
      'sys/fs/cgroup/cpu/pod/a/cpu.cfs_period_us': '100000\n',
    }
    expect(read(files)).toMatchObject({ virtualCores: 0.5, ramGb: 8 })
  })

  test('in version 1, where no limit is a large number', () => {
    const files = {
      ...v1,
      'sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes': '9223372036854771712\n',
      'sys/fs/cgroup/cpu/pod/a/cpu.cfs_quota_us': '-1\n',
      'sys/fs/cgroup/cpu/pod/a/cpu.cfs_period_us': '100000\n',
    }
    expect(read(files)).toMatchObject(wholeMachine)
  })

  test('in a container, where only the root group is visible', () => {
    expect(read({ ...v1, 'sys/fs/cgroup/memory/memory.limit_in_bytes': `${2 * GIB}` })).toMatchObject({ ramGb: 2 })
  })
})

describe('metrics', () => {
  test('measure CPU use since the last call, and nothing for simulated GPUs', () => {
    const dir = machine({ stat: 'cpu  100 0 100 700 100 0 0 0 50 0\n' })
    const stat = path.join(dir, 'stat')
    const measure = makeMeter(root, stat)
    const use = {
      utilizationPercent: null,
      memoryUsedMib: null,
      memoryTotalMib: null,
      powerWatts: null,
      temperatureCelsius: null,
    }
    const gpu = { uuid: 'GPU-sim-x', name: 'x', ramMib: 1, clockMhz: 1, interface: 'x', pciAddress: '' }
    const snapshot = { gpus: [{ gpu, use, problems: [] }], simulated: true, notes: [] }
    expect(measure(snapshot)).toMatchObject({ cpuPercent: null, gpus: [{ index: 0, ...use }] })
    // 60 busy, 40 idle or waiting.
    fs.writeFileSync(stat, 'cpu  130 0 130 720 120 0 0 0 99 0\n')
    const metrics = measure(snapshot)
    expect(metrics.cpuPercent).toBe(60)
    expect(metrics.memoryUsedGb).toBeGreaterThan(0)
    expect(metrics.diskFreeGb).toBeGreaterThan(0)
  })
})
