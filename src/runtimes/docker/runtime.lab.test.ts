/** Containers on a real Docker daemon with a real registry, in a separate folder and network. */
import { readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import {
  forever,
  holdRequests,
  readAll,
  relayTo,
  runtimeOn,
  waitForState,
  workloadOf,
  type DockerRuntime,
} from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { NeverStarts } from '../runtime.ts'
import { bridgeOf } from './fence.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}

describe.skipIf(why !== undefined)(`containers${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'runtime' })
    runtime = runtimeOn(lab)
  })
  afterAll(async () => {
    await runtime.close()
    await lab.close()
  })

  const listed = async (id: string) => (await runtime.list(forever)).find((one) => one.id === id)
  const refusal = async (changes: Parameters<typeof workloadOf>[1], on = runtime): Promise<NeverStarts> => {
    const failure = await on.start(workloadOf('refused', changes), silent, forever).catch((error: unknown) => error)
    await on.stop('refused', forever)
    expect(failure).toBeInstanceOf(NeverStarts)
    return failure as NeverStarts
  }
  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)

  test('a container gets only its share: CPUs, memory, processes, no privileges, no host paths', async () => {
    await runtime.start(
      workloadOf('share', { resources: { cpuModel: '', cpuCount: 1, ramGb: 0.1, storageGb: 1 } }),
      silent,
      forever,
    )
    const [container] = JSON.parse(await lab.docker('inspect', 'berth-share')) as Array<{
      HostConfig: Record<string, unknown>
    }>
    expect(container?.HostConfig).toMatchObject({
      NanoCpus: 1e9,
      Memory: 1e8,
      MemorySwap: 1e8,
      SecurityOpt: ['no-new-privileges'],
      Binds: null,
      Privileged: false,
      RestartPolicy: { Name: 'no' },
    })
    expect((await shell('share', 'nproc')).trim()).toBe('1')
    const env = (await shell('share', 'env')).split('\n')
    expect(env).toEqual(
      expect.arrayContaining(['BERTH_GPUS=0', 'BERTH_SIMULATED_GPUS=true', 'NVIDIA_VISIBLE_DEVICES=void']),
    )
    await runtime.stop('share', forever)
  })

  test('resources are capped at those of the machine', async () => {
    const resources = { cpuModel: '', cpuCount: 9_999, ramGb: 999_999, storageGb: 1 }
    await runtime.start(workloadOf('large', { resources }), silent, forever)
    expect((await listed('large'))?.state).toBe('running')
    await runtime.stop('large', forever)
  })

  test('real GPUs are requested from the daemon by id', async () => {
    const gpus = [{ index: 0, uuid: 'GPU-real-0', name: 'NVIDIA H200', simulated: false }]
    const other = runtimeOn(lab, { gpus })
    await other.start(workloadOf('gpu'), silent, forever)
    expect(await shell('gpu', 'env')).toMatch(/^NVIDIA_VISIBLE_DEVICES=GPU-real-0$/m)
    await other.stop('gpu', forever)
    await other.close()
  })

  test.each([
    ['an unknown image', 'image_not_found', { name: 'nothing' }],
    ['an unknown tag', 'image_not_found', { name: 'lab/busybox', tag: 'none' }],
  ])('%s never starts', async (_, reason, { name, tag = null }: { name: string; tag?: string | null }) => {
    const failure = await refusal({ image: { name: `${lab.registry.address}/${name}`, tag } })
    expect(failure.reason).toBe(reason)
    expect(failure.message).toContain(name)
  })

  test('a missing command fails the workload with its exit code', async () => {
    const layer = await lab.registry.layer({ 'etc/empty': '' })
    const image = await lab.registry.push('lab/broken', '1', [layer], ['/no/such/program'])
    await runtime.start(workloadOf('broken', { image }), silent, forever)
    const workload = await waitForState(runtime, 'broken', 'failed')
    expect(workload.message).toContain('code 127')
    await runtime.stop('broken', forever)
  })

  test('a published port answers HTTP', async () => {
    await runtime.start(workloadOf('web', { ports: [80] }), silent, forever)
    await shell('web', 'mkdir /www && echo hello from inside >/www/index.html && httpd -h /www -p 80')
    const relay = await relayTo(runtime, 'web', 80)
    const answer = await waitFor('the web server', () =>
      fetch(`http://127.0.0.1:${relay.port}/`, { headers: { connection: 'close' } }).then(
        (one) => one.text(),
        () => false,
      ),
    )
    expect(answer).toBe('hello from inside\n')
    await relay.close()
    const other = runtime.open({ kind: 'port', workloadId: 'web', port: 81 }, forever)
    await expect(other).rejects.toThrow('Port 81 is not published.')
    await runtime.stop('web', forever)
  })

  test('the log can be followed, or its tail read', async () => {
    await runtime.start(workloadOf('talk'), silent, forever)
    // Everything written to its terminal is its log.
    await shell('talk', 'echo one >/proc/1/fd/1; echo two >/proc/1/fd/1')
    const { stream } = await runtime.open({ kind: 'logs', workloadId: 'talk', follow: true, tail: 1_000 }, forever)
    let text = ''
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await waitFor('the first lines', () => /one\r\ntwo\r\n/.test(text))
    await shell('talk', 'echo three >/proc/1/fd/1')
    await waitFor('the next line', () => text.endsWith('three\r\n'))
    stream.destroy()
    const tail = await runtime.open({ kind: 'logs', workloadId: 'talk', follow: false, tail: 1 }, forever)
    expect(await readAll(tail.stream)).toBe('three\r\n')
    await runtime.stop('talk', forever)
  })

  test('the log can be searched, limited by time, and shown with times', async () => {
    await runtime.start(workloadOf('search'), silent, forever)
    const logs = async (filter: object, tail = 1_000): Promise<string> => {
      const request = { kind: 'logs', workloadId: 'search', follow: false, tail, ...filter } as const
      return readAll((await runtime.open(request, forever)).stream)
    }
    await shell('search', 'for n in 1 2 3; do echo "Step $n"; echo "loss $n"; done >/proc/1/fd/1')
    await waitFor('all lines', async () => (await logs({})).includes('loss 3'))
    expect(await logs({ search: 'STEP' }, 2)).toBe('Step 2\r\nStep 3\r\n')
    const stamped = await logs({ search: 'loss', timestamps: true }, 1)
    const [, time = ''] = /^(\S+Z) loss 3\r\n$/.exec(stamped) ?? []
    const at = Date.parse(time)
    expect(await logs({ since: at + 1 })).toBe('')
    expect(await logs({ until: at + 1, search: 'loss' })).toBe('loss 1\r\nloss 2\r\nloss 3\r\n')
    const request = { kind: 'logs', workloadId: 'search', follow: true, tail: 1, search: 'loss' } as const
    const { stream } = await runtime.open(request, forever)
    let text = ''
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await shell('search', 'echo "Step 4" >/proc/1/fd/1; echo "loss 4" >/proc/1/fd/1')
    await waitFor('the next match', () => text.includes('loss 4'))
    expect(text).toBe('loss 3\r\nloss 4\r\n')
    stream.destroy()
    await runtime.stop('search', forever)
  })

  test('a flood of output keeps its last line and does not fill the disk of the host', async () => {
    await runtime.start(workloadOf('flood'), silent, forever)
    await shell('flood', '(yes 0123456789012345678901234567890123456789 | head -n 300000; echo the end) >/proc/1/fd/1')
    const last = async (): Promise<string> => {
      const request = { kind: 'logs', workloadId: 'flood', follow: false, tail: 1 } as const
      return readAll((await runtime.open(request, forever)).stream)
    }
    await waitFor('the last line', async () => (await last()) === 'the end\r\n')
    const path = (await lab.docker('inspect', '--format', '{{.LogPath}}', 'berth-flood')).trim()
    const files = (await readdir(dirname(path))).filter((name) => name.includes('-json.log'))
    const sizes = await Promise.all(files.map(async (name) => (await stat(join(dirname(path), name))).size))
    // Three files of ten megabytes, and the line that ends one.
    expect(sizes.reduce((all, one) => all + one, 0)).toBeLessThan(31_000_000)
    await runtime.stop('flood', forever)
  })

  test('measures the CPUs, memory, disk and network of a container, and the programs that run beside it', async () => {
    const measuring = runtimeOn(lab, { diskWatchMs: 100 })
    await measuring.start(workloadOf('busy'), silent, forever)
    const read = async () => (await measuring.measure(forever)).find((one) => one.id === 'busy')
    const first = await waitFor('its disk to be measured', async () => {
      const one = await read()
      return one?.diskUsedMib === null ? undefined : one
    })
    expect(first).toMatchObject({ cpus: 1, hasProgram: false })
    expect(first?.memoryTotalMib).toBeCloseTo(0.2e9 / 1_048_576, 0)
    expect(first?.memoryUsedMib).toBeLessThan(first?.memoryTotalMib ?? 0)
    const request = { kind: 'terminal', workloadId: 'busy', columns: 80, rows: 24, command: null } as const
    const terminal = await measuring.open(request, forever)
    terminal.stream.write('yes >/dev/null & wget -q -O - http://127.0.0.1:1/\n')
    const later = await waitFor('its CPUs to work', async () => {
      const one = await read()
      return (one?.cpuSeconds ?? 0) > (first?.cpuSeconds ?? 0) + 0.1 ? one : undefined
    })
    expect(later?.hasProgram).toBe(true)
    expect(later?.networkRxBytes).toBeGreaterThanOrEqual(0)
    terminal.stream.destroy()
    await measuring.stop('busy', forever)
    expect(await read()).toBeUndefined()
    await measuring.close()
  })

  test('an exit during the watch fails the workload with its exit code', async () => {
    const script = 'until [ -e /tmp/end ]; do sleep 0.1; done; exit 3'
    const image = await lab.registry.push('lab/brief', '1', [lab.registry.busyboxLayer], ['/bin/sh', '-c', script])
    let changes = 0
    const unwatch = runtime.watch?.(() => (changes += 1))
    await runtime.start(workloadOf('brief', { image }), silent, forever)
    await waitFor('the event of its start', () => changes > 0)
    changes = 0
    await shell('brief', 'touch /tmp/end')
    await waitFor('the event of its end', () => changes > 0)
    const workload = await waitForState(runtime, 'brief', 'failed')
    expect(workload).toMatchObject({ failure: 'process_exited', message: expect.stringContaining('code 3') })
    unwatch?.()
    // A new agent still reports it.
    const next = runtimeOn(lab)
    expect((await next.list(forever)).find((one) => one.id === 'brief')).toEqual(workload)
    await next.close()
    await runtime.stop('brief', forever)
  })

  test('a container over its memory limit is killed, with the reason', async () => {
    const image = await lab.registry.push('lab/eat', '1', [lab.registry.busyboxLayer], ['/bin/tail', '/dev/zero'])
    const resources = { cpuModel: '', cpuCount: 1, ramGb: 0.03, storageGb: 1 }
    await runtime.start(workloadOf('eat', { image, resources }), silent, forever)
    expect(await waitForState(runtime, 'eat', 'failed')).toMatchObject({ failure: 'out_of_memory' })
    await runtime.stop('eat', forever)
  })

  test('a container over its disk limit is stopped, with the reason', async () => {
    const watchful = runtimeOn(lab, { diskWatchMs: 100 })
    const resources = { cpuModel: '', cpuCount: 1, ramGb: 0.1, storageGb: 0.01 }
    await watchful.start(workloadOf('disk', { resources }), silent, forever)
    await shell('disk', 'head -c 20000000 /dev/zero >/root/fill').catch(silent)
    expect(await waitForState(watchful, 'disk', 'failed')).toMatchObject({
      failure: 'disk_share_exceeded',
      message: expect.stringMatching(
        /^The container uses 0\.0[12][0-9]* GB of disk; its limit is 0\.01 GB\.$/,
      ) as string,
    })
    expect(watchful.notes()).toContainEqual(expect.stringContaining('Disk use is measured'))
    await watchful.stop('disk', forever)
    await watchful.close()
  })

  test('a container removed by someone else is lost and not created again', async () => {
    await runtime.start(workloadOf('stolen'), silent, forever)
    await lab.docker('rm', '-f', 'berth-stolen')
    expect(await listed('stolen')).toMatchObject({ state: 'failed', failure: 'vanished' })
    const again = runtime.start(workloadOf('stolen'), silent, forever)
    await expect(again).rejects.toMatchObject({ reason: 'vanished' })
    await lab.docker('network', 'rm', 'berth-stolen')
    expect(await listed('stolen')).toBeUndefined()
    const known = runtime.start({ ...workloadOf('known'), started: true }, silent, forever)
    await expect(known).rejects.toMatchObject({ reason: 'vanished' })
    await runtime.stop('stolen', forever)
    await runtime.stop('known', forever)
  })

  test('a container created during a scan is not taken for lost', async () => {
    const line = await holdRequests(lab, /^GET \S*\/networks\?/)
    const slow = runtimeOn(lab, { socketPath: line.socketPath })
    const looking = slow.list(forever)
    await waitFor('the scan', () => line.held() > 0)
    await runtime.start(workloadOf('meanwhile'), silent, forever)
    line.goOn()
    expect((await looking).find(({ id }) => id === 'meanwhile')).toMatchObject({ state: 'running' })
    await Promise.all([slow.close(), line.close(), runtime.stop('meanwhile', forever)])
  })

  test('a network without a container is listed, completed, and removed', async () => {
    const order = ['--label', 'berth.id=half', '--label', 'berth.tag=berth-lab-half-00000000']
    const bridge = `com.docker.network.bridge.name=${bridgeOf('half')}`
    await lab.docker('network', 'create', ...order, '-o', bridge, 'berth-half')
    expect(await listed('half')).toMatchObject({ tag: 'berth-lab-half-00000000', state: 'starting' })
    await runtime.start(workloadOf('half'), silent, forever)
    expect(
      (await lab.docker('network', 'ls', '-q', '--filter', 'label=berth.id=half')).trim().split('\n'),
    ).toHaveLength(1)
    await runtime.stop('half', forever)
    expect(await listed('half')).toBeUndefined()
  })

  test('a stopped daemon is an error; containers that ended with it start again with their files', async () => {
    await runtime.start(workloadOf('back', { ports: [80] }), silent, forever)
    await shell('back', 'echo kept >/root/note')
    await lab.stopDaemon()
    await expect(runtime.list(forever)).rejects.toThrow(/ENOENT|ECONNREFUSED/)
    await lab.startDaemon()
    await waitForState(runtime, 'back', 'ended')
    await runtime.start(workloadOf('back', { ports: [80] }), silent, forever)
    expect((await listed('back'))?.state).toBe('running')
    expect(await shell('back', 'cat /root/note')).toBe('kept\n')
    await lab.cutPower()
    await lab.startDaemon()
    await waitForState(runtime, 'back', 'ended')
    await runtime.start(workloadOf('back', { ports: [80] }), silent, forever)
    expect(await shell('back', 'cat /root/note')).toBe('kept\n')
    await runtime.stop('back', forever)
    expect(await lab.docker('ps', '-aq')).toBe('')
  })
})
