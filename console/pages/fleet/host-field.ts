/** The fields of a bare-metal host, and the request body from their values. */
import type { Api } from '../../../src/contract/api.ts'
import type { BodyInputOf } from '../../../src/contract/endpoint.ts'
import { bareMetalRegion } from '../../../src/contract/region.ts'
import { gpuFormFactor, gpuType, networkType } from '../../../src/contract/shared.ts'
import { optionalNumber } from '../../form/read.ts'
import type { Loose } from '../../form/use-form.ts'

/** By path in the body: `hardware.cpuCores`. */
export type Values = Readonly<Record<string, string>>

interface Named {
  readonly path: string
  readonly label: string
  readonly hint?: string
}

export type HostField = Named &
  (
    | { readonly kind: 'text' | 'number' | 'secret' | 'check' | 'block' | 'list' }
    | { readonly kind: 'choice'; readonly choices: readonly string[] }
  )

type Kind = Exclude<HostField['kind'], 'choice'>

function field(path: string, label: string, kind: Kind = 'text', hint?: string): HostField {
  return { path, label, kind, ...(hint === undefined ? {} : { hint }) }
}

function choice(path: string, label: string, choices: readonly string[]): HostField {
  return { path, label, kind: 'choice', choices }
}

export const groups: ReadonlyArray<{ readonly title: string; readonly fields: readonly HostField[] }> = [
  {
    title: 'Machine',
    fields: [
      field('id', 'Name', 'text', 'Lowercase letters, digits and hyphens.'),
      field('clusterName', 'Cluster', 'text', 'Machines in a cluster share a private network.'),
      choice('region', 'Region', bareMetalRegion.options),
      choice('networkType', 'Network between machines', networkType.options),
    ],
  },
  {
    title: 'Access',
    fields: [
      field('hostname', 'Host name'),
      field('user', 'User', 'text', 'Default: root.'),
      field('publicIp', 'Public address', 'text', 'Tenants log in here.'),
      field('privateIp', 'Private address', 'text', 'For other machines in the cluster.'),
      field('sshPort', 'SSH port', 'number', 'Default: 22.'),
      field('hostKey', 'Host key', 'text', 'SHA256:… Leave empty to trust the first connection.'),
      field(
        'privateKey',
        'Private key',
        'block',
        'OpenSSH or PEM, without a passphrase. Stored encrypted and not shown again.',
      ),
      field('sudo', 'Passwordless sudo', 'check'),
      field('scratch', 'Folders to empty after each tenant', 'list', 'Separated by commas.'),
    ],
  },
  {
    title: 'GPUs',
    fields: [
      choice('gpuType', 'Type', gpuType.options),
      field('gpusTotal', 'Number of GPUs', 'number'),
      field('gpuModel', 'Model'),
      field('gpuRamMib', 'Memory per GPU (MiB)', 'number'),
      choice('gpuFormFactor', 'Form factor', gpuFormFactor.options),
      field('hardware.gpuInterface', 'Interface'),
      field('hardware.gpuClockMhz', 'Clock (MHz)', 'number'),
      field('hardware.gpuComputePower', 'TFLOPS', 'number'),
      field('simulated', 'Simulated GPUs', 'check', 'The machine has none of these; for testing.'),
    ],
  },
  {
    title: 'Other hardware',
    fields: [
      field('hardware.cpuModel', 'CPU'),
      field('hardware.cpuCores', 'Cores', 'number'),
      field('hardware.virtualCores', 'Threads', 'number'),
      field('hardware.ramGb', 'Memory (GB)', 'number'),
      field('hardware.storageGb', 'Disk (GB)', 'number'),
      field('hasPersistentStorage', 'Persistent storage', 'check'),
    ],
  },
  {
    title: 'Redfish power control (optional)',
    fields: [
      field('bmc.url', 'URL'),
      field('bmc.username', 'User'),
      field('bmc.password', 'Password', 'secret'),
      field('bmc.fingerprint', 'Certificate fingerprint'),
    ],
  },
]

const allFields: readonly HostField[] = groups.flatMap((group) => group.fields)

/** Usual values of these GPUs. */
export const gpuPresets: Readonly<Record<(typeof gpuType.options)[number], Values>> = {
  h100: preset('NVIDIA-H100-SXM5-80GB', '81559', 'sxm5', '1980', '989', 'SXM5'),
  h200: preset('NVIDIA-H200-SXM-141GB', '143771', 'sxm5', '1980', '989', 'SXM5'),
  b200: preset('NVIDIA-B200-SXM-180GB', '183359', 'sxm6', '1965', '2250', 'SXM6'),
}

function preset(model: string, ramMib: string, form: string, clock: string, tflops: string, bus: string): Values {
  return {
    gpuModel: model,
    gpuRamMib: ramMib,
    gpuFormFactor: form,
    'hardware.gpuClockMhz': clock,
    'hardware.gpuComputePower': tflops,
    'hardware.gpuInterface': bus,
  }
}

export const firstValues: Values = {
  ...Object.fromEntries(allFields.map(({ path }) => [path, ''])),
  region: 'us-central-1',
  networkType: 'ethernet',
  gpuType: 'h100',
  gpusTotal: '8',
  ...gpuPresets.h100,
}

/** Nests the values by their paths. */
export function bodyOf(values: Values): Loose<BodyInputOf<Api['addHost']>> {
  const body: Record<string, unknown> = {}
  for (const one of allFields) {
    const value = valueOf(one, values[one.path] ?? '')
    if (value === undefined) continue
    const [head = '', leaf] = one.path.split('.')
    if (leaf === undefined) body[head] = value
    else body[head] = { ...(body[head] as Record<string, unknown> | undefined), [leaf]: value }
  }
  if (body['bmc'] !== undefined) body['bmc'] = { kind: 'redfish', ...(body['bmc'] as Record<string, unknown>) }
  // So that errors name its missing fields, not the group.
  return { ...body, hardware: body['hardware'] ?? {} } as Loose<BodyInputOf<Api['addHost']>>
}

function valueOf(one: HostField, text: string): unknown {
  if (text.trim() === '') return undefined
  switch (one.kind) {
    case 'number':
      return optionalNumber(text)
    case 'check':
      return text === 'true'
    case 'list':
      return text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '')
    case 'block':
      return text.endsWith('\n') ? text : `${text}\n`
    case 'choice':
    case 'secret':
    case 'text':
      return text.trim()
  }
}
