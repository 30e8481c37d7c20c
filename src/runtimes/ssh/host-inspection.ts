/** Inspects a host: its tenant, its hardware, and leftovers. */
import type { MetalAccess, MetalDeclared } from './access.ts'
import { leftoverScript } from './cleaning-script.ts'
import { BUSY_STATUS } from './script.ts'
import type { ConstantScript, SshHost } from './ssh.ts'
import { hardwareScript, inspectScript } from './tenant-script.ts'

export interface HostInspection {
  readonly bootId: string
  /** undefined: the host is free. */
  readonly marker: HostMarker | undefined
  readonly hasTenantUser: boolean
  /** Mounted volumes. */
  readonly disks: readonly string[]
}

export interface HostMarker {
  readonly tag: string
  readonly id: string
  readonly uid: string
  readonly phase: string
  readonly rebootFrom: string
  /** Reboots on request of the tenant. */
  readonly reboots: number
}

/** A script failed. `message` is its last output. */
export class ScriptFailed extends Error {}
/** The host is taken, but its marker does not say by whom. */
export class BrokenMark extends Error {}

const LEFTOVER_MS = 30 * 60_000
const MAX_ERROR_CHARS = 400

/** Runs a script that must succeed and returns its output, as lines of key and value. */
export async function runOn<Name extends string>(
  host: SshHost,
  script: ConstantScript<Name>,
  input: Readonly<Record<Name, string>>,
  signal: AbortSignal,
  limitMs?: number,
): Promise<(readonly [word: string, rest: string])[]> {
  const { exitCode, stdout, stderr } = await host.run(script, input, signal, limitMs)
  if (exitCode === BUSY_STATUS) throw new Error('an earlier script is still running on the host')
  if (exitCode !== 0) {
    const error = stderr.trim().split('\n').slice(-3).join('; ').slice(-MAX_ERROR_CHARS)
    throw new ScriptFailed(`${script.name}: ${error === '' ? `exit status ${exitCode}` : error}`)
  }
  return stdout.split('\n').flatMap((line) => {
    const space = line.indexOf(' ')
    return line === ''
      ? []
      : [space < 0 ? ([line, ''] as const) : ([line.slice(0, space), line.slice(space + 1)] as const)]
  })
}

export async function inspectHost(host: SshHost, access: MetalAccess, signal: AbortSignal): Promise<HostInspection> {
  const lines = await runOn(host, inspectScript, { user: access.tenantUser }, signal)
  const one = (word: string): string => lines.find(([name]) => name === word)?.[1] ?? ''
  const marker = {
    tag: one('marker.tag'),
    id: one('marker.id'),
    uid: one('marker.uid'),
    phase: one('marker.phase'),
    rebootFrom: one('marker.rebootfrom'),
    reboots: Number.parseInt(one('marker.reboots'), 10) || 0,
  }
  const isMarked = one('marker') === 'yes'
  if (one('boot') === '') throw new Error('the host did not report its boot id')
  if (isMarked && (marker.tag === '' || marker.id === ''))
    throw new BrokenMark('The marker of the tenant on the host is broken.')
  return {
    bootId: one('boot'),
    marker: isMarked ? marker : undefined,
    hasTenantUser: one('user') === 'yes',
    disks: lines.filter(([name]) => name === 'disk').map(([, volume]) => volume),
  }
}

/** Differences from the declared hardware, as sentences. */
export async function compareHardware(host: SshHost, declared: MetalDeclared, signal: AbortSignal): Promise<string[]> {
  const { cpuCores, ramGb, gpus, tolerance } = declared
  const lines = await runOn(host, hardwareScript, { gpus: gpus === undefined ? 'no' : 'yes' }, signal)
  const numberOf = (word: string): number => Number(lines.find(([name]) => name === word)?.[1] ?? Number.NaN)
  const faults: string[] = []
  const cores = numberOf('cores')
  if (cores !== cpuCores) faults.push(`The host has ${cores} processors, but ${cpuCores} are declared.`)
  const foundGb = numberOf('memory') / 1_048_576
  if (!(Math.abs(foundGb - ramGb) <= ramGb * tolerance)) {
    faults.push(`The host has ${foundGb.toFixed(1)} GB of memory, but ${ramGb} GB are declared.`)
  }
  if (gpus !== undefined) {
    const models = lines.filter(([name]) => name === 'gpu').map(([, model]) => model)
    if (models.length !== gpus.count) faults.push(`The host has ${models.length} GPUs, but ${gpus.count} are declared.`)
    const other = models.find((model) => !model.toLowerCase().includes(gpus.model.toLowerCase()))
    if (other !== undefined) faults.push(`The host has a GPU "${other}", but "${gpus.model}" is declared.`)
  }
  return faults
}

/** Leftovers of a tenant. `uid` if known: files outlive their user. */
export async function findLeftovers(
  host: SshHost,
  access: MetalAccess,
  uid: string,
  signal: AbortSignal,
): Promise<string[]> {
  const input = { user: access.tenantUser, uid, scratch: access.scratch.join('\n') }
  const lines = await runOn(host, leftoverScript, input, signal, LEFTOVER_MS)
  return lines.filter(([name]) => name === 'left').map(([, what]) => what)
}
