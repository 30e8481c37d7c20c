/** The order that a rental was made with: as fields, a command, or a request. */
import { api } from '../contract/api.ts'
import type { CallInput, Reply } from '../client/client.ts'
import type { NetworkType } from '../contract/shared.ts'
import type { WorkloadPortInput } from '../contract/workload.ts'
import type { RentalKind } from '../domain/rental.ts'
import { imageLabel, shortRentalKinds } from './rental.ts'

type RentalOrder = Reply<'getRentalOrder'>

/** The fields that every create takes under the same names. */
export type WorkloadFields = Pick<
  CallInput<'createCheapestInstance'>['body'],
  | 'templateId'
  | 'secrets'
  | 'env'
  | 'files'
  | 'command'
  | 'args'
  | 'onStart'
  | 'userData'
  | 'diskGb'
  | 'shmGb'
  | 'ports'
  | 'volumes'
  | 'registryCredentialId'
  | 'restart'
  | 'idle'
  | 'stopAt'
  | 'metadata'
>

export interface Ordered {
  readonly kind: RentalKind
  readonly gpuCount: number
  /** Set for a container. */
  readonly machine?: string
  /** `name:tag` */
  readonly image?: string
  /** Set for the other kinds. */
  readonly gpuType?: string
  readonly region?: string
  readonly networkType?: NetworkType
  readonly cudaVersion?: string
  readonly label?: string
  readonly workload: WorkloadFields
}

const kinds = {
  createInstance: 'container',
  createVirtualMachineRental: 'virtual-machine',
  createBareMetalRental: 'bare-metal',
} as const satisfies Record<RentalOrder['operation'], RentalKind>

/** The three operations name their fields differently. */
export function orderedOf({ operation, body }: RentalOrder): Ordered {
  const { cluster_name: _, node_name: machine, gpu_count: ofInstance, image, gpuCount, ...rest } = body
  const { gpuType, region, networkType, cudaVersion, label, ...workload } = rest
  const fields = {
    machine,
    image: image === undefined ? undefined : imageLabel(image as { name: string; tag?: string }),
    gpuType,
    region,
    networkType,
    cudaVersion,
    label,
  }
  return {
    kind: kinds[operation],
    gpuCount: Number(ofInstance ?? gpuCount),
    ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)),
    workload,
  }
}

/** The text that people type: `8080`, `8888/http`, `8000/http/public`. */
export function portText(port: WorkloadPortInput): string {
  if (typeof port !== 'object') return String(port)
  const { port: number, protocol = 'tcp', access } = port
  if (protocol === 'http') return `${number}/http${access === 'public' ? '/public' : ''}`
  return protocol === 'tcp' ? String(number) : `${number}/${protocol}`
}

/**
 * For a shell. Scripts, files and what has no option are not part of a command line: then it refers to the rental, which
 * has them.
 */
export function orderAsCommand(name: string, order: RentalOrder): string {
  const ordered = orderedOf(order)
  if (!isTypeable(ordered)) return `berth rent --like ${quoted(name)}`
  const { machine, gpuType, region, networkType, image, label, workload } = ordered
  const options: Array<readonly [string, unknown]> = [
    ['--kind', shortRentalKinds[ordered.kind]],
    ['--machine', machine],
    ['--gpu', gpuType],
    ['--region', region],
    ['--network', networkType],
    ['--count', ordered.gpuCount],
    ['--image', image],
    ...Object.entries(workload.env ?? {}).map(([key, value]) => ['--env', `${key}=${value}`] as const),
    ['--command', workload.command && JSON.stringify(workload.command)],
    ['--args', workload.args && JSON.stringify(workload.args)],
    ['--disk', workload.diskGb],
    ['--shm', workload.shmGb],
    ...(workload.ports ?? []).map((port) => ['--port', portText(port)] as const),
    ...(workload.volumes ?? []).map(
      ({ volumeId, path, readOnly }) => ['--mount', `${volumeId}:${path}${readOnly === true ? ':ro' : ''}`] as const,
    ),
    ['--registry', workload.registryCredentialId],
    ['--restart', workload.restart && restartText(workload.restart)],
    ['--idle', workload.idle && `${workload.idle.afterMinutes}:${workload.idle.action ?? 'stop'}`],
    ...Object.entries(workload.metadata ?? {}).map(
      ([key, value]) => ['--metadata', `${key}=${String(value)}`] as const,
    ),
    ['--label', label],
  ]
  const words = options.flatMap(([flag, value]) =>
    value === undefined || value === null ? [] : [`${flag} ${quoted(String(value as string | number))}`],
  )
  return ['berth rent', ...words].join(' \\\n  ')
}

function restartText({ policy, maxRetries }: NonNullable<WorkloadFields['restart']>): string {
  return policy === 'on-failure' && maxRetries !== undefined ? `${policy}:${maxRetries}` : policy
}

/** Whether the options of `berth rent` say all of it. */
function isTypeable({ cudaVersion, workload }: Ordered): boolean {
  const { files, onStart, userData, ports = [], idle, metadata = {}, shmGb = 1 } = workload
  const hasText = [cudaVersion, files, onStart, userData].some((one) => one !== undefined)
  const hasHealth = ports.some((port) => typeof port === 'object' && port.healthPath !== undefined)
  const hasDetail = idle !== undefined && ((idle.gpuUtilBelowPercent ?? 5) !== 5 || (idle.graceSeconds ?? 300) !== 300)
  const isText = Object.values(metadata).every((value) => typeof value === 'string')
  return !hasText && !hasHealth && !hasDetail && isText && Number.isInteger(shmGb)
}

/** The key is read from the environment, so that it does not end up in the shell's history. */
export function orderAsCurl(url: string, { operation, body }: RentalOrder): string {
  const { method, path } = api[operation]
  return [
    `curl -X ${method} ${url}${path} \\`,
    '  -H "Authorization: Bearer $BERTH_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${inQuotes(JSON.stringify(body, null, 2))}`,
  ].join('\n')
}

function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : inQuotes(text)
}

function inQuotes(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
