/**
 * Renting again: the settings of another rental as values of the form, and the settings that the form has no field for.
 */
import type { CallInput } from '../../../src/client/client.ts'
import { orderedOf, portText, type Ordered, type WorkloadFields } from '../../../src/view/ordered.ts'
import { count } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { noAdvanced, type Advanced } from './advanced.ts'
import { mountsOf } from './mounts.tsx'

export interface Like {
  readonly ordered: Ordered
  /** The label, or the id if it has none. */
  readonly name: string
  readonly typed: ReturnType<typeof typedOf>
}

/** `isLoading`: the form waits for the rental. If it does not exist, the form is empty. */
export function useLike(id: string | undefined): { readonly like: Like | undefined; readonly isLoading: boolean } {
  const isEnabled = useMay('compute:read') && id !== undefined
  const input: CallInput<'getRentalOrder'> = { params: { id: id ?? '' } }
  const { data, isLoading } = useCall('getRentalOrder', input, { enabled: isEnabled })
  if (data === undefined || id === undefined) return { like: undefined, isLoading }
  const ordered = orderedOf(data.order)
  return { like: { ordered, name: ordered.label ?? id, typed: typedOf(ordered) }, isLoading }
}

function typedOf({ workload, label = '', image = '', cudaVersion = '' }: Ordered) {
  const { env = {}, command, onStart = '', userData = '', diskGb, shmGb, registryCredentialId, idle } = workload
  return {
    ...noAdvanced,
    env: Object.entries(env)
      .filter(([, value]) => !isLong(value))
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
    start: command === undefined ? '' : shellText(command),
    onStart,
    userData,
    diskGb: diskGb === undefined ? '' : String(diskGb),
    shmGb: shmGb === undefined ? '' : String(shmGb),
    registry: registryCredentialId ?? '',
    idleMinutes: idle === undefined ? '' : String(idle.afterMinutes),
    idleAction: idle?.action ?? 'stop',
    ports: (workload.ports ?? []).map(portText).join(', '),
    label,
    image,
    cuda: cudaVersion,
    ...mountsOf(workload.volumes ?? []),
  }
}

type Typed = Pick<Advanced, 'env' | 'start' | 'idleMinutes' | 'idleAction'> & { readonly ports: string }

/** Request fields that the form cannot show, or that it shows shortened and the user has not changed. */
export function keptOf(like: Like | undefined, now: Typed, env: WorkloadFields['env']): WorkloadFields {
  if (like === undefined) return {}
  const { typed, ordered } = like
  const { workload } = ordered
  const isSame = (...names: ReadonlyArray<keyof Typed>): boolean => names.every((name) => now[name] === typed[name])
  const long = Object.entries(workload.env ?? {}).filter(([, value]) => isLong(value))
  const fields = {
    files: workload.files,
    args: workload.args,
    restart: workload.restart,
    metadata: workload.metadata,
    command: isSame('start') ? workload.command : undefined,
    ports: isSame('ports') ? workload.ports : undefined,
    idle: isSame('idleMinutes', 'idleAction') ? workload.idle : undefined,
    env: long.length === 0 ? undefined : { ...Object.fromEntries(long), ...env },
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Names the settings that the form does not show. undefined: there are none. */
export function keptText({ ordered: { workload } }: Like): string | undefined {
  const { files = [], args, restart, metadata = {}, env = {} } = workload
  const long = Object.values(env).filter(isLong).length
  const parts = [
    files.length > 0 && count(files.length, 'file'),
    args !== undefined && 'the arguments',
    restart !== undefined && 'the restart policy',
    long > 0 && count(long, 'long variable'),
    Object.keys(metadata).length > 0 && 'the metadata',
  ].filter((one) => one !== false)
  return parts.length === 0 ? undefined : parts.join(', ')
}

/** The form has one line per variable. */
function isLong(value: string): boolean {
  return value.includes('\n')
}

/** Commands from the form are `/bin/sh -c TEXT`; others are shown as they would be typed in a shell. */
export function shellText(command: readonly string[]): string {
  const [shell, flag, text] = command
  if (shell === '/bin/sh' && flag === '-c' && text !== undefined && command.length === 3) return text
  return command
    .map((word) => (/^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`))
    .join(' ')
}
