/** Protects the host and its other customers from each container. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
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
import { bridgeOf } from './fence.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const execFileAsync = promisify(execFile)
const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}

describe.skipIf(why !== undefined)(`a host of containers${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'guard' })
    runtime = runtimeOn(lab)
  })
  afterAll(async () => {
    await runtime.close()
    await lab.close()
  })

  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const inHost = async (...args: string[]): Promise<string> =>
    (await execFileAsync('nsenter', [`--net=/run/netns/${lab.netns}`, ...args])).stdout
  const tables = (): Promise<string> => inHost('nft', 'list', 'tables')
  const addressOf = async (id: string): Promise<string> => {
    const format = `{{(index .NetworkSettings.Networks "berth-${id}").IPAddress}}`
    return (await lab.docker('inspect', '-f', format, `berth-${id}`)).trim()
  }
  const hasImage = async (name: string): Promise<boolean> =>
    lab.docker('image', 'inspect', name).then(
      () => true,
      () => false,
    )

  test('hides itself and the cloud metadata service from containers, and serves published ports', async () => {
    await runtime.start(workloadOf('inner'), silent, forever)
    await runtime.start(workloadOf('cloud', { ports: [80] }), silent, forever)
    await shell('cloud', 'mkdir /www && echo secret >/www/index.html && httpd -h /www -p 80')
    // Another container acts as the metadata service, and its published port as a service of the host.
    const pid = (await lab.docker('inspect', '-f', '{{.State.Pid}}', 'berth-cloud')).trim()
    await execFileAsync('nsenter', ['-t', pid, '-n', 'ip', 'addr', 'add', '169.254.169.254/32', 'dev', 'lo'])
    const via = [await addressOf('cloud'), 'dev', bridgeOf('cloud')] as const
    await inHost('ip', 'route', 'add', '169.254.169.254/32', 'via', ...via)
    const published = (await lab.docker('port', 'berth-cloud', '80/tcp')).trim()
    const gateway = (await shell('inner', "ip route | sed -n 's/^default via \\([^ ]*\\).*/\\1/p'")).trim()
    // The answer, or an empty string.
    const ask = async (place: string): Promise<string> => {
      const request = "(printf 'GET / HTTP/1.0\\r\\n\\r\\n'; sleep 1)"
      const answer = await shell('inner', `${request} | nc -w 3 ${place.replace(':', ' ')} || true`)
      return answer.slice(answer.lastIndexOf('\n', answer.length - 2) + 1)
    }
    const places = ['169.254.169.254:80', published, `${gateway}:${published.split(':')[1] ?? ''}`]

    expect(runtime.notes()).toContainEqual(expect.stringContaining('Containers are isolated'))
    expect(runtime.fault()).toBeUndefined()
    expect(await tables()).toBe('table inet berth_containers\n')
    for (const place of places) expect([place, await ask(place)]).toEqual([place, ''])
    expect(await ask(lab.registry.address)).toBe('')
    // It is reachable from outside.
    expect(await (await fetch(`http://${published}/`)).text()).toBe('secret\n')

    // Without the rules the services are reachable, and a new agent restores them.
    await inHost('nft', 'delete', 'table', 'inet', 'berth_containers')
    for (const place of places.slice(0, 2)) expect([place, await ask(place)]).toEqual([place, 'secret\n'])
    expect(await ask(lab.registry.address)).not.toBe('')
    const next = runtimeOn(lab)
    await next.list(forever)
    for (const place of places) expect([place, await ask(place)]).toEqual([place, ''])
    await next.close()

    await runtime.stop('cloud', forever)
    expect(await tables()).toBe('table inet berth_containers\n')
    await runtime.stop('inner', forever)
    expect(await tables()).toBe('')
  })

  test('removes unused images of customers and keeps those of its owner', async () => {
    const layer = await lab.registry.layer({ 'etc/theirs': randomBytes(8).toString('hex') })
    const image = await lab.registry.push('lab/theirs', '1', [lab.registry.busyboxLayer, layer], ['/bin/sh'])
    const owned = await lab.registry.push('lab/owned', '1', [lab.registry.busyboxLayer], ['/bin/cat'])
    await lab.docker('pull', `${owned.name}:1`)
    await runtime.start(workloadOf('one', { image }), silent, forever)
    await runtime.start(workloadOf('two', { image }), silent, forever)
    await runtime.start(workloadOf('three', { image: owned }), silent, forever)
    await runtime.start(workloadOf('four'), silent, forever)
    await runtime.stop('one', forever)
    await runtime.stop('three', forever)
    await runtime.stop('four', forever)
    expect(await hasImage(`${image.name}:1`)).toBe(true)
    // The next agent still knows which images belong to customers.
    const next = runtimeOn(lab)
    await next.stop('two', forever)
    await waitFor('the image to be removed', async () => !(await hasImage(`${image.name}:1`)))
    await next.close()
    expect(await hasImage(`${owned.name}:1`)).toBe(true)
    expect(await hasImage(`${lab.images.busybox.name}:${lab.images.busybox.tag}`)).toBe(true)
  })

  test.each([
    ['on the line', () => randomBytes(4_000_000).toString('base64')],
    ['once it is unpacked', () => 'x'.repeat(20_000_000)],
  ])('rejects an image larger than the disk limit %s', async (_, content) => {
    const layer = await lab.registry.layer({ 'etc/large': content() })
    const image = await lab.registry.push('lab/large', '1', [lab.registry.busyboxLayer, layer], ['/bin/sh'])
    const resources = { cpuModel: '', cpuCount: 1, ramGb: 0.1, storageGb: 0.003 }
    const started = runtime.start(workloadOf('large', { image, resources }), silent, forever)
    await expect(started).rejects.toMatchObject({ reason: 'image_too_large' })
    await runtime.stop('large', forever)
    await waitFor('the image to be removed', async () => !(await hasImage(`${image.name}:1`)))
  })

  test('with a full disk stops the container that filled it, and still reports', async () => {
    const folder = path.join(lab.folder, 'small')
    await mkdir(folder)
    await execFileAsync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'berth-lab', folder])
    const reported: string[] = []
    const other = runtimeOn(lab, { folder, diskWatchMs: 100, onError: (what) => reported.push(what) })
    const resources = { cpuModel: '', cpuCount: 1, ramGb: 0.1, storageGb: 0.01 }
    await other.start(workloadOf('greedy', { resources }), silent, forever)
    await other.start(workloadOf('modest'), silent, forever)
    await writeFile(path.join(folder, 'fill'), Buffer.alloc(65_536)).catch(silent)
    await shell('greedy', 'head -c 20000000 /dev/zero >/root/fill').catch(silent)
    expect(await waitForState(other, 'greedy', 'failed')).toMatchObject({ failure: 'disk_share_exceeded' })
    await waitFor('the error to be reported', () => reported.includes('cannot store the exit of berth-greedy'))
    await shell('modest', 'kill -9 -1').catch(silent)
    await lab.docker('kill', 'berth-modest').catch(silent)
    expect(await waitForState(other, 'modest', 'failed')).toMatchObject({ failure: 'process_exited' })
    expect((await readdir(folder)).filter((name) => name.endsWith('.new'))).toEqual([])
    for (const id of ['greedy', 'modest']) await other.stop(id, forever)
    await other.close()
  })

  test('with a damaged file of one container reports only that one as failed', async () => {
    await runtime.start(workloadOf('torn'), silent, forever)
    await runtime.start(workloadOf('whole'), silent, forever)
    await writeFile(path.join(lab.folder, 'kept', 'torn.json'), '')
    // A running container is still reported as running.
    expect((await runtime.list(forever)).map(({ id, state }) => `${id} ${state}`).sort()).toEqual([
      'torn running',
      'whole running',
    ])
    await lab.docker('kill', 'berth-torn')
    expect(await waitForState(runtime, 'torn', 'failed')).toMatchObject({ failure: 'unreadable' })
    expect((await runtime.list(forever)).find(({ id }) => id === 'whole')?.state).toBe('running')
    await expect(runtime.start(workloadOf('torn'), silent, forever)).rejects.toMatchObject({ reason: 'unreadable' })
    for (const id of ['torn', 'whole']) await runtime.stop(id, forever)
    expect(await runtime.list(forever)).toEqual([])
  })
})
