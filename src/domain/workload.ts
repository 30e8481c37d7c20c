/** The program of a rented machine, as ordered. Secrets are references; only a host sees their values. */
import type { Program } from '../contract/agent.ts'
import type { OrderedWorkload, OrderOptions, WorkloadPortInput } from '../contract/workload.ts'
import type { HostWeights, Weights } from '../contract/weights.ts'

/** Stored in the spec of a rental. */
export type WorkloadSpec = OrderedWorkload
export type WorkloadPort = WorkloadSpec['ports'][number]

export const emptyWorkload: WorkloadSpec = {
  templateId: null,
  env: {},
  files: [],
  command: null,
  args: null,
  onStart: null,
  userData: null,
  diskGb: null,
  shmGb: null,
  ports: [],
  volumes: [],
  registryCredentialId: null,
  restart: { policy: 'never', maxRetries: 0 },
}

const MAX_EXIT_CODE = 255

/** An exit code outside of this range is a fault of the host that reports it. */
export function isExitCode(code: number): boolean {
  return Number.isInteger(code) && code >= 0 && code <= MAX_EXIT_CODE
}

const FILE_MODE = '0644'
const SECRET_FILE_MODE = '0600'

export function workloadOf(options: OrderOptions, templateId: string | null): WorkloadSpec {
  return {
    templateId,
    env: options.env ?? {},
    files: filesOf(options.files ?? []),
    command: options.command ?? null,
    args: options.args ?? null,
    onStart: options.onStart ?? null,
    userData: options.userData ?? null,
    diskGb: options.diskGb ?? null,
    shmGb: options.shmGb ?? null,
    ports: portsOf(options.ports ?? []),
    volumes: options.volumes ?? [],
    registryCredentialId: options.registryCredentialId ?? null,
    restart: options.restart ?? emptyWorkload.restart,
    ...(options.weights === undefined ? {} : { weights: options.weights }),
    ...(options.compileCache === undefined ? {} : { compileCache: options.compileCache }),
  }
}

function filesOf(inputs: NonNullable<OrderOptions['files']>): WorkloadSpec['files'] {
  const files = inputs.map(({ path, content, mode }) => ({
    path,
    content,
    mode: mode ?? (secretsIn(content).length > 0 ? SECRET_FILE_MODE : FILE_MODE),
  }))
  return [...new Map(files.map((file) => [file.path, file])).values()]
}

/** The last of several entries for one port counts. */
export function portsOf(inputs: readonly WorkloadPortInput[]): WorkloadPort[] {
  const ports = inputs.map(portOf)
  return [...new Map(ports.map((one) => [one.port, one])).values()]
}

/** Turns a stored port back into the fields of an order. */
export function portInputOf({ healthPath, ...port }: WorkloadPort): WorkloadPortInput {
  return { ...port, ...(healthPath === null ? {} : { healthPath }) }
}

function portOf(input: WorkloadPortInput): WorkloadPort {
  if (typeof input === 'number') return { port: input, protocol: 'tcp', access: 'public', healthPath: null }
  if (typeof input === 'string') {
    const [port = '', protocol = 'tcp'] = input.split('/')
    return portOf({ port: Number.parseInt(port, 10), protocol: protocol as WorkloadPort['protocol'] })
  }
  const { port, protocol = 'tcp', access = 'private', healthPath } = input
  // Only HTTP can be protected by a sign-in.
  return { port, protocol, access: protocol === 'http' ? access : 'public', healthPath: healthPath ?? null }
}

/** All ports of a machine. Those that were ordered as plain numbers are TCP. */
export function portsOfSpec({
  ports,
  workload,
}: {
  ports: readonly number[]
  workload?: WorkloadSpec
}): WorkloadPort[] {
  const describedPorts = workload?.ports ?? []
  const describedNumbers = new Set(describedPorts.map(({ port }) => port))
  return [...portsOf(ports.filter((port) => !describedNumbers.has(port))), ...describedPorts]
}

/** Whether every port with a health check answers. `health` has the results of the current run. */
export function allHealthy(workload: WorkloadSpec | undefined, health: ReadonlyMap<number, boolean>): boolean {
  const checked = workload?.ports.filter(({ protocol, healthPath }) => protocol === 'http' && healthPath !== null) ?? []
  return checked.every(({ port }) => health.get(port) === true)
}

/** Ports that lead straight to the machine. HTTP ports are behind a proxy that checks access. */
export function openPortsOf(spec: { ports: readonly number[]; workload?: WorkloadSpec }): number[] {
  const http = new Set(spec.workload?.ports.filter(({ protocol }) => protocol === 'http').map(({ port }) => port))
  return spec.ports.filter((port) => !http.has(port))
}

const REFERENCE = /\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_-]{0,99})\s*\}\}/g

/** The texts that may refer to secrets, with the field of the order that each comes from. */
export function secretTexts(workload: WorkloadSpec): Array<{ readonly field: string[]; readonly text: string }> {
  return [
    ...Object.entries(workload.env).map(([name, text]) => ({ field: ['env', name], text })),
    ...workload.files.map(({ content }, i) => ({ field: ['files', String(i)], text: content })),
    { field: ['onStart'], text: workload.onStart ?? '' },
    { field: ['userData'], text: workload.userData ?? '' },
  ]
}

/** The names of all secrets that the workload refers to, sorted. */
export function secretNamesOf(workload: WorkloadSpec): string[] {
  return [...new Set(secretTexts(workload).flatMap(({ text }) => secretsIn(text)))].sort()
}

export function secretsIn(text: string): string[] {
  return [...text.matchAll(REFERENCE)].map(([, name]) => name ?? '')
}

/** Replaces each reference by its value; unknown references stay. */
export function withSecrets(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(REFERENCE, (reference, name: string) => values.get(name) ?? reference)
}

/** The program as sent to a host. Secrets are still references. */
export function programOf(workload: WorkloadSpec): Program {
  const { env, files, command, args, onStart, userData, shmGb, restart, weights, compileCache, runsOnce } = workload
  const once = runsOnce === true ? { runsOnce } : {}
  const cache = compileCache === undefined ? {} : { compileCache }
  const program = { env, files, command, args, onStart, userData, shmGb, restart, registry: null, ...once, ...cache }
  return weights === undefined ? program : { ...program, weights: hostWeightsOf(weights) }
}

function hostWeightsOf({ mountPath, files }: Weights): HostWeights {
  return { mountPath, files: files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })) }
}
