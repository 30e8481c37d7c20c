/** Copies of volumes in the background: cancelled with the volume, and reported while they fail. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import type { HostVolumeStatus, DesiredVolume } from '../contract/agent.ts'
import { ContainerVolumes } from './docker/volumes.ts'
import { qemuVolumes } from './qemu/volumes.ts'
import type { RuntimeVolumes } from './runtime.ts'
import { VolumeKeeper } from './volume-keeper.ts'

const { signal } = new AbortController()
const desiredVolume = (id: string, more: Partial<DesiredVolume> = {}): DesiredVolume => ({
  id,
  want: 'there',
  sizeGb: 1,
  made: false,
  reserved: true,
  ...more,
})

/** A host whose copies last until the test ends them. */
class SlowHost implements RuntimeVolumes {
  readonly volumes = new Map<string, HostVolumeStatus>()
  readonly running = new Map<string, { signal: AbortSignal; fail: (error: Error) => void }>()
  readonly destroyed: string[] = []

  async list(): Promise<HostVolumeStatus[]> {
    return [...this.volumes.values()]
  }
  async create({ id }: DesiredVolume, ended: AbortSignal): Promise<void> {
    await new Promise<void>((_, reject) => {
      const fail = (error: Error): void => {
        this.running.delete(id)
        reject(error)
      }
      this.running.set(id, { signal: ended, fail })
      ended.addEventListener('abort', () => fail(new Error('aborted')), { once: true })
    })
  }
  async grow(): Promise<void> {
    throw new Error('not here')
  }
  async destroy(id: string): Promise<void> {
    this.destroyed.push(id)
  }
}

describe('a copy in the background', () => {
  let host: SlowHost
  let keeper: VolumeKeeper
  beforeEach(() => {
    host = new SlowHost()
    const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
    keeper = new VolumeKeeper({ volumes: host, changed: () => {}, onError: () => {}, messageOf })
  })
  const copy = desiredVolume('d-copy', { copyOf: 'd-source' })

  it('is cancelled with its volume, which is listed until nothing writes to it (issue 31, D)', async () => {
    expect((await keeper.reconcile([copy], signal)).volumes).toEqual([])
    expect([...host.running.keys()]).toEqual(['d-copy'])
    const gone = desiredVolume('d-copy', { copyOf: 'd-source', want: 'gone' })
    expect((await keeper.reconcile([gone], signal)).volumes).toEqual(['d-copy'])
    await waitFor('the copy to end', () => host.running.size === 0)
    expect((await keeper.reconcile([gone], signal)).volumes).toEqual([])
    expect(host.destroyed).toEqual(['d-copy'])
  })

  it('is cancelled when the server no longer knows its volume', async () => {
    await keeper.reconcile([copy], signal)
    await keeper.reconcile([], signal)
    await waitFor('the copy to end', () => host.running.size === 0)
    expect(host.destroyed).toEqual([])
  })

  it('reports its failure until another attempt succeeds', async () => {
    const fault = [{ id: 'd-copy', message: 'disk full' }]
    await keeper.reconcile([copy], signal)
    host.running.get('d-copy')?.fail(new Error('disk full'))
    await waitFor('the failure', async () => (await keeper.reconcile([copy], signal)).volumeFaults?.length === 1)
    expect((await keeper.reconcile([copy], signal)).volumeFaults).toEqual(fault)
    expect(host.running.size).toBe(1)
    expect((await keeper.reconcile([copy], signal)).volumeFaults).toEqual(fault)
  })
})

describe('a copy that the end of its agent interrupted', () => {
  let folder: string
  beforeEach(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-keeper-'))))
  afterEach(() => fs.rmSync(folder, { recursive: true }))

  it.each([
    { name: 'a container host', open: () => new ContainerVolumes(folder), file: 'images/d-copy.img.new' },
    { name: 'a virtual machine host', open: () => qemuVolumes(folder), file: 'd-copy.qcow2.new' },
  ])('leaves nothing on $name once its volume is deleted (issue 31, D)', async ({ open, file }) => {
    const part = path.join(folder, file)
    fs.mkdirSync(path.dirname(part), { recursive: true })
    fs.writeFileSync(part, 'half of it')
    const keeper = new VolumeKeeper({ volumes: open(), changed: () => {}, onError: () => {}, messageOf: String })
    const { volumes } = await keeper.reconcile([desiredVolume('d-copy', { copyOf: 'd-source', want: 'gone' })], signal)
    expect([volumes, fs.existsSync(part)]).toEqual([[], false])
  })
})
