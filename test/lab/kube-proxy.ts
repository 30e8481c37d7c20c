/** Leads the addresses of Services to their pods, on the node of a test cluster. */
import path from 'node:path'
import type { NetworkHost } from './host-network.ts'
import { flagsOf, startKubeDaemon, type KubeDaemon } from './kube-daemon.ts'
import type { KubeKeys } from './kube-keys.ts'
import { execProgram } from './kube-programs.ts'

export interface KubeProxyOptions {
  readonly programs: string
  readonly keys: KubeKeys
  readonly server: string
  readonly host: NetworkHost
  /** The name of the node. */
  readonly name: string
}

export async function startKubeProxy({ programs, keys, server, host, name }: KubeProxyOptions): Promise<KubeDaemon> {
  const flags = flagsOf({
    kubeconfig: await keys.kubeconfig('proxy', server),
    'hostname-override': name,
    'proxy-mode': 'nftables',
    'cluster-cidr': host.innerSubnet,
    'nodeport-addresses': `${host.address}/32`,
    'healthz-bind-address': '127.0.0.1:10256',
    'metrics-bind-address': '127.0.0.1:10249',
    // These belong to the whole machine, and only its root namespace may change them.
    'conntrack-max-per-core': '0',
    'conntrack-tcp-timeout-established': '0',
    'conntrack-tcp-timeout-close-wait': '0',
  })
  const daemon = startKubeDaemon('kube-proxy', host.netns, [path.join(programs, 'kube-proxy'), ...flags])
  try {
    const curl = ['curl', '-sf', 'http://127.0.0.1:10256/healthz']
    await daemon.ready(() => execProgram('nsenter', [`--net=/run/netns/${host.netns}`, ...curl]).then(() => true))
    return daemon
  } catch (error) {
    await daemon.stop()
    throw error
  }
}
