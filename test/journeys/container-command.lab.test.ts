/** A new user's first commands: a command in a container, an image that only the host has, one that does not exist. */
import { execFile } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SMALL_IMAGE } from '../../src/runtimes/docker/small-image.ts'
import { agentProgram } from '../lab/agent-process.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import {
  instancesPath,
  rentInstance,
  rentOnline,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import { berthInPipes, checkCopies, checkPipes, checkUnreadInput } from '../lab/moved-data.ts'
import { tablesWith } from '../harness/planted.ts'
import { startMachines, type ContainerHost, type Customer, type Machines, type Ran } from '../lab/machines.ts'
import { waitFor } from '../harness/wait.ts'
import { askWebApp } from '../harness/web-app.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`
const COMMAND_MS = 60_000
const RUNS = 10
/** Enough for a busy machine. */
const GIVE_UP_MS = 40_000

const APPS_DOMAIN = 'apps.example.test'
const PLANTED = 'planted-secret-value-7431'

interface Failed {
  readonly type: string
  readonly data: { readonly name?: string; readonly reason?: string }
}

describe.skipIf(why !== undefined)(`commands and images of containers${skipped}`, () => {
  let machines: Machines
  let host: ContainerHost
  let ada: Customer
  let first: Instance

  beforeAll(async () => {
    machines = await startMachines({ hosts: 0, env: { BERTH_APPS_DOMAIN: `http://${APPS_DOMAIN}` } })
    host = await machines.addHost({ args: ['--allow-local-images'] })
    ada = await machines.customer()
    const { name, tag } = machines.registry.images.busybox
    await host.docker.docker('pull', `${name}:${tag}`)
    await host.docker.docker('tag', `${name}:${tag}`, 'only-here:2')
  }, 120_000)
  afterAll(() => machines.close())

  /** Runs the command as in a script: no terminal and empty stdin. */
  function exec(name: string, ...command: string[]): Promise<Ran> {
    const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: machines.server.url, BERTH_KEY: ada.key }
    return new Promise((resolve) => {
      const args = [agentProgram(), 'exec', name, '--', ...command]
      const child = execFile(process.execPath, args, { env, timeout: COMMAND_MS }, (_, out, error) =>
        resolve({ code: child.exitCode, out, error }),
      )
      child.stdin?.end()
    })
  }

  test('rents an image that only the host has, by its name', async () => {
    first = await rentOnline(ada, host, { name: 'only-here', tag: '2' })
    expect(first.instance.status).toBe('online')
  })

  test('short commands end with their exit codes', async () => {
    const { id } = first
    for (let n = 0; n < RUNS; n += 1) expect(await exec(id, 'true')).toMatchObject({ code: 0, out: '' })
    for (const code of [3, 0]) expect((await exec(id, 'sh', '-c', `exit ${code}`)).code).toBe(code)
    expect((await exec(id, 'echo', 'two  words')).out.trim()).toBe('two  words')
    await terminate(ada, id)
  })

  test('pipes pass bytes unchanged through exec, and cp moves files and folders (issue 31, C)', async () => {
    const { id } = await rentOnline(ada, host, { name: 'only-here', tag: '2' })
    const env = { BERTH_URL: machines.server.url, BERTH_KEY: ada.key }
    await checkPipes(env, id)
    await checkUnreadInput(env, id)
    await checkCopies(env, id)
    expect(await berthInPipes(env, ['exec', id, '--', 'true'])).toMatchObject({ code: 0 })
    await terminate(ada, id)
    await untilGone(ada, id)
  }, 240_000)

  test('publishes ports without naming an image', async () => {
    const body = { cluster_name: 'lab', node_name: host.id, gpu_count: 1, ports: [8080] }
    const { instance_id: name } = await succeed(ada.call, 'POST', `${instancesPath}/create`, body)
    expect((await untilStatus(ada, name, 'online')).portMappings).toHaveLength(1)
    await terminate(ada, name)
  })

  test('a secret reaches the machines of its orders, and no answer, event, log, row or other customer', async () => {
    await succeed(ada.call, 'PUT', '/v2/secrets/TOKEN', { value: PLANTED })
    const { name: image, tag } = machines.registry.images.busybox
    const order = {
      env: { TOKEN: '{{ secrets.TOKEN }}', GREETING: 'Bearer {{ secrets.TOKEN }}' },
      files: [{ path: '/root/.token', content: '{{ secrets.TOKEN }}' }],
      onStart: 'echo "{{ secrets.TOKEN }}" | tr a-z A-Z',
      shmGb: 0.0625,
    }
    const own = await rentInstance(ada, host, { name: image, tag }, order)
    const { sshCommand } = await untilStatus(ada, own, 'online')
    const inside = 'echo "$TOKEN,$GREETING"; cat /root/.token; stat -c %a /root/.token; df -k /dev/shm | tail -n 1'
    expect((await ada.ssh(sshCommand, inside)).out).toMatch(
      new RegExp(`^${PLANTED},Bearer ${PLANTED}\\n${PLANTED}600\\nshm +6103\\d `),
    )
    const logs = () => ada.call('GET', `/v2/rentals/${own}/logs`)
    await waitFor('the start script', async () => String((await logs()).body).includes(PLANTED.toUpperCase()))
    const eve = await machines.customer()
    const other = await rentInstance(eve, host, { name: image, tag })
    const { sshCommand: hers } = await untilStatus(eve, other, 'online')
    const seen = await eve.ssh(hers, 'env; cat /proc/*/environ; ps; ls -aR /root /tmp')
    expect(seen.out).toContain('BERTH_GPUS')
    // An order that fails at the engine has it in hand, too.
    const refused = { ...order, files: [{ path: '/etc/passwd/x', content: '{{ secrets.TOKEN }}' }] }
    await terminate(eve, other)
    await untilGone(eve, other)
    const failed = await rentInstance(ada, host, { name: image, tag }, refused)
    await untilStatus(ada, failed, 'failed')
    const answers = await Promise.all(
      ['/v2/secrets', instancesPath, '/v2/events?limit=1000', `/v2/rentals/${own}`].map((path) =>
        succeed(ada.call, 'GET', path),
      ),
    )
    const told = [seen.out, JSON.stringify(answers), host.agent().output(), (await host.tellAgent('status')).out]
    for (const text of told) expect(text).not.toContain(PLANTED)
    expect(JSON.stringify(answers)).toContain('bad_file_path')
    expect(await tablesWith(machines.server.app.database.db, PLANTED)).toEqual([])
    const file = path.join(host.dir, 'desired.json')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await readFile(file, 'utf8')).toContain(PLANTED)
    for (const one of [own, failed]) await terminate(ada, one)
    for (const one of [own, failed]) await untilGone(ada, one)
    await waitFor('the host to forget it', async () => !(await readFile(file, 'utf8')).includes(PLANTED))
  })

  test('a restarted agent keeps the images allowed on its first run', async () => {
    await host.stopAgent('stop')
    await host.startAgent('kept')
    for (const image of [{ name: 'only-here', tag: '2' }, machines.registry.images.busybox, undefined]) {
      const { id, instance } = await rentOnline(ada, host, image)
      expect(instance.status).toBe('online')
      await terminate(ada, id)
      await untilGone(ada, id)
    }
  })

  test('a host without a registry makes its own image, and the page of the starter template opens', async () => {
    const { server } = machines
    const cutOff = await machines.addHost({ hasNoImage: true })
    const name = await rentInstance(ada, cutOff, null, { templateId: 'tpl_page' })
    await untilStatus(ada, name, 'online')
    const detail = () => succeed(ada.call, 'GET', `/v2/rentals/${name}`)
    await waitFor('a successful health check', async () => (await detail()).ready === true)
    const url = `http://${name}-8080.${APPS_DOMAIN}`
    const asKey = { Authorization: `Bearer ${ada.key}` }
    const page = await askWebApp(server.url, url, asKey)
    expect([page.status, page.body]).toEqual([200, expect.stringContaining('<h1>It works</h1>')])
    expect((await exec(name, 'sh', '-c', 'echo mine > /srv/www/own.txt')).code).toBe(0)
    expect(await askWebApp(server.url, `${url}/own.txt`, asKey)).toMatchObject({ status: 200, body: 'mine\n' })
    expect((await askWebApp(server.url, url)).status).toBe(404)
    expect(await cutOff.docker.docker('images', '--format', '{{.Repository}}:{{.Tag}}')).toBe(`${SMALL_IMAGE}\n`)
    await terminate(ada, name)
    await untilGone(ada, name)
  })

  test('an image from an unreachable registry fails within seconds, with a reason', async () => {
    const startedMs = performance.now()
    const name = await rentInstance(ada, host, { name: `${machines.network.bridgeAddress}:9/x`, tag: '1' })
    await waitFor('its failure', async () => {
      const { events } = await succeed(ada.call, 'GET', '/v2/events?limit=100')
      const failed = (events as Failed[]).find(({ type, data }) => type === 'rental.failed' && data.name === name)
      return failed?.data.reason === 'registry_unreachable'
    })
    expect(performance.now() - startedMs).toBeLessThan(GIVE_UP_MS)
  })
})
