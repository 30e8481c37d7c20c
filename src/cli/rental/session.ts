/**
 * The server and the API key of a command. The command line wins over the environment, the environment over the current
 * profile, and the profile over the data folder, where a server writes its address and its keys. A key from the data
 * folder is sent only to a server on this machine, and the key of a profile only to the server of that profile.
 */
import path from 'node:path'
import { ADDRESS_FILE, parseAddress, type ServerAddress } from '../../base/net/server-address.ts'
import { makeClient, type Client } from '../../client/client.ts'
import {
  chooseProfile,
  isSameServer,
  keyIdOf,
  keyOfProfile,
  publicIdIn,
  readProfiles,
  type Profile,
} from '../kit/profile.ts'
import { makeScreen, type Screen } from '../kit/screen.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'

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

interface SavedAccount {
  readonly name: string
  readonly id: string
}

export interface Session {
  readonly client: Client
  readonly screen: Screen
  readonly who: Who
  /** undefined: there is no key. Only commands for `anyone` run without one. */
  readonly keyFrom: string | undefined
  /** The profile that the key came from. */
  readonly profile: string | undefined
  /** Nobody named the key, and there are others: the next command may be about another account. */
  readonly isGuess: boolean
  /** The same, and at least one of them is of a login, so that the accounts are a person's own choice. */
  readonly isAmongLogins: boolean
  /** The account of the key's profile, as the login saved it. */
  readonly savedAccount: SavedAccount | undefined
  /** The key for streams and terminals, which the client does not open. */
  readonly key: string | undefined
  readonly json: boolean
  readonly dataDir: string
}

export function openSession(shell: Shell, options: GlobalOptions, who: Who): Session {
  // A profile named on the command line wins over the environment.
  const fromEnvironment = options.profile === undefined ? urlOfEnvironment(shell) : undefined
  const profile = chooseProfile(shell, options.profile, options.url ?? fromEnvironment)
  const url = options.url ?? fromEnvironment ?? profile?.url ?? urlOfDataFolder(shell, options) ?? DEFAULT_URL
  checkUrl(url)
  const key = findKey(shell, options, { who, url, profile })
  if (key === undefined && who !== 'anyone') throw noKey(who, url, dataFolder(shell))
  const isGuess = key?.isDefault === true && countKeys(shell, who) > 1
  const isAmongLogins = isGuess && readProfiles(shell).profiles.length > 0
  return sessionWith(shell, { url, key, who, json: options.json === true, isGuess, isAmongLogins })
}

/** The keys that a command could use without being told: those of profiles, and of the data folder. */
function countKeys(shell: Shell, who: Who): number {
  // An operator's key can do what a customer's does, and not the other way round.
  const names = who === 'operator' ? keyFiles.operator : keyFiles.anyone
  const files = names.flatMap((name) => shell.readFile(path.join(dataFolder(shell), name))?.trim() ?? [])
  const { profiles } = readProfiles(shell)
  const saved = who === 'operator' ? profiles.filter((profile) => suits(profile, who)) : profiles
  return new Set([...files.map(publicIdIn), ...saved.map(keyIdOf)]).size
}

/** BERTH_URL, or the address of a server with the same settings. */
function urlOfEnvironment(shell: Shell): string | undefined {
  const [url, port, host] = [envValue(shell, 'BERTH_URL'), envValue(shell, 'BERTH_PORT'), envValue(shell, 'BERTH_HOST')]
  // Port 0 stands for any free port.
  if (url !== undefined || port === undefined || port === '0') return url
  if (!/^\d{1,5}$/.test(port)) throw new CliError(exitCodes.usage, `BERTH_PORT: ${port} is not a port.`)
  const name = host === undefined || host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Address of the server that owns the key's data folder. undefined: no server has run there. */
function urlOfDataFolder(shell: Shell, { key, keyFile }: GlobalOptions): string | undefined {
  const folder = keyFile === undefined ? dataFolder(shell) : path.dirname(keyFile)
  const address = addressIn(shell, folder)
  if (address?.state === 'running') return address.url
  // With a key from elsewhere, this folder does not matter.
  if (address?.state !== 'ended' || key !== undefined || envValue(shell, 'BERTH_KEY') !== undefined) return undefined
  throw new CliError(exitCodes.unreachable, `The server of the data folder ${folder} is not running.`, [
    `It was at ${address.url}. Start it with: berth serve (in a checkout: npm start).`,
    'To use another server: --url or BERTH_URL.',
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
  readonly account?: SavedAccount
  /** Neither the command line nor the environment names it. */
  readonly isDefault?: boolean
}

interface Connection {
  readonly isGuess?: boolean
  readonly isAmongLogins?: boolean
  readonly url: string
  readonly key: FoundKey | undefined
  readonly who: Who
  readonly json: boolean
}

/** A session with a given server and key. */
export function sessionWith(
  shell: Shell,
  { url, key, who, json, isGuess = false, isAmongLogins = false }: Connection,
): Session {
  checkUrl(url)
  if (key !== undefined && !/^[!-~]+$/.test(key.text)) {
    throw new CliError(exitCodes.refused, `${key.from} does not hold an API key, which looks like bk_<id>_<secret>.`)
  }
  return {
    client: makeClient({ url, key: key?.text }),
    screen: makeScreen(shell, json),
    who,
    keyFrom: key?.from,
    profile: key?.profile,
    isGuess,
    isAmongLogins,
    savedAccount: key?.account,
    key: key?.text,
    json,
    dataDir: dataFolder(shell),
  }
}

function dataFolder(shell: Shell): string {
  return envValue(shell, 'BERTH_DATA_DIR') ?? '.berth'
}

export function isLocal(url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : ''
  return host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}

/** Before a key is looked for: a wrong URL has none. */
function checkUrl(url: string): void {
  try {
    makeClient({ url })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.usage, `${message}.`, [`Give one with --url or BERTH_URL, such as ${DEFAULT_URL}.`])
  }
}

/** The key that the command line names. */
export function keyIn(shell: Shell, { key, keyFile }: GlobalOptions): FoundKey | undefined {
  if (key !== undefined) return { text: key.trim(), from: '--key' }
  if (keyFile === undefined) return undefined
  const text = shell.readFile(keyFile)?.trim()
  if (text === undefined) throw new CliError(exitCodes.usage, `Cannot read the key file ${keyFile}.`)
  return { text, from: keyFile }
}

function findKey(
  shell: Shell,
  options: GlobalOptions,
  { who, url, profile }: { who: Who; url: string; profile: Profile | undefined },
): FoundKey | undefined {
  const key = keyIn(shell, options)
  if (key !== undefined) return key
  const isNamed = options.profile !== undefined
  const text = isNamed ? undefined : envValue(shell, 'BERTH_KEY')
  if (text !== undefined) return { text: text.trim(), from: 'BERTH_KEY' }
  const saved = profile !== undefined && isSameServer(profile.url, url) ? profile : undefined
  const inFolder = saved !== undefined && (isNamed || suits(saved, who)) ? undefined : findInDataFolder(shell, who, url)
  if (inFolder !== undefined || saved === undefined) return inFolder
  const { name, account, accountId } = saved
  return {
    text: keyOfProfile(shell, saved),
    from: `the profile ${name}`,
    profile: name,
    isDefault: !isNamed,
    ...(accountId === undefined ? {} : { account: { name: account, id: accountId } }),
  }
}

function findInDataFolder(shell: Shell, who: Who, url: string): FoundKey | undefined {
  // A server on this machine may listen on an address other than loopback.
  const address = addressIn(shell, dataFolder(shell))
  const isOwn = isLocal(url) || (address?.state === 'running' && address.url === url)
  if (!isOwn) return undefined
  for (const name of keyFiles[who]) {
    const file = path.join(dataFolder(shell), name)
    const text = shell.readFile(file)?.trim()
    if (text !== undefined) return { text, from: file, isDefault: true }
  }
  return undefined
}

/** Whether its key is of the kind that the command needs. If not, the data folder may have a better one. */
function suits({ scopes }: Profile, who: Who): boolean {
  return who === 'operator' ? scopes.includes('operator') : scopes.some((scope) => scope !== 'operator')
}

function noKey(who: Who, url: string, dataDir: string): CliError {
  const files = keyFiles[who].map((name) => path.join(dataDir, name)).join(' or ')
  const next = isLocal(url)
    ? [
        `Looked for --key, --key-file, BERTH_KEY and the file ${files}.`,
        'A server writes that file when it first starts (berth serve; in a checkout: npm start).',
        'Run this in the folder where the server was started, or set BERTH_DATA_DIR to its data folder.',
        'Or log in to another server: berth login --server URL',
        ...(who === 'operator' ? ['To replace a lost key: berth serve --new-operator-key'] : []),
      ]
    : [
        `Log in with: berth login --server ${url}`,
        `Or use --key-file or BERTH_KEY. Keys in ${dataDir} are only for a server on this machine.`,
      ]
  return new CliError(
    exitCodes.refused,
    `This needs ${who === 'operator' ? "an operator's" : 'an'} API key, and there is none.`,
    next,
  )
}

function envValue(shell: Shell, name: string): string | undefined {
  const value = shell.env[name]
  return value === '' ? undefined : value
}
