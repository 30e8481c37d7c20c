/** The disk limit counts everything that a container writes, wherever it is, and nothing else. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/harness/docker-lab.ts'
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
