/** Two tenants of one host, in every mode of the daemon: both reach the internet, neither reaches the other. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import {
  forever,
  runtimeOn,
  startListener,
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
/** From the range reserved for documentation: public to every rule, but unused. */
const PUBLIC_ADDRESS = '203.0.113.10'

describe.skipIf(why !== undefined).each([
  ['makes no rules', false],
  ['has lost its own rules', true],
])(`tenants of a daemon that %s${leftOut}`, (_, firewall) => {
  let lab: DockerLab
  let runtime: DockerRuntime
  let listener: { port: number; close(): Promise<void> }
  const reported: string[] = []

  const inNamespace = async (netns: string, ...args: string[]): Promise<string> =>
    (await execFileAsync('nsenter', [`--net=/run/netns/${netns}`, ...args])).stdout
  const inHost = (...args: string[]): Promise<string> => inNamespace(lab.netns, ...args)
  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const pidOf = async (id: string): Promise<string> =>
    (await lab.docker('inspect', '-f', '{{.State.Pid}}', `berth-${id}`)).trim()
  const addressOf = async (id: string): Promise<string> => {
    const format = `{{(index .NetworkSettings.Networks "berth-${id}").IPAddress}}`
    return (await lab.docker('inspect', '-f', format, `berth-${id}`)).trim()
  }
  /** Whether a connection succeeds. */
  const reaches = async (from: string, address: string, port: number): Promise<boolean> =>
    (await shell(from, `nc -w 2 ${address} ${port} </dev/null && echo yes || echo no`)).trim().endsWith('yes')
  const pings = async (from: string, address: string): Promise<boolean> =>
    (await shell(from, `ping -c 1 -W 1 ${address} >/dev/null && echo yes || echo no`)).trim() === 'yes'
  const removeRules = (): Promise<string> => inHost('nft', 'delete', 'table', 'inet', 'berth_containers')

  beforeAll(async () => {
    lab = await startDockerLab({ name: firewall ? 'lost' : 'plain', ...(firewall ? { firewall } : {}) })
    runtime = runtimeOn(lab, {
      fenceCheckMs: 100,
      onError: (what, error) => reported.push(`${what}: ${String(error)}`),
    })
    const world = await lab.network.addHost('world')
    await inNamespace(world.netns, 'ip', 'addr', 'add', `${PUBLIC_ADDRESS}/32`, 'dev', 'lo')
    await inNamespace(world.netns, 'ip', 'route', 'add', lab.host.innerSubnet, 'via', lab.address)
    await inHost('ip', 'route', 'add', `${PUBLIC_ADDRESS}/32`, 'via', world.address)
    listener = await startListener(world.netns)
    for (const [index, id] of ['ada', 'bob'].entries()) {
      await runtime.start(workloadOf(id), silent, forever)
      await shell(id, 'mkdir -p /www && echo inside >/www/index.html && httpd -h /www -p 80')
      // Docker assigns IPv6 addresses only if configured; they must be isolated too.
      const gateway = `fd00:be:${index + 1}::1`
      const inContainer = ['nsenter', '-t', await pidOf(id), '-n', 'sh', '-c']
      const turnOn = 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
      const address = `ip -6 addr add fd00:be:${index + 1}::2/64 dev eth0 nodad && ip -6 route add default via ${gateway}`
      await execFileAsync(inContainer[0] ?? '', [...inContainer.slice(1), `${turnOn} && ${address}`])
      const bridge = bridgeOf(id)
      await inHost('sh', '-c', `echo 0 >/proc/sys/net/ipv6/conf/${bridge}/disable_ipv6`)
      await inHost('ip', '-6', 'addr', 'add', `${gateway}/64`, 'dev', bridge, 'nodad')
    }
    await inHost('sh', '-c', 'echo 1 >/proc/sys/net/ipv6/conf/all/forwarding')
    if (firewall) {
      await inHost('iptables', '-P', 'FORWARD', 'ACCEPT')
      await inHost('iptables', '-F')
    }
  }, 120_000)
  afterAll(async () => {
    for (const id of ['ada', 'bob']) await runtime.stop(id, forever)
    await listener.close()
    await runtime.close()
    await lab.close()
  })

  test('reach the internet but not each other, over IPv4 and IPv6', async () => {
    for (const [from, to, index] of [
      ['ada', 'bob', 2],
      ['bob', 'ada', 1],
    ] as const) {
      expect([from, await reaches(from, await addressOf(to), 80)]).toEqual([from, false])
      expect([from, await pings(from, await addressOf(to))]).toEqual([from, false])
      expect([from, await pings(from, `fd00:be:${index}::2`)]).toEqual([from, false])
      expect([from, await reaches(from, PUBLIC_ADDRESS, listener.port)]).toEqual([from, true])
    }
    expect(runtime.fault()).toBeUndefined()
  })

  test('are isolated by rules that are restored, and reported, when something removes them', async () => {
    await removeRules()
    expect(await reaches('ada', await addressOf('bob'), 80)).toBe(true)
    expect(await reaches('bob', await addressOf('ada'), 80)).toBe(true)
    expect(await pings('ada', 'fd00:be:2::2')).toBe(true)
    await waitFor('the rules', async () => {
      await runtime.list(forever)
      return (await inHost('nft', 'list', 'tables')).includes('berth_containers')
    })
    expect(await reaches('ada', await addressOf('bob'), 80)).toBe(false)
    expect(reported).toContainEqual(expect.stringContaining('isolation of tenants'))
    expect(runtime.notes()).toContainEqual(expect.stringContaining('restored at'))
  })

  test('are isolated from a container that is added to their bridge', async () => {
    const { name, tag } = lab.images.busybox
    await lab.docker('run', '-d', '--name', 'beside', '--network', 'berth-ada', `${name}:${tag}`, 'sleep', '1000')
    const beside = (script: string): Promise<string> => lab.docker('exec', 'beside', 'sh', '-c', script)
    const address = await addressOf('ada')
    await waitFor('isolation', async () => {
      await runtime.list(forever)
      return !(await beside(`ping -c 1 -W 1 ${address} >/dev/null && echo yes || echo no`)).includes('yes')
    })
    expect(await reaches('ada', PUBLIC_ADDRESS, listener.port)).toBe(true)
    await lab.docker('rm', '-f', 'beside')
  })
})

describe.skipIf(why !== undefined)(`a host that cannot keep tenants apart${leftOut}`, () => {
  let lab: DockerLab

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'open' })
  })
  afterAll(() => lab.close())

  test('refuses containers and reports a fault, unless the supplier allows it', async () => {
    // The namespace does not exist, so setting rules fails.
    const broken = { networkNamespace: '/run/netns/no-such-namespace', fenceCheckMs: 100 }
    const isolating = runtimeOn(lab, broken)
    await expect(isolating.start(workloadOf('first'), silent, forever)).rejects.toMatchObject({
      reason: 'tenants_not_isolated',
    })
    expect(isolating.fault()).toMatchObject({ reason: 'tenants_not_isolated' })
    expect((await lab.docker('ps', '-q')).trim()).toBe('')
    await isolating.stop('first', forever)
    await isolating.close()
    const careless = runtimeOn(lab, { ...broken, allowUnfenced: true })
    await careless.start(workloadOf('second'), silent, forever)
    expect(careless.fault()).toBeUndefined()
    expect(careless.notes()).toContainEqual(expect.stringContaining('NOT isolated'))
    await careless.stop('second', forever)
    await careless.close()
  })
})
