/** Options of `berth rent` for what runs on the machine. They become the options of the order (contract/workload.ts). */
import { timeText } from '../../contract/shared.ts'
import type { Client } from '../../client/client.ts'
import type { WorkloadPortInput } from '../../contract/workload.ts'
import type { WorkloadFields } from '../../view/ordered.ts'
import { parseWhole } from '../kit/flag.ts'
import { parseJson } from '../kit/json-file.ts'
import { addPort } from './port.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import { readTextFile } from '../kit/text-file.ts'
import type { Options } from '../kit/row-type.ts'

export interface WorkloadFlags {
  readonly template?: string
  readonly allowSecret?: readonly string[]
  readonly env?: readonly string[]
  readonly envFile?: string
  readonly secretEnv?: readonly string[]
  readonly file?: readonly string[]
  readonly command?: string
  readonly args?: string
  readonly onStart?: string
  readonly userData?: string
  readonly disk?: number
  readonly shm?: number
  readonly port?: readonly WorkloadPortInput[]
  readonly mount?: readonly string[]
  readonly registry?: string
  readonly restart?: string
  readonly idle?: string
  readonly stopAt?: string
  readonly metadata?: readonly string[]
}

const MAX_DISK_GB = 64_000
const MAX_SHM_GB = 4_096

export const workloadOptions: Options = {
  '--template <id>': 'start from this template, as shown by berth templates ls',
  '--allow-secret <name...>': {
    help: 'let a template that is not yours use these secrets; berth templates show lists those that it asks for',
    parse: collect,
  },
  '--env <name=value...>': { help: 'environment variables', parse: collect },
  '--env-file <file>': 'file with one NAME=value per line',
  '--secret-env <name...>': { help: 'environment variables with the value of the secret of that name', parse: collect },
  '--file <local:path...>': { help: 'files to copy to the machine before its first start', parse: collect },
  '--command <words>': "containers: replaces the image's entrypoint; words as in a shell, or a JSON list",
  '--args <words>': "containers: replaces the image's command; words as in a shell, or a JSON list",
  '--on-start <file>': 'shell script that runs at every start',
  '--user-data <file>': 'virtual machines and bare metal: cloud-init user data or a script',
  '--disk <gb>': {
    help: 'size of the root disk (default: 50, or less where the share of the GPUs is less)',
    parse: parseWhole(1, MAX_DISK_GB),
  },
  '--shm <gb>': { help: 'containers: size of /dev/shm', parse: parseWhole(1, MAX_SHM_GB) },
  '--port <port...>': {
    help: 'containers and virtual machines: ports such as 8080, 8888/http, 8000/http/public',
    parse: addPort,
  },
  '--mount <volume:path...>': {
    help: 'mount a storage volume, by id or label, at the path; add :ro for read-only',
    parse: collect,
  },
  '--registry <id>': 'containers: registry login, as shown by berth registries ls',
  '--restart <policy>': 'containers: never, always, on-failure or on-failure:RETRIES',
  '--idle <minutes:action>': 'notify, stop or terminate after this many idle minutes, such as 30:notify; 30 is 30:stop',
  '--stop-at <time>': 'stop it at this time (ISO 8601); its disk is kept',
  '--metadata <name=value...>': { help: 'your own metadata, stored with it', parse: collect },
}

function collect(text: string, before: unknown): string[] {
  return [...((before as string[] | undefined) ?? []), text]
}

export function workloadFields(shell: Shell, flags: WorkloadFlags): WorkloadFields {
  const env = {
    ...(flags.envFile === undefined ? {} : readEnvFile(shell, flags.envFile)),
    ...pairs(flags.env ?? [], '--env'),
    ...Object.fromEntries((flags.secretEnv ?? []).map((name) => [name, `{{ secrets.${name} }}`])),
  }
  const fields: { readonly [name in keyof WorkloadFields]: WorkloadFields[name] | undefined } = {
    templateId: flags.template,
    secrets: flags.allowSecret === undefined ? undefined : [...flags.allowSecret],
    env: Object.keys(env).length === 0 ? undefined : env,
    files: flags.file?.map((text) => fileOf(shell, text)),
    command: flags.command === undefined ? undefined : wordsOf(flags.command, '--command'),
    args: flags.args === undefined ? undefined : wordsOf(flags.args, '--args'),
    onStart: flags.onStart === undefined ? undefined : readTextFile(shell, flags.onStart),
    userData: flags.userData === undefined ? undefined : readTextFile(shell, flags.userData),
    diskGb: flags.disk,
    shmGb: flags.shm,
    ports: flags.port === undefined ? undefined : [...flags.port],
    volumes: flags.mount?.map(mountOf),
    registryCredentialId: flags.registry,
    restart: flags.restart === undefined ? undefined : restartOf(flags.restart),
    idle: flags.idle === undefined ? undefined : idleOf(flags.idle),
    stopAt: flags.stopAt === undefined ? undefined : timeOf(flags.stopAt),
    metadata: flags.metadata === undefined ? undefined : pairs(flags.metadata, '--metadata'),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

function bad(flag: string, text: string, example: string): CliError {
  return new CliError(exitCodes.usage, `${flag} ${text} is not valid.`, [`Example: ${flag} ${example}`])
}

function pairs(texts: readonly string[], flag: string): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const pair = pairOf(text)
      if (pair === undefined) throw bad(flag, text, 'NAME=value')
      return pair
    }),
  )
}

/** Skips empty lines and comments. A line may hold a secret: messages have its number only. */
function readEnvFile(shell: Shell, file: string): Record<string, string> {
  const lines = readTextFile(shell, file).split(/\r?\n/)
  return Object.fromEntries(
    lines.flatMap((line, at) => {
      if (line.trim() === '' || line.trim().startsWith('#')) return []
      const pair = pairOf(line)
      if (pair !== undefined) return [pair]
      const name = file === '-' ? 'standard input' : file
      throw new CliError(exitCodes.usage, `Line ${at + 1} of ${name} is not NAME=value.`, [
        '--env-file reads one NAME=value per line.',
      ])
    }),
  )
}

/** `name:tag`. A port of the registry is no tag, and neither is a digest. */
export function imageNamed(text: string): { name: string; tag?: string } {
  const at = text.lastIndexOf(':')
  const hasTag = at > text.lastIndexOf('/') && !text.includes('@')
  return hasTag ? { name: text.slice(0, at), tag: text.slice(at + 1) } : { name: text }
}

function pairOf(text: string): [name: string, value: string] | undefined {
  const at = text.indexOf('=')
  return at < 1 ? undefined : [text.slice(0, at), text.slice(at + 1)]
}

function fileOf(shell: Shell, text: string): NonNullable<WorkloadFields['files']>[number] {
  const at = text.lastIndexOf(':')
  if (at < 1) throw bad('--file', text, 'config.json:/etc/app/config.json')
  return { path: text.slice(at + 1), content: readTextFile(shell, text.slice(0, at)) }
}

/** A JSON list, or words separated by spaces, where quotes keep spaces. */
function wordsOf(text: string, flag: string): string[] {
  const json = text.startsWith('[') ? parseJson(text) : undefined
  if (Array.isArray(json) && json.every((word) => typeof word === 'string')) return json
  const words = [...text.matchAll(/"([^"]*)"|'([^']*)'|([^\s"']+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? '',
  )
  if (words.length === 0 || text.startsWith('[')) throw bad(flag, text, '"python serve.py --port 8000"')
  return words
}

/** Replaces labels of volumes in `--mount` by their ids. */
export async function withVolumeIds<Flags extends Pick<WorkloadFlags, 'mount'>>(
  client: Client,
  flags: Flags,
): Promise<Flags> {
  const { mount } = flags
  if (mount === undefined || mount.every((text) => /^\d+:/.test(text))) return flags
  const volumes = await client.call('listVolumes')
  return {
    ...flags,
    mount: mount.map((text) => {
      const [label = ''] = text.split(':')
      const [only, ...others] = volumes.filter((one) => one.label === label || String(one.id) === label)
      if (only === undefined || others.length > 0) {
        const problem = only === undefined ? `There is no volume ${label}.` : `Several volumes are named ${label}.`
        throw new CliError(exitCodes.usage, problem, ['To list them: berth volumes ls'])
      }
      return `${only.id}${text.slice(label.length)}`
    }),
  }
}

function mountOf(text: string): NonNullable<WorkloadFields['volumes']>[number] {
  const parsed = /^(\d{1,9}):(\/[^:]+)(:ro)?$/.exec(text)
  if (parsed?.[1] === undefined || parsed[2] === undefined) throw bad('--mount', text, 'datasets:/data')
  return { volumeId: Number.parseInt(parsed[1], 10), path: parsed[2], readOnly: parsed[3] !== undefined }
}

function restartOf(text: string): NonNullable<WorkloadFields['restart']> {
  const parsed = /^(never|always|on-failure)(?::(\d{1,3}))?$/.exec(text)
  const policy = parsed?.[1] as 'never' | 'always' | 'on-failure' | undefined
  if (policy === undefined) throw bad('--restart', text, 'on-failure:3')
  return { policy, ...(parsed?.[2] === undefined ? {} : { maxRetries: Number.parseInt(parsed[2], 10) }) }
}

function idleOf(text: string): NonNullable<WorkloadFields['idle']> {
  const parsed = /^(\d{1,5})m?(?::(notify|stop|terminate))?$/.exec(text)
  if (parsed?.[1] === undefined) throw bad('--idle', text, '30:stop')
  const action = parsed[2] as 'notify' | 'stop' | 'terminate' | undefined
  return { afterMinutes: Number.parseInt(parsed[1], 10), ...(action === undefined ? {} : { action }) }
}

function timeOf(text: string): string {
  if (!timeText.safeParse(text).success) throw bad('--stop-at', text, '2026-12-01T18:00:00Z')
  return text
}
