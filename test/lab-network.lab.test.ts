/** Labs work on a machine where Docker runs: it drops forwarded packets, those between ports of a bridge among them. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { whyNoDockerLab } from './lab/docker-lab.ts'
import { needs } from './needs.ts'

needs('docker', 'metal')

const execFileAsync = promisify(execFile)
const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`

/** Runs as the only program of a machine whose firewall is set up as Docker does it. */
const script = `
  ip link set lo up
  iptables -P FORWARD DROP
  echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
  exec "$@"
`
const program = `
  import { execFileSync } from 'node:child_process'
  const { startHostNetwork } = await import(process.argv[1])
  const network = await startHostNetwork()
  const [ada, bob] = [await network.addHost('ada'), await network.addHost('bob')]
  const ping = (from, to) => {
    const inside = from === undefined ? [] : ['nsenter', '--net=/run/netns/' + from.netns]
    try {
      const [command, ...args] = [...inside, 'busybox', 'ping', '-c', '1', '-W', '2', to]
      execFileSync(command, args, { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
  const results = [ping(ada, bob.address), ping(ada, network.bridgeAddress), ping(undefined, bob.address)]
  await ada.linkDown()
  results.push(ping(ada, bob.address))
  await network.close()
  process.stdout.write(JSON.stringify(results))
`

describe.skipIf(why !== undefined)(`hosts of a lab${leftOut}`, () => {
  test('reach each other on a machine that forwards nothing, until a cable is pulled (issue 31, 18)', async () => {
    const harness = new URL('./lab/host-network.ts', import.meta.url).href
    const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', program, harness]
    const { stdout } = await execFileAsync('unshare', ['--net', 'sh', '-ec', script, 'machine', ...node])
    expect(JSON.parse(stdout)).toEqual([true, true, true, false])
  })
})
