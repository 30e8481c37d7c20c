/** Images: pulled from registries (private and slow ones too) or local, and started as an order asks, with a real daemon and registry. */
import { existsSync, readdirSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import {
  forever,
  programOf,
  runtimeOn,
  startListener,
  workloadOf,
  type DockerRuntime,
} from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { Keeper } from '../keeper.ts'
import { NeverStarts } from '../runtime.ts'
import { SMALL_IMAGE, smallImageNote } from './small-image.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}

describe.skipIf(why !== undefined)(`images${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'images' })
    runtime = runtimeOn(lab)
  })
  afterAll(async () => {
    await runtime.close()
    await lab.close()
  })

  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const listed = async (id: string) => (await runtime.list(forever)).find((one) => one.id === id)
  const refusal = async (changes: Parameters<typeof workloadOf>[1], on = runtime): Promise<NeverStarts> => {
    const failure = await on.start(workloadOf('refused', changes), silent, forever).catch((error: unknown) => error)
    await on.stop('refused', forever)
    expect(failure).toBeInstanceOf(NeverStarts)
    return failure as NeverStarts
  }

  test('makes a small image only for orders without an image, and says so (issue 31, 10 F1)', async () => {
    const smallImageFolder = path.join(lab.folder, 'small')
    const cutOff = runtimeOn(lab, { defaultImage: 'debian:12', smallImageFolder })
    const messages: string[] = []
    await cutOff.start(workloadOf('small'), (message) => messages.push(message), forever)
    expect(messages).toContain('building the small image')
    expect(await shell('small', 'id -un; cat /proc/1/comm; ls -d /tmp /usr/bin/env; stat -c %a /tmp')).toMatch(
      /^root\n.*\n\/tmp\n\/usr\/bin\/env\n1777\n$/,
    )
    await cutOff.start(workloadOf('again'), (message) => messages.push(message), forever)
    expect(messages.filter((message) => message === 'building the small image')).toHaveLength(1)
    const small = (await cutOff.list(forever)).find((one) => one.id === 'small')
    expect(small).toMatchObject({ state: 'running', message: smallImageNote('debian:12') })
    for (const id of ['small', 'again']) await cutOff.stop(id, forever)
    expect(await lab.docker('images', '-q', SMALL_IMAGE)).not.toBe('')
    expect(readdirSync(smallImageFolder)).toEqual([])
    expect(await refusal({ image: { name: 'ubuntu', tag: '24.04' } }, cutOff)).toMatchObject({
      reason: 'registry_unreachable',
    })
    // The same image as the default one, but the customer named it.
    expect(await refusal({ image: { name: 'debian', tag: '12' } }, cutOff)).toMatchObject({
      reason: 'registry_unreachable',
    })
    const chosen = runtimeOn(lab, { defaultImage: 'debian:12' })
    expect(await refusal({}, chosen)).toMatchObject({ reason: 'registry_unreachable' })
    for (const runtime of [cutOff, chosen]) await runtime.close()
  })

  test('pulls an image with progress, runs it, and removes it afterwards', async () => {
    const messages: string[] = []
    const isHalfway = (): boolean => messages.some((one) => /^pulling .*lab\/sftp:1, [0-9]+ of [0-9]+ MB$/.test(one))
    // The largest layer pauses halfway until the progress was reported.
    const registry = await startProxy(lab, (request, response, pass) => {
      if (!request.url?.includes('/blobs/')) return pass()
      void sendHalves(`http://${lab.registry.address}${request.url}`, response, () => waitFor('progress', isHalfway))
    })
    const image = { name: `${registry.address}/lab/sftp`, tag: '1' }
    await runtime.start(workloadOf('whole', { image }), (message) => messages.push(message), forever)
    await registry.close()
    expect(messages.at(-1)).toBe('starting the container')
    expect(await listed('whole')).toEqual({
      id: 'whole',
      tag: 'berth-lab-whole-00000000',
      state: 'running',
      sshUser: 'root',
      incarnation: expect.stringMatching(/^20[0-9]{2}-/) as string,
      disks: [],
    })
    // A repeated start changes nothing.
    await runtime.start(workloadOf('whole', { image }), silent, forever)
    await runtime.stop('whole', forever)
    await runtime.stop('whole', forever)
    expect(await listed('whole')).toBeUndefined()
    expect(await lab.docker('ps', '-aq', '--filter', 'label=berth.id=whole')).toBe('')
    expect(await lab.docker('network', 'ls', '-q', '--filter', 'label=berth.id=whole')).toBe('')
  })

  test('refuses a registry with a private address unless the supplier lists it', async () => {
    // Not the default image, which the supplier chose.
    const rules = { allowedRegistries: [], defaultImage: 'debian:12' }
    const strict = runtimeOn(lab, rules)
    expect((await refusal({ image: lab.images.busybox }, strict)).reason).toBe('registry_refused')
    expect((await refusal({ image: { name: 'localhost:1/x', tag: null } }, strict)).reason).toBe('registry_refused')
    await strict.close()
    const named = runtimeOn(lab, {
      ...rules,
      registries: { [lab.registry.address]: { username: 'a', password: 'b' } },
    })
    await named.start(workloadOf('named', { image: lab.images.busybox }), silent, forever)
    await named.stop('named', forever)
    await named.close()
  })

  test.each([
    ['does not listen', () => `${lab.network.bridgeAddress}:9/x`],
    ['does not resolve', () => 'registry.invalid/x'],
  ])('gives up on a registry that %s within seconds and logs the cause', async (_, nameOf) => {
    const reported: unknown[] = []
    const other = runtimeOn(lab, {
      allowedRegistries: [lab.network.bridgeAddress, 'registry.invalid'],
      // The daemon resolves the name itself.
      resolve: () => Promise.resolve([{ address: '192.0.2.1', family: 4 }]),
      onError: (what, error) => reported.push(what, error),
    })
    const startedMs = performance.now()
    const failure = await refusal({ image: { name: nameOf(), tag: null } }, other)
    expect(failure.reason).toBe('registry_unreachable')
    expect(performance.now() - startedMs).toBeLessThan(30_000)
    expect(failure.message).not.toMatch(/dial|refused|lookup/)
    expect(String(reported[1])).toMatch(/refused|no such host|lookup/)
    await other.close()
  })

  test('hides why a pull failed under the general permission for private registries', async () => {
    // An address in the daemon's network, which this process cannot reach.
    const other = runtimeOn(lab, { allowedRegistries: [], allowPrivateRegistries: true })
    const closed = await refusal({ image: { name: `${lab.address}:9/x`, tag: null } }, other)
    const open = await startListener(lab.netns)
    const answered = await refusal({ image: { name: `${lab.address}:${open.port}/x`, tag: null } }, other)
    for (const failure of [closed, answered]) expect(failure.reason).toBe('image_unavailable')
    expect(closed.message.replaceAll(/:[0-9]+/g, '')).toBe(answered.message.replaceAll(/:[0-9]+/g, ''))
    await open.close()
    await other.close()
  })

  test('uses a local image if it is the default, or if the supplier allows it', async () => {
    const busybox = `${lab.images.busybox.name}:${lab.images.busybox.tag}`
    await lab.docker('pull', busybox)
    await lab.docker('tag', busybox, 'only-here:2')
    const image = { name: 'only-here', tag: '2' }
    const byDefault = runtimeOn(lab, { defaultImage: 'only-here:2' })
    await byDefault.start(workloadOf('default', { image }), silent, forever)
    expect((await listed('default'))?.state).toBe('running')
    await byDefault.stop('default', forever)
    await byDefault.close()
    const allowed = runtimeOn(lab, { allowLocalImages: true })
    await allowed.start(workloadOf('local', { image }), silent, forever)
    expect((await listed('local'))?.state).toBe('running')
    await allowed.stop('local', forever)
    await allowed.close()
    // Without the permission the local image cannot be used.
    expect((await refusal({ image })).reason).toMatch(/^(registry_unreachable|image_not_found)$/)
    await lab.docker('image', 'rm', 'only-here:2')
  })

  test('sends credentials to a private registry, and reports wrong ones', async () => {
    const headers: Array<string | undefined> = []
    const guarded = await startProxy(lab, (request, response, pass) => {
      headers.push(request.headers.authorization)
      if (request.headers.authorization === basic('berth', 'secret')) return pass()
      response.writeHead(401, { 'www-authenticate': 'Basic realm="lab"' }).end('{"errors":[{"code":"UNAUTHORIZED"}]}')
    })
    const image = { name: `${guarded.address}/lab/busybox`, tag: '1' }
    const right = runtimeOn(lab, { registries: { [guarded.address]: { username: 'berth', password: 'secret' } } })
    await right.start(workloadOf('private', { image }), silent, forever)
    await right.stop('private', forever)
    await right.close()
    expect(headers).toContain(basic('berth', 'secret'))
    expect((await refusal({ image })).reason).toBe('image_refused')
    await guarded.close()
  })

  test('pulls with the login of the order, and shows it to no other registry, customer or log', async () => {
    const headers: Array<string | undefined> = []
    const logged: string[] = []
    const guarded = await startProxy(lab, (request, response, pass) => {
      headers.push(request.headers.authorization)
      if (request.headers.authorization === basic('ada', 'planted-password')) return pass()
      response.writeHead(401, { 'www-authenticate': 'Basic realm="lab"' }).end('{"errors":[{"code":"UNAUTHORIZED"}]}')
    })
    const other = runtimeOn(lab, { onError: (what, error) => logged.push(`${what} ${String(error)}`) })
    const image = { name: `${guarded.address}/lab/busybox`, tag: '1' }
    const registry = { server: guarded.address, username: 'ada', password: 'planted-password' }
    await other.start(workloadOf('mine', { image, program: programOf({ registry }) }), silent, forever)
    // A copy on the host is of no use to a customer who may not pull it.
    expect((await refusal({ image }, other)).reason).toBe('image_refused')
    expect(headers).toContain(basic('ada', 'planted-password'))
    headers.length = 0
    const elsewhere = { ...registry, server: 'registry.example.org' }
    expect((await refusal({ image, program: programOf({ registry: elsewhere }) }, other)).reason).toBe('image_refused')
    expect(headers.filter((one) => one !== undefined)).toEqual([])
    expect(logged.join('\n')).not.toContain('planted')
    await other.stop('mine', forever)
    await other.close()
    await guarded.close()
  })

  test("does not count an image or a disk of another customer as the supplier's local one (issue 31, 4)", async () => {
    let isOpen = true
    const guarded = await startProxy(lab, (_request, response, pass) =>
      isOpen ? pass() : void response.writeHead(401).end('{"errors":[{"code":"UNAUTHORIZED"}]}'),
    )
    const allowed = runtimeOn(lab, { allowLocalImages: true })
    const image = { name: `${guarded.address}/lab/busybox`, tag: '1' }
    await allowed.start(workloadOf('mine', { image }), silent, forever)
    isOpen = false
    expect((await refusal({ image }, allowed)).reason).toBe('image_refused')
    const disk = (await lab.docker('commit', 'berth-mine')).trim()
    expect(disk).toMatch(/^sha256:[0-9a-f]{64}$/)
    const [name = '', tag = ''] = disk.split(':')
    expect((await refusal({ image: { name, tag } }, allowed)).reason).toMatch(
      /^(registry_unreachable|image_not_found)$/,
    )
    await allowed.stop('mine', forever)
    await lab.docker('image', 'rm', disk)
    await allowed.close()
    await guarded.close()
  })

  test('the entrypoint of the image runs with the arguments of the order, unless the order has a command', async () => {
    const { busyboxLayer } = lab.registry
    const entry = ['/bin/sh', '-c', 'echo "entry $*"; exec sleep 9999', 'sh']
    const image = await lab.registry.push('lab/entry', '1', [busyboxLayer], ['from-image'], { Entrypoint: entry })
    const outputs = ['entry from-image', 'entry a b', 'command only']
    const programs = [
      {},
      { args: ['a', 'b'] },
      { command: ['/bin/sh', '-c', 'echo "command only $*"; exec sleep 9999'] },
    ]
    for (const [i, output] of outputs.entries()) {
      await runtime.start(workloadOf('entry', { image, program: programOf(programs[i] ?? {}) }), silent, forever)
      const log = await waitFor('its output', async () => (await lab.docker('logs', 'berth-entry')).trim() || undefined)
      expect(log).toBe(output)
      await runtime.stop('entry', forever)
    }
  })

  test('files of the order are there at the first start, and links of the image lead nowhere else', async () => {
    const { busyboxLayer } = lab.registry
    const links = await lab.registry.linkLayer({
      'etc/app': '/tmp/elsewhere',
      'srv/out': '../../../../../..',
      'srv/file': '/etc/passwd',
    })
    const image = await lab.registry.push(
      'lab/links',
      '1',
      [busyboxLayer, links],
      ['/bin/sh', '-c', 'cat /opt/a/b; exec sleep 9999'],
    )
    const files = [
      { path: '/opt/a/b', content: 'from the order\n', mode: '0640' },
      { path: '/srv/file', content: 'replaced', mode: '0600' },
      { path: '/srv/out/escaped-berth-test', content: 'inside', mode: '0644' },
    ]
    await runtime.start(workloadOf('files', { image, program: programOf({ files }) }), silent, forever)
    await waitFor('the file in the log', async () =>
      (await lab.docker('logs', 'berth-files')).includes('from the order'),
    )
    expect(await shell('files', 'stat -c "%a %u" /opt/a/b /srv/file; cat /srv/file; head -n 1 /etc/passwd')).toBe(
      '640 0\n600 0\nreplacedroot:x:0:0:root:/root:/bin/sh\n',
    )
    expect(await shell('files', 'cat /escaped-berth-test')).toBe('inside')
    expect(existsSync('/escaped-berth-test')).toBe(false)
    // Later they are the customer's.
    await shell('files', 'echo changed >/srv/file')
    await lab.docker('kill', 'berth-files')
    await runtime.start(workloadOf('files', { image, program: programOf({ files }) }), silent, forever)
    expect(await shell('files', 'cat /srv/file')).toBe('changed\n')
    await runtime.stop('files', forever)
    const bad = programOf({ files: [{ path: '/etc/passwd/x', content: '', mode: '0644' }] })
    expect((await refusal({ program: bad })).reason).toBe('bad_file_path')
  })

  test('a program that fails is restarted as often as ordered, with its start script each time', async () => {
    // Another user than root, whose terminal root cannot open by way of /proc.
    const script = 'echo "run as $(id -u)"; until [ -e /dev/shm/end ]; do sleep 0.1; done; exit 3'
    const layers = [lab.registry.busyboxLayer]
    const image = await lab.registry.push('lab/again', '1', layers, ['/bin/sh', '-c', script], { User: '1000' })
    const onStart = 'echo "script as $(id -u) with $WORD"; exit 4'
    const program = programOf({ env: { WORD: 'env' }, onStart, restart: { policy: 'on-failure', maxRetries: 2 } })
    const keeper = new Keeper({ runtime, changed: silent, onError: silent, now: () => performance.now() })
    const workloads = [workloadOf('again', { image, program })]
    keeper.desire({ type: 'desired', generation: 1, state: 'ready', workloads, volumes: [] })
    const look = async () => {
      await keeper.pass(forever)
      const [one] = keeper.report()?.workloads ?? []
      return one
    }
    for (const run of [1, 2, 3]) {
      await waitFor(`the script of run ${run}`, async () => {
        const one = await look()
        const log = await lab.docker('logs', 'berth-again').catch(() => '')
        const isScriptOver = log.match(/onStart: exited with code 4/g)?.length === run
        return isScriptOver && log.match(/run as 1000/g)?.length === run && one?.message?.includes('code 4')
      })
      await shell('again', 'touch /dev/shm/end')
    }
    const failed = await waitFor('the failure', async () => {
      const one = await look()
      return one?.state === 'failed' && one
    })
    expect(failed).toMatchObject({
      failure: 'process_exited',
      message: 'The process exited with code 3 after 2 restarts.',
    })
    expect(await lab.docker('logs', 'berth-again')).toContain('script as 0 with env')
    keeper.close()
    await runtime.stop('again', forever)
  })

  test('aborts and retries a stalled pull', async () => {
    let blobs = 0
    const slow = await startProxy(lab, (request, response, pass) => {
      if (!request.url?.includes('/blobs/')) return pass()
      blobs += 1
      // The first answer begins and then stalls.
      if (blobs === 1) response.writeHead(200, { 'content-length': '1000000' }).write('x')
      else pass()
    })
    const messages: string[] = []
    const impatient = runtimeOn(lab, { pullStallMs: 1_000 })
    const layer = await lab.registry.layer({ 'etc/slow': 'unlike all others' })
    await lab.registry.push('lab/slow', '1', [layer], ['/bin/sh'])
    const image = { name: `${slow.address}/lab/slow`, tag: '1' }
    await impatient.start(workloadOf('slow', { image }), (message) => messages.push(message), forever)
    expect(messages).toContainEqual(expect.stringContaining('made no progress for 1 s, retrying'))
    await impatient.stop('slow', forever)
    await impatient.close()
    await slow.close()
  })
})

type Handle = (request: http.IncomingMessage, response: http.ServerResponse, pass: () => void) => void

/** A proxy in front of the registry, reachable for the daemon of the lab. */
async function startProxy(lab: DockerLab, handle: Handle): Promise<{ address: string; close(): Promise<void> }> {
  const server = http.createServer((request, response) => {
    handle(request, response, () => {
      const to = http.request(`http://${lab.registry.address}${request.url ?? ''}`, {
        method: request.method ?? 'GET',
        headers: { accept: request.headers.accept ?? '*/*' },
      })
      to.once('response', (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      })
      to.once('error', () => response.destroy())
      to.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, lab.network.bridgeAddress, resolve))
  const at = server.address()
  return {
    address: `${lab.network.bridgeAddress}:${typeof at === 'object' && at !== null ? at.port : 0}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

async function sendHalves(url: string, response: http.ServerResponse, between: () => Promise<unknown>): Promise<void> {
  const blob = Buffer.from(await (await fetch(url)).arrayBuffer())
  response.writeHead(200, { 'content-length': blob.length })
  response.write(blob.subarray(0, blob.length / 2))
  if (blob.length > 1_000_000) await between()
  response.end(blob.subarray(blob.length / 2))
}

function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}
