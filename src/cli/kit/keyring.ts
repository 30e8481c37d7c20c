/**
 * The keyring of the user's system: libsecret on Linux, the login keychain on macOS. Its programs are run without a shell,
 * and get secrets on their standard input, where no list of processes shows them. A machine without a keyring, such as a
 * server that people reach over SSH, keeps keys in a private file instead (profile.ts).
 */
import { spawnSync } from 'node:child_process'

export interface Keyring {
  /** The name that people know it by. */
  readonly title: string
  /** undefined: it has no such secret, or is locked. */
  read(id: string): string | undefined
  /** False: it could not be stored. */
  write(id: string, label: string, secret: string): boolean
  remove(id: string): void
}

const SERVICE = 'berth'
/** Unlocking a keyring may ask the person for a password. */
const TIMEOUT_MS = 60_000
/** The programs take such an id on a line without quotes. */
const SAFE_ID = /^[\w.-]{1,100}$/

/** undefined: this system has none that we know. */
export function systemKeyring(
  env: Readonly<Record<string, string | undefined>>,
  platform: string,
): Keyring | undefined {
  if (platform === 'linux') return libsecret(env)
  return platform === 'darwin' ? keychain(env) : undefined
}

function libsecret(env: Readonly<Record<string, string | undefined>>): Keyring {
  const tool = (args: readonly string[], input?: string) => run(env, 'secret-tool', args, input)
  return {
    title: 'the system keyring',
    read: (id) => readFrom(tool(['lookup', 'service', SERVICE, 'key', checked(id)])),
    write: (id, label, secret) =>
      tool(['store', `--label=${label}`, 'service', SERVICE, 'key', checked(id)], secret).status === 0,
    remove: (id) => void tool(['clear', 'service', SERVICE, 'key', checked(id)]),
  }
}

function keychain(env: Readonly<Record<string, string | undefined>>): Keyring {
  const tool = (args: readonly string[], input?: string) => run(env, 'security', args, input)
  return {
    title: 'the login keychain',
    read: (id) => readFrom(tool(['find-generic-password', '-s', SERVICE, '-a', checked(id), '-w'])),
    // Others would see an argument: `-i` reads whole commands from the standard input.
    write: (id, _label, secret) =>
      SAFE_ID.test(secret) &&
      tool(['-i'], `add-generic-password -U -s ${SERVICE} -a ${checked(id)} -w ${secret}\n`).status === 0 &&
      readFrom(tool(['find-generic-password', '-s', SERVICE, '-a', id, '-w'])) === secret,
    remove: (id) => void tool(['delete-generic-password', '-s', SERVICE, '-a', checked(id)]),
  }
}

interface Outcome {
  /** null: it is not installed, or did not end. */
  readonly status: number | null
  readonly output: string
}

function run(
  env: Readonly<Record<string, string | undefined>>,
  program: string,
  args: readonly string[],
  input = '',
): Outcome {
  const { status, stdout } = spawnSync(program, args, {
    env,
    input,
    shell: false,
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  return { status, output: typeof stdout === 'string' ? stdout : '' }
}

function readFrom({ status, output }: Outcome): string | undefined {
  const secret = output.trim()
  return status === 0 && secret !== '' ? secret : undefined
}

function checked(id: string): string {
  if (!SAFE_ID.test(id)) throw new TypeError(`"${id}" cannot be the id of a secret`)
  return id
}
