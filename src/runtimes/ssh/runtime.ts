/**
 * A bare-metal host over SSH, as a runtime for a single workload: the tenant. All state is on the host. `stop` takes
 * minutes: it reboots the host and succeeds only after verifying that nothing of the tenant is left (cleaning.ts).
 */
import { isIP } from 'node:net'
import type { Disk, HostMetrics, Workload } from '../../contract/agent.ts'
import { CustomerError, NeverStarts, type WorkloadStatus, type Runtime } from '../runtime.ts'
import type { MetalAccess, MetalAddress, MetalDeclared } from './access.ts'
import { powerSwitch } from './bmc.ts'
import { lockOutScript } from './cleaning-script.ts'
import { cleanHost, CleaningFailed, type CleaningStep } from './cleaning.ts'
import { deriveClusterKey } from './cluster-key.ts'
import {
  BrokenMark,
  compareHardware,
  findLeftovers,
  inspectHost,
  runOn,
  ScriptFailed,
  type HostInspection,
} from './host-inspection.ts'
import { HostMeter } from './measure.ts'
import { restartHost, restartLimits, type RestartLimits, type RestartTools } from './restart.ts'
import { SshHost, Unreachable } from './ssh.ts'
import { tenantSetup } from './tenant-setup.ts'
import { makeScript, mountScript, takeScript, tenantRebootScript, unmountScript } from './tenant-script.ts'

export interface MetalRuntimeOptions {
  readonly access: MetalAccess
  readonly declared: MetalDeclared
  readonly address: MetalAddress
  /** Secret for the keys between hosts of one rental. */
  readonly clusterSecret: string | Buffer
  readonly onLearnedHostKey: (fingerprint: string) => void
  /** The host needs a person before it can be rented again. */
  readonly onQuarantine?: (workloadId: string, failure: CleaningFailed) => void
  readonly onStep?: (step: CleaningStep) => void
  readonly limits?: RestartLimits
}

export interface MetalRuntime extends Runtime {
  reboot(workload: Workload, signal: AbortSignal): Promise<void>
  /** The use of the host, for its tenant. */
  measureHost(workloadId: string, signal: AbortSignal): Promise<HostMetrics>
  setDisks(workload: Workload, signal: AbortSignal): Promise<void>
  /** Reasons not to rent out the host, as sentences: differing hardware, leftovers. */
  check(signal: AbortSignal): Promise<string[]>
  /** Locks the last tenant out. Throws `ScriptFailed`. */
  lockOut(signal: AbortSignal): Promise<void>
  /** Cleans the host regardless of its last tenant. Throws `CleaningFailed`. */
  clean(signal: AbortSignal): Promise<void>
  /** Closes the connection. Workloads keep running. */
  close(): void
}

const MAX_NAMED_LEFTOVERS = 5
/** Killing processes takes up to a minute. */
const LOCK_OUT_MS = 120_000
/** Marker id of a cleaning without a known tenant. */
const NOBODY = 'cleaning'

export function metalRuntime(options: MetalRuntimeOptions): MetalRuntime {
  return new MetalHostRuntime(options)
}

class MetalHostRuntime implements MetalRuntime {
  readonly kind = 'bare-metal'
  readonly leavesTraces = true
  readonly #options: MetalRuntimeOptions
  readonly #host: SshHost
  /** The workload being cleaned or rebooted; the host is not queried meanwhile. */
  #restarting: WorkloadStatus | undefined
  readonly #unowned = new Set<string>()
  readonly #meter: HostMeter

  constructor(options: MetalRuntimeOptions) {
    this.#options = options
    this.#host = new SshHost({ access: options.access, onLearnedHostKey: options.onLearnedHostKey })
    this.#meter = new HostMeter(this.#host, options.access, options.declared.gpus !== undefined)
  }

  async list(signal: AbortSignal): Promise<WorkloadStatus[]> {
    if (this.#restarting !== undefined) return [this.#restarting]
    const inspection = await this.#inspect(signal)
    return inspection.marker === undefined
      ? []
      : [statusOf(inspection, inspection.marker, this.#options.access.tenantUser)]
  }

  async start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void> {
    const { access } = this.#options
    const { spec } = workload
    if (spec === null || spec.kind !== 'bare-metal') throw new NeverStarts('wrong_kind', 'This host is rented whole.')
    progress('taking over the host')
    const markerLines = await runOn(this.#host, takeScript, { ...markOf(workload), user: access.tenantUser }, signal)
    const facts = new Map(markerLines)
    if (facts.get('tag') !== workload.tag) {
      throw new NeverStarts('not_clean', `The host has the marker of another tenant: ${facts.get('tag')}.`)
    }
    const phase = facts.get('phase')
    if (phase === 'rebooting') throw new CustomerError('The host is being cleaned.')
    if (phase === 'taken') await this.#checkTakeOver(progress, signal)
    progress('creating the login')
    await runOn(this.#host, makeScript, this.#tenantInput(workload, spec), signal)
  }

  async stop(id: string, signal: AbortSignal): Promise<void> {
    // Lock the tenant out first, however the cleaning ends.
    await this.#lockOut('yes', signal).catch((error: unknown) => {
      // The cleaning will report the same, and can use power control.
      const isScriptFailure = error instanceof ScriptFailed
      const isSwitched = error instanceof Unreachable && this.#options.access.bmc !== undefined
      if (!isScriptFailure && !isSwitched) throw error
    })
    const inspection = await this.#inspect(signal).catch((error: unknown) => {
      if (error instanceof BrokenMark) throw this.#refuseToClean(id, error.message)
      // The cleaning can use power control.
      if (this.#options.access.bmc === undefined) throw error
      return undefined
    })
    const other = inspection?.marker !== undefined && inspection.marker.id !== id ? inspection.marker.tag : undefined
    if (other !== undefined) {
      throw this.#refuseToClean(id, `The host has the marker of another tenant: ${other}.`)
    }
    // Also without a marker: the tenant may have removed it and left other things.
    this.#restarting =
      inspection?.marker === undefined
        ? { id, tag: id, state: 'failed', failure: 'cleaned', disks: [] }
        : statusOf(inspection, inspection.marker, this.#options.access.tenantUser)
    try {
      await this.#clean(oneLine(id), signal)
    } catch (error) {
      if (error instanceof CleaningFailed) this.#options.onQuarantine?.(id, error)
      throw error
    } finally {
      this.#restarting = undefined
    }
  }

  /** Until the host is back or has taken too long, its tenant is listed as before. */
  async reboot(workload: Workload, signal: AbortSignal): Promise<void> {
    const reboots = workload.reboots ?? 0
    const { id } = markOf(workload)
    const inspection = await this.#inspect(signal)
    const { marker, bootId } = inspection
    if (marker?.id !== id) throw new Error('the tenant is not on the host')
    if (marker.reboots >= reboots) return
    this.#restarting = statusOf(inspection, marker, this.#options.access.tenantUser)
    try {
      const order = () => runOn(this.#host, tenantRebootScript, { id, reboots: String(reboots) }, signal)
      await restartHost(this.#restartTools(), bootId, order, signal)
    } finally {
      this.#restarting = undefined
    }
  }

  async setDisks(workload: Workload, signal: AbortSignal): Promise<void> {
    const { disks } = await this.#inspect(signal)
    const volumeIds = new Set(workload.disks.map(({ volumeId }) => volumeId))
    for (const volume of disks) if (!volumeIds.has(volume)) await runOn(this.#host, unmountScript, { volume }, signal)
    const failures: unknown[] = []
    // A volume that cannot be mounted must not block the others.
    for (const disk of workload.disks) await this.#mount(disk, signal).catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
    const after = await this.#inspect(signal)
    const unmounted = [...volumeIds].filter((volume) => !after.disks.includes(volume))
    if (unmounted.length > 0) throw new Error(`not mounted: ${unmounted.join(', ')}`)
  }

  async #mount(disk: Disk, signal: AbortSignal): Promise<void> {
    const lines = await runOn(this.#host, mountScript, mountInput(disk, this.#options.address.privateIp), signal)
    if (lines.some(([word]) => word === 'unowned')) this.#unowned.add(disk.volumeId)
    else this.#unowned.delete(disk.volumeId)
  }

  measureHost(workloadId: string, signal: AbortSignal): Promise<HostMetrics> {
    return this.#meter.read(workloadId, signal)
  }

  open(): Promise<never> {
    return Promise.reject(new Error('Connect to a bare-metal machine with SSH at its own address.'))
  }

  notes(): string[] {
    const { access } = this.#options
    return [
      ...(access.tenantRoot
        ? ['Tenants get root here: the cleaning cannot prove that they have left nothing behind.']
        : []),
      ...(access.bmc === undefined
        ? ['It has no power control: if it does not come back, someone must go to it.']
        : []),
      ...[...this.#unowned].map((id) => `The file server does not allow giving the volume ${id} to the tenant.`),
    ]
  }

  async check(signal: AbortSignal): Promise<string[]> {
    const inspection = await this.#inspect(signal)
    const faults = await compareHardware(this.#host, this.#options.declared, signal)
    if (inspection.marker !== undefined) faults.push(`The host is still marked as rented: ${inspection.marker.tag}.`)
    const leftovers = await findLeftovers(this.#host, this.#options.access, inspection.marker?.uid ?? '', signal)
    return leftovers.length === 0 ? faults : [...faults, leftoverSentence(leftovers)]
  }

  lockOut(signal: AbortSignal): Promise<void> {
    return this.#lockOut('no', signal)
  }

  async #lockOut(always: 'yes' | 'no', signal: AbortSignal): Promise<void> {
    const user = this.#options.access.tenantUser
    await runOn(this.#host, lockOutScript, { user, always }, signal, LOCK_OUT_MS)
  }

  clean(signal: AbortSignal): Promise<void> {
    return this.#clean(NOBODY, signal)
  }

  async #clean(id: string, signal: AbortSignal): Promise<void> {
    const { declared, onStep = () => {} } = this.#options
    try {
      await cleanHost({ ...this.#restartTools(), id, declared, onStep }, signal)
    } catch (error) {
      if (!(error instanceof CleaningFailed)) throw error
      // Unmounting and the reboot reveal a hidden home again.
      const open = await this.#lockOut('yes', signal).then(
        () => undefined,
        (failure: unknown) => (failure instanceof Error ? failure.message : String(failure)),
      )
      if (open === undefined) throw error
      throw new CleaningFailed(error.step, `${error.message}; ${open}`, { cause: error })
    }
  }

  #restartTools(): RestartTools {
    const { access, limits = restartLimits } = this.#options
    return { host: this.#host, access, power: access.bmc === undefined ? undefined : powerSwitch(access.bmc), limits }
  }

  close(): void {
    this.#host.disconnect()
  }

  #inspect(signal: AbortSignal): Promise<HostInspection> {
    return inspectHost(this.#host, this.#options.access, signal)
  }

  /** The data could belong to anyone, so a person must decide before it is deleted. */
  #refuseToClean(id: string, reason: string): CleaningFailed {
    const failure = new CleaningFailed('check', reason)
    this.#options.onQuarantine?.(id, failure)
    return failure
  }

  async #checkTakeOver(progress: (message: string) => void, signal: AbortSignal): Promise<void> {
    progress('checking the hardware')
    const faults = await compareHardware(this.#host, this.#options.declared, signal)
    if (faults.length > 0) throw new NeverStarts('hardware_differs', faults.join(' '))
    progress('checking for leftovers')
    const leftovers = await findLeftovers(this.#host, this.#options.access, '', signal)
    if (leftovers.length > 0) throw new NeverStarts('not_clean', leftoverSentence(leftovers))
  }

  #tenantInput({ tag, node }: Workload, { sshKeys, program }: NonNullable<Workload['spec']>) {
    const { access, clusterSecret } = this.#options
    const peers = node.peers.map(({ hostname, privateIp }, index) => {
      if (!/^[A-Za-z0-9.-]{1,253}$/.test(hostname) || isIP(privateIp) === 0)
        throw new Error('invalid host name of another node')
      return { hostname, privateIp, role: index === 0 ? 'head' : 'compute' }
    })
    const isCluster = peers.length > 1
    const key = isCluster ? deriveClusterKey(clusterSecret, tag) : undefined
    const names = peers.flatMap(({ hostname, privateIp }) => [hostname, privateIp])
    const config = [
      `Host ${names.join(' ')}`,
      '  IdentityFile ~/.ssh/berth_cluster',
      '  StrictHostKeyChecking accept-new',
    ]
    return {
      user: access.tenantUser,
      keys: [...sshKeys, ...(key === undefined ? [] : [key.publicKey])].map(oneLine).join('\n'),
      peers: peers.map(({ hostname, privateIp, role }) => `${hostname} ${privateIp} ${role}`).join('\n'),
      block: isCluster ? peers.map(({ hostname, privateIp }) => `${privateIp} ${hostname}`).join('\n') : '',
      clusterKey: key?.privateKey ?? '',
      clusterConfig: isCluster ? config.join('\n') : '',
      root: access.tenantRoot ? 'yes' : 'no',
      ...tenantSetup(program, `/home/${access.tenantUser}`),
    }
  }
}

function statusOf(
  inspection: HostInspection,
  marker: NonNullable<HostInspection['marker']>,
  sshUser: string,
): WorkloadStatus {
  const { id, tag, phase, reboots } = marker
  if (phase === 'ready' && inspection.hasTenantUser) {
    const rebootFacts = reboots === 0 ? {} : { reboots }
    return {
      id,
      tag,
      state: 'running',
      incarnation: inspection.bootId,
      sshUser,
      ...rebootFacts,
      disks: inspection.disks,
    }
  }
  if (phase !== 'rebooting') return { id, tag, state: 'starting', disks: inspection.disks }
  return {
    id,
    tag,
    state: 'failed',
    failure: 'cleaned',
    message: 'The host is being cleaned.',
    disks: inspection.disks,
  }
}

function markOf({ id, tag }: Workload): { id: string; tag: string } {
  return { id: oneLine(id), tag: oneLine(tag) }
}

function oneLine(text: string): string {
  const line = text.trim()
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(line)) throw new Error('a value contains a line break')
  return line
}

function mountInput({ volumeId, label, source }: Disk, client: string) {
  if (source.kind !== 'nfs') throw new Error('Only NFS volumes can be mounted here.')
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/.test(volumeId)) throw new Error('invalid volume id')
  if (!/^[A-Za-z0-9.:-]{1,253}$/.test(source.server)) throw new Error('invalid file server address')
  if (!/^\/[A-Za-z0-9._/-]{0,1000}$/.test(source.path)) throw new Error('invalid volume path')
  return {
    volume: volumeId,
    label: /^[A-Za-z0-9_-]{1,100}$/.test(label) ? label : volumeId,
    server: isIP(source.server) === 6 ? `[${source.server}]` : source.server,
    path: source.path,
    client,
  }
}

function leftoverSentence(leftovers: readonly string[]): string {
  return `Leftovers found: ${leftovers.slice(0, MAX_NAMED_LEFTOVERS).join(', ')}.`
}
