import { describe, expect, test } from 'vitest'
import type { Desired, Workload } from '../contract/agent.ts'
import { GpuRelease, withoutHeld } from './gpu-release.ts'
import type { GpuSnapshot } from './gpu-source.ts'

function snapshot(...used: Array<number | null>): GpuSnapshot {
  const gpu = { uuid: 'x', name: 'NVIDIA H200', ramMib: 143_771, clockMhz: 1_980, interface: 'SXM5', pciAddress: '' }
  const none = { utilizationPercent: null, memoryTotalMib: null, powerWatts: null, temperatureCelsius: null }
  const gpus = used.map((memoryUsedMib) => ({ gpu, use: { ...none, memoryUsedMib }, problems: [] }))
  return { gpus, simulated: false, notes: [] }
}

function desired(...workloads: Array<Pick<Workload, 'id' | 'want'> & { readonly gpuIndexes: number[] }>): Desired {
  const all = workloads.map(({ id, want, gpuIndexes }): Workload => {
    const node = { index: 0, gpuIndexes, peers: [] }
    return { id, tag: id, want, started: true, spec: null, node, disks: [], baseImage: null }
  })
  return { type: 'desired', generation: 1, state: 'ready', workloads: all, volumes: [] }
}

const ended = desired({ id: 'a', want: 'gone', gpuIndexes: [1, 2] })

describe('a machine that has ended', () => {
  test('is reported until a reading from after its end shows that its GPUs are free', () => {
    let now = 10
    const release = new GpuRelease(() => now)
    // Free, but read before it ended: what it did in between is not known.
    release.read(snapshot(0, 0, 0), 5)
    expect(release.pending(ended, [])).toMatchObject([{ id: 'a', state: 'stopping' }])
    now = 20
    // Another GPU does not matter.
    release.read(snapshot(90_000, 0, 80_000), 12)
    expect(release.pending(ended, [])[0]?.message).toContain('80000 MiB of GPU 2')
    expect(release.isWaiting).toBe(true)
    release.read(snapshot(90_000, 0, 600), 19)
    expect(release.pending(ended, [])).toEqual([])
    expect(release.isWaiting).toBe(false)
  })

  test('is no concern of ours while the runtime still has it, or is gone at once if nothing is measured', () => {
    const release = new GpuRelease(() => 10)
    release.read(snapshot(0, 0, 0), 5)
    expect(release.pending(ended, [{ id: 'a', tag: 'a', state: 'stopping', disks: [] }])).toEqual([])
    release.read(snapshot(null, null, null), 5)
    expect(release.pending(ended, [])).toEqual([])
  })
})

test('a GPU that no machine has and whose memory is in use is not offered, and says so', () => {
  const both = snapshot(40_000, 40_000)
  const one = desired({ id: 'a', want: 'run', gpuIndexes: [0] })
  const remaining = withoutHeld(both, one)
  expect(remaining.gpus.map(({ problems }) => problems.length)).toEqual([0, 1])
  expect(remaining.notes[0]).toContain('GPU 1')
  expect(withoutHeld(snapshot(40_000, 900), one).notes).toEqual([])
  // Before the first desired state, a tenant may have any of them.
  expect(withoutHeld(both, undefined)).toBe(both)
})
