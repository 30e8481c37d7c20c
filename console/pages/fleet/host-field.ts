/** The fields of a bare-metal host: their labels, and how what is typed becomes the body of the call. */
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
    title: 'The machine',
    fields: [
      field('id', 'Name', 'text', 'Lower-case letters, digits and hyphens'),
      field('clusterName', 'Cluster', 'text', 'Machines of one cluster share a private network'),
      choice('region', 'Region', bareMetalRegion.options),
      choice('networkType', 'Network between machines', networkType.options),
    ],
  },
  {
    title: 'How it is reached',
    fields: [
      field('hostname', 'Host name'),
      field('user', 'User', 'text', 'root, unless you say otherwise'),
      field('publicIp', 'Public address', 'text', 'Tenants log in here'),
      field('privateIp', 'Private address', 'text', 'Its neighbours find it here'),
      field('sshPort', 'SSH port', 'number', '22, unless you say otherwise'),
      field('hostKey', 'Host key', 'text', 'SHA256:…; without it, that of the first connection'),
      field(
        'privateKey',
        'Private key',
        'block',
        'OpenSSH or PEM, without a passphrase. It is sealed and never shown.',
      ),
      field('sudo', 'The user has sudo without a password', 'check'),
      field('scratch', 'Folders that are emptied after each tenant', 'list', 'With commas between them'),
    ],
  },
  {
    title: 'GPUs',
    fields: [
      choice('gpuType', 'Type', gpuType.options),
      field('gpusTotal', 'How many', 'number'),
      field('gpuModel', 'Model'),
      field('gpuRamMib', 'Memory of one, MiB', 'number'),
      choice('gpuFormFactor', 'Form', gpuFormFactor.options),
      field('hardware.gpuInterface', 'Interface'),
      field('hardware.gpuClockMhz', 'Clock, MHz', 'number'),
      field('hardware.gpuComputePower', 'TFLOPS', 'number'),
      field('simulated', 'Declared only: there are no such devices', 'check', 'To try things out'),
    ],
  },
  {
    title: 'The rest of it',
    fields: [
      field('hardware.cpuModel', 'CPU'),
      field('hardware.cpuCores', 'Cores', 'number'),
      field('hardware.virtualCores', 'Threads', 'number'),
      field('hardware.ramGb', 'Memory, GB', 'number'),
      field('hardware.storageGb', 'Disk, GB', 'number'),
      field('hasPersistentStorage', 'Its storage persists', 'check'),
    ],
  },
  {
    title: 'Power switch by Redfish, if it has one',
    fields: [
      field('bmc.url', 'URL'),
      field('bmc.username', 'User'),
      field('bmc.password', 'Password', 'secret'),
      field('bmc.fingerprint', 'Fingerprint of its certificate'),
    ],
  },
]

const allFields: readonly HostField[] = groups.flatMap((group) => group.fields)

/** What these GPUs usually are. */
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

/** Values by path as the nested body. */
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
  // So that each of its missing fields is named, not the group.
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
