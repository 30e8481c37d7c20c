/** Real machines are held to the rule for disks: none is lost by what the runtime does or where its agent is killed. */
import fs from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openQemuLab, smallImage, whyNoQemu, type QemuLab } from '../../../test/lab/qemu-lab.ts'
import { diskTests, stateOf } from '../conformance-disk.ts'
import type { QemuRuntime } from './runtime.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu')

const why = whyNoQemu()
const never = new AbortController().signal
const silent = (): void => {}
const BOOT_MS = 180_000

describe.skipIf(why !== undefined)(`the disk of a machine${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let lab: QemuLab
  let runtime: QemuRuntime
  const gpus = [0, 1].map((index) => ({ index, name: 'NVIDIA H100, 80 GB', pciAddress: null }))

  beforeAll(async () => {
    await smallImage()
    lab = await openQemuLab()
    runtime = lab.runtime({ gpus, shutdownMs: 5_000 })
  }, BOOT_MS)
  afterAll(() => lab.close())

  const inside = (id: string, command: string): Promise<string> => lab.ssh(id, command)

  diskTests({
    runtime: () => runtime,
    killAgent: async () => {
      runtime = lab.runtime({ gpus, shutdownMs: 5_000 })
      return runtime
    },
    workload: (id) => lab.workload(id),
    withOtherGpus: (workload) => ({ ...workload, node: { ...workload.node, gpuIndexes: [1] } }),
    inside,
    timeoutMs: 2 * BOOT_MS,
  })

  test('a machine without its disk does not start with an empty one (issue 31, A)', { timeout: BOOT_MS }, async () => {
    const workload = lab.workload('lost')
    await runtime.start(workload, silent, never)
    await runtime.halt('lost', never)
    await fs.rm(path.join(lab.folder, 'engine/vms/lost/overlay.qcow2'))
    await expect(runtime.start({ ...workload, started: true }, silent, never)).rejects.toMatchObject({
      reason: 'vanished',
    })
    expect(await stateOf(runtime, 'lost')).toBe('ended')
    await runtime.stop('lost', never)
  })
})
