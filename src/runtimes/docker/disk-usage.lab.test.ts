/** The disk of a container: what counts against its limit, and that it survives stops, other GPUs and reboots. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import {
  forever,
  runtimeOn,
  waitForState,
  workloadOf,
  type DockerRuntime,
} from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { DockerClient } from './client.ts'
import { allocatedBytes, writablePaths } from './disk-usage.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}
const SHARE_GB = 0.01

describe.skipIf(why !== undefined)(`the disk of a container${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime
  let client: DockerClient

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'usage' })
    runtime = runtimeOn(lab, { diskWatchMs: 100 })
    client = new DockerClient(lab.socketPath)
  })
  afterAll(async () => {
    await client.close()
    await runtime.close()
    await lab.close()
  })

  const resources = { cpuModel: '', cpuCount: 1, ramGb: 0.1, storageGb: SHARE_GB }
  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)

  test.each(['/root/fill', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf'])(
    'a container that fills %s beyond its share is stopped, and its files stay until it is removed',
    async (file) => {
      await runtime.start(workloadOf('greedy', { resources }), silent, forever)
      await shell('greedy', `echo kept >/root/note; head -c 20000000 /dev/zero >>${file}`).catch(silent)
      expect(await waitForState(runtime, 'greedy', 'failed')).toMatchObject({ failure: 'disk_share_exceeded' })
      const container = await client.container('berth-greedy')
      expect(await readFile(`${container?.GraphDriver?.Data['UpperDir']}/root/note`, 'utf8')).toBe('kept\n')
      // Turned off on request, it can be started again.
      await runtime.halt('greedy', forever)
      expect(await waitForState(runtime, 'greedy', 'ended')).toMatchObject({ id: 'greedy' })
      await runtime.stop('greedy', forever)
    },
  )

  test('does not count a sparse file', async () => {
    await runtime.start(workloadOf('sparse', { resources }), silent, forever)
    await shell('sparse', 'truncate -s 40G /root/sparse')
    const measured = async (): Promise<number> => {
      const container = await client.container('berth-sparse')
      if (container === undefined) throw new Error('it is gone')
      return allocatedBytes(writablePaths(container, true) ?? [], forever)
    }
    expect(await measured()).toBeLessThan(SHARE_GB * 1e9)
    // Detecting the next file proves that the watch has measured this one.
    await runtime.start(workloadOf('next', { resources }), silent, forever)
    await shell('next', 'head -c 20000000 /dev/zero >/root/fill').catch(silent)
    await waitForState(runtime, 'next', 'failed')
    await waitFor('a second measurement', async () => (await measured()) > 0)
    expect((await runtime.list(forever)).find(({ id }) => id === 'sparse')?.state).toBe('running')
    for (const id of ['sparse', 'next']) await runtime.stop(id, forever)
  })

  const listed = async (id: string) => (await runtime.list(forever)).find((one) => one.id === id)

  test('a halted container keeps its files, and starts again on the same or on other GPUs', async () => {
    const workload = workloadOf('kept')
    const inside = (script: string) => shell('kept', script)
    await runtime.start(workload, silent, forever)
    await inside('echo mine >/root/file')
    const first = await listed('kept')
    await runtime.halt('kept', forever)
    expect(await listed('kept')).toMatchObject({ state: 'ended' })
    await runtime.halt('kept', forever)

    await runtime.start({ ...workload, started: true }, silent, forever)
    expect((await inside('cat /root/file; echo $BERTH_GPUS')).trim()).toBe('mine\n0')
    expect((await listed('kept'))?.incarnation).not.toBe(first?.incarnation)

    await runtime.halt('kept', forever)
    const moved = { ...workload, started: true, node: { ...workload.node, gpuIndexes: [1] } }
    await runtime.start(moved, silent, forever)
    const env = "tr '\\0' '\\n' </proc/1/environ | grep BERTH_GPUS"
    expect((await inside(`cat /root/file; ${env}`)).trim()).toBe('mine\nBERTH_GPUS=1')
    // Another agent finds it running, with the same disk.
    const next = runtimeOn(lab)
    expect((await next.list(forever)).find(({ id }) => id === 'kept')).toMatchObject({ state: 'running' })
    await next.close()
    const images = (await lab.docker('images', '-q', '--no-trunc')).split('\n').length
    await runtime.stop('kept', forever)
    expect((await lab.docker('images', '-q', '--no-trunc')).split('\n').length).toBe(images - 1)
  })

  test('a container that was removed on the way to other GPUs is made from its own disk, and from no other', async () => {
    const cut = workloadOf('cut')
    await runtime.start(cut, silent, forever)
    await shell('cut', 'echo mine >/root/file')
    await runtime.halt('cut', forever)
    const moved = { ...cut, started: true, node: { ...cut.node, gpuIndexes: [1] } }
    // The agent dies after the container was removed: the daemon refuses to create another one.
    const broken = runtimeOn(lab, { gpus: [] })
    await expect(broken.start(moved, silent, forever)).rejects.toMatchObject({ reason: 'gpu_missing' })
    await broken.close()
    expect(await listed('cut')).toMatchObject({ state: 'ended' })
    await runtime.start(moved, silent, forever)
    expect((await shell('cut', 'cat /root/file')).trim()).toBe('mine')
    // A container that somebody else removes is lost: the image of its disk is older.
    await lab.docker('rm', '-f', 'berth-cut')
    await expect(runtime.start(moved, silent, forever)).rejects.toMatchObject({ reason: 'vanished' })
    await runtime.stop('cut', forever)
  })

  test('a reboot restarts the container once, without an exit in between', async () => {
    const again = workloadOf('again')
    await runtime.start(again, silent, forever)
    await shell('again', 'echo mine >/root/file')
    const before = await listed('again')
    await runtime.reboot({ ...again, reboots: 1 }, forever)
    const after = await listed('again')
    expect(after).toMatchObject({ state: 'running', reboots: 1 })
    expect(after?.incarnation).not.toBe(before?.incarnation)
    expect((await shell('again', 'cat /root/file')).trim()).toBe('mine')
    await runtime.stop('again', forever)
  })

  test('two tenants with all GPUs cannot use all processes of the host', async () => {
    for (const [index, id] of ['one', 'two'].entries()) {
      const workload = workloadOf(id)
      await runtime.start({ ...workload, node: { ...workload.node, gpuIndexes: [index] } }, silent, forever)
    }
    const limit = async (id: string): Promise<number> =>
      Number(await lab.docker('inspect', '-f', '{{.HostConfig.PidsLimit}}', `berth-${id}`))
    const ofHost = Number(await readFile('/proc/sys/kernel/pid_max', 'utf8'))
    expect((await limit('one')) + (await limit('two'))).toBeLessThanOrEqual(ofHost * 0.75)
    for (const id of ['one', 'two']) await runtime.stop(id, forever)
  })
})
