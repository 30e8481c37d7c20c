/**
 * Ports of virtual machines. A machine shares its public address with others, so each port that is open to customers is
 * forwarded from a port of the host. The vendor forwards SSH by itself. The others are requested once the machine runs.
 * Tags of the machine name them, so that they survive a restart of this server.
 */
import { CloudError, type CloudHttp } from '../http.ts'
import { anything, hostNode, type VirtualMachine } from './api.ts'

const SSH_PORT = 22
const TAG = /^berth-port-(\d{1,5})$/

export function portTags(ports: readonly number[]): string[] {
  return ports.filter((port) => port !== SSH_PORT).map((port) => `berth-port-${port}`)
}

export function missingPorts({ tags, port_forwards: forwards }: VirtualMachine): number[] {
  const ports = (tags ?? []).flatMap((tag) => TAG.exec(tag)?.[1] ?? []).map(Number)
  return ports.filter((port) => !forwards.some(({ internal_port }) => internal_port === port))
}

export class PortForwards {
  readonly #http: CloudHttp
  /** Machines whose ports are being requested, since lists overlap. */
  readonly #busy = new Set<string>()

  constructor(http: CloudHttp) {
    this.#http = http
  }

  /** Forwards the missing ports and returns the machine with them. The next list tries a refused port again. */
  async complete(vm: VirtualMachine, signal: AbortSignal): Promise<VirtualMachine> {
    const missing = missingPorts(vm)
    if (vm.status !== 'Running' || missing.length === 0 || this.#busy.has(vm.id)) return vm
    this.#busy.add(vm.id)
    try {
      return { ...vm, port_forwards: [...vm.port_forwards, ...(await this.#forward(vm, missing, signal))] }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CloudError) return vm
      throw error
    } finally {
      this.#busy.delete(vm.id)
    }
  }

  async #forward(
    vm: VirtualMachine,
    ports: readonly number[],
    signal: AbortSignal,
  ): Promise<VirtualMachine['port_forwards']> {
    const host = `/api/v1/hostnodes/${encodeURIComponent(vm.hostnode_id)}`
    const { available_ports: free } = await this.#http.read(hostNode, { path: host, signal })
    const forwards = ports
      .slice(0, free.length)
      .map((port, n) => ({ internal_port: port, external_port: free[n] ?? 0 }))
    const path = `/api/v1/virtual-machines/${encodeURIComponent(vm.id)}/port-forward`
    for (const body of forwards) await this.#http.write(anything, { method: 'POST', path, body, signal })
    return forwards
  }
}
