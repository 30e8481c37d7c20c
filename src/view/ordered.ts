/** The order that makes a rental like another: as fields, a command, or a request. */
import type { NetworkType } from '../contract/shared.ts'
import type { RentalOrderInput } from '../contract/rental-order.ts'
import type { WorkloadPortInput } from '../contract/workload.ts'
import type { RentalKind } from '../domain/rental.ts'
import { imageLabel, shortRentalKinds } from './rental.ts'

type OrderOf<Kind extends RentalKind> = Extract<RentalOrderInput, { kind: Kind }>

/** The fields that say what runs on a machine; not every kind has all of them. */
export type WorkloadFields = Omit<
  Partial<OrderOf<'container'>>,
  'kind' | 'machineId' | 'gpuModel' | 'gpuCount' | 'image' | 'label' | 'maxWaitSeconds' | keyof Guards
> &
  Pick<OrderOf<'virtual-machine'>, 'userData'>

type Guards = Pick<OrderOf<'container'>, 'autoTerminateAt' | 'spendingLimitUsd' | 'maxCostPerHourUsd'>

/** An order has only the fields of its kind. */
type FieldsOfAnyKind = RentalOrderInput &
  Partial<Pick<OrderOf<'container'>, 'machineId' | 'image'>> &
  Partial<Pick<OrderOf<'bare-metal'>, 'gpuType' | 'networkType' | 'cudaVersion'>> & { readonly region?: string }

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

/** An order as `getRentalOrder` returns it. */
export function orderedOf(order: RentalOrderInput): Ordered {
  const { kind, gpuCount, machineId, image, gpuType, region, networkType, cudaVersion, label, ...workload } =
    order as FieldsOfAnyKind
  const fields = {
    machine: machineId,
    image: image === undefined ? undefined : imageLabel(image),
    gpuType,
    region,
    networkType,
    cudaVersion,
    label,
  }
  return {
    kind,
    gpuCount,
    ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)),
    workload: workload as WorkloadFields,
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
export function orderAsCommand(name: string, order: RentalOrderInput): string {
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
export function orderAsCurl(url: string, order: RentalOrderInput): string {
  return [
    `curl -X POST ${url}/v2/rentals \\`,
    '  -H "Authorization: Bearer $BERTH_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${inQuotes(JSON.stringify(order, null, 2))}`,
  ].join('\n')
}

function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : inQuotes(text)
}

function inQuotes(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
