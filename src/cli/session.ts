/**
 * A command's way to the server: which one, and with whose key. What is named on the command line wins over the
 * environment, that over the profile in use, and that over the data folder, where a server keeps its address beside its
 * keys. A key from the data folder is used only for a server on this machine, and a profile's only for its own server;
 * no key is ever sent to another host without being asked for.
 */
import path from 'node:path'
import { ADDRESS_FILE, parseAddress, type ServerAddress } from '../base/server-address.ts'
import { makeClient, type Client } from '../client/client.ts'
import { chooseProfile, type Profile } from './profile.ts'
import { makeScreen, type Screen } from './screen.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export const DEFAULT_URL = 'http://127.0.0.1:8420'

/** Which key a command uses by default. */
export type Who = 'customer' | 'operator' | 'anyone'

const keyFiles: Readonly<Record<Who, readonly string[]>> = {
  customer: ['demo.key'],
  operator: ['operator.key'],
  anyone: ['demo.key', 'operator.key'],
}

export interface GlobalOptions {
  readonly url?: string
  readonly key?: string
  readonly keyFile?: string
  readonly profile?: string
  readonly json?: true
}

export interface Session {
  readonly client: Client
  readonly screen: Screen
  readonly who: Who
  /** undefined: no key was found, which only `anyone` may be without. */
  readonly keyFrom: string | undefined
  /** The profile that the key came from. */
  readonly profile: string | undefined
  /** For what the client does not do: streams and terminals. */
  readonly key: string | undefined
  readonly json: boolean
  readonly dataDir: string
}

export function openSession(shell: Shell, options: GlobalOptions, who: Who): Session {
  const profile = chooseProfile(shell, options.profile)
  // A profile that is named on the command line is an option as any other.
  const fromEnvironment = options.profile === undefined ? urlOfEnvironment(shell) : undefined
  const url = options.url ?? fromEnvironment ?? profile?.url ?? urlOfDataFolder(shell, options) ?? DEFAULT_URL
  checkUrl(url)
  const key = findKey(shell, options, { who, url, profile })
  if (key === undefined && who !== 'anyone') throw noKey(who, url, dataFolder(shell))
  return sessionWith(shell, { url, key, who, json: options.json === true })
}

/** BERTH_URL, or what a server with the same settings listens on. */
function urlOfEnvironment(shell: Shell): string | undefined {
  const [url, port, host] = [given(shell, 'BERTH_URL'), given(shell, 'BERTH_PORT'), given(shell, 'BERTH_HOST')]
  // With port 0 a server takes any that is free.
  if (url !== undefined || port === undefined || port === '0') return url
  if (!/^\d{1,5}$/.test(port)) throw new CliError(exitCodes.usage, `BERTH_PORT: ${port} is not a port.`)
  const name = host === undefined || host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Address of the server that owns the key's data folder. undefined: not recorded, or its process is gone. */
function urlOfDataFolder(shell: Shell, { key, keyFile }: GlobalOptions): string | undefined {
  const folder = keyFile === undefined ? dataFolder(shell) : path.dirname(keyFile)
  const address = addressIn(shell, folder)
  if (address?.state === 'running') return address.url
  // With a key from elsewhere, this folder has nothing to do with the call.
  if (address?.state !== 'ended' || key !== undefined || given(shell, 'BERTH_KEY') !== undefined) return undefined
  throw new CliError(exitCodes.unreachable, `The server of the data folder ${folder} is not running.`, [
    `It was at ${address.url}. Start it with: berth serve (in a checkout: npm start).`,
    'Another server is named with --url or BERTH_URL.',
  ])
}

function addressIn(shell: Shell, folder: string): ServerAddress | undefined {
  const text = shell.readFile(path.join(folder, ADDRESS_FILE))
  return text === undefined ? undefined : parseAddress(text)
}

interface FoundKey {
  readonly text: string
  readonly from: string
  readonly profile?: string
}

interface Way {
  readonly url: string
  readonly key: FoundKey | undefined
  readonly who: Who
  readonly json: boolean
}

/** With a server and a key that are known already. */
export function sessionWith(shell: Shell, { url, key, who, json }: Way): Session {
  checkUrl(url)
  if (key !== undefined && !/^[!-~]+$/.test(key.text)) {
    throw new CliError(exitCodes.refused, `What ${key.from} holds is not an API key: one reads bk_<id>_<secret>.`)
  }
  return {
    client: makeClient({ url, key: key?.text }),
    screen: makeScreen(shell, json),
    who,
    keyFrom: key?.from,
    profile: key?.profile,
    key: key?.text,
    json,
    dataDir: dataFolder(shell),
  }
}

function dataFolder(shell: Shell): string {
  return given(shell, 'BERTH_DATA_DIR') ?? '.berth'
}

export function isLocal(url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : ''
  return host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}

/** Said before anything is missed that a right URL would have. */
function checkUrl(url: string): void {
  try {
    makeClient({ url })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.usage, `${message}.`, [`Give one with --url or BERTH_URL, such as ${DEFAULT_URL}.`])
  }
}

function findKey(
  shell: Shell,
  options: GlobalOptions,
  { who, url, profile }: { who: Who; url: string; profile: Profile | undefined },
): FoundKey | undefined {
  if (options.key !== undefined) return { text: options.key.trim(), from: '--key' }
  if (options.keyFile !== undefined) {
    const text = shell.readFile(options.keyFile)?.trim()
    if (text === undefined) throw new CliError(exitCodes.usage, `Cannot read the key file ${options.keyFile}.`)
    return { text, from: options.keyFile }
  }
  const isNamed = options.profile !== undefined
  const text = isNamed ? undefined : given(shell, 'BERTH_KEY')
  if (text !== undefined) return { text: text.trim(), from: 'BERTH_KEY' }
  const kept =
    profile !== undefined && isSameServer(profile.url, url)
      ? { text: profile.key, from: `the profile ${profile.name}`, profile: profile.name }
      : undefined
  if (profile !== undefined && kept !== undefined && (isNamed || suits(profile, who))) return kept
  return findInDataFolder(shell, who, url) ?? kept
}

function findInDataFolder(shell: Shell, who: Who, url: string): FoundKey | undefined {
  // A server on this machine may listen on another address than loopback.
  const address = addressIn(shell, dataFolder(shell))
  const isOwn = isLocal(url) || (address?.state === 'running' && address.url === url)
  if (!isOwn) return undefined
  for (const name of keyFiles[who]) {
    const file = path.join(dataFolder(shell), name)
    const text = shell.readFile(file)?.trim()
    if (text !== undefined) return { text, from: file }
  }
  return undefined
}

/** A customer's key is of no use to an operator's command where the operator's lies at hand, nor the other way round. */
function suits({ scopes }: Profile, who: Who): boolean {
  return who === 'operator' ? scopes.includes('operator') : scopes.some((scope) => scope !== 'operator')
}

function isSameServer(one: string, other: string): boolean {
  return URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href
}

function noKey(who: Who, url: string, dataDir: string): CliError {
  const files = keyFiles[who].map((name) => path.join(dataDir, name)).join(' or ')
  const next = isLocal(url)
    ? [
        `Looked for --key, --key-file, BERTH_KEY and the file ${files}.`,
        'A server writes that file at its first start (berth serve; in a checkout: npm start), for its own user only.',
        'Run this in the folder where the server was started, or set BERTH_DATA_DIR to its data folder.',
        'Or log in to a server elsewhere: berth login --server URL',
        ...(who === 'operator' ? ['A lost key is replaced by another with: berth serve --new-operator-key'] : []),
      ]
    : [
        `Log in with: berth login --server ${url}`,
        `Or give one with --key-file or BERTH_KEY: keys in ${dataDir} are used by themselves only for a server on this machine.`,
      ]
  return new CliError(
    exitCodes.refused,
    `This needs ${who === 'operator' ? "an operator's" : 'an'} API key, and there is none.`,
    next,
  )
}

function given(shell: Shell, name: string): string | undefined {
  const value = shell.env[name]
  return value === '' ? undefined : value
}
