/**
 * Profiles: a server and an API key each, in one file in the user's configuration folder. The key is in the system's keyring
 * where there is one, else in the file, which only its owner can read. The file is replaced as a whole, so that an
 * interrupted write loses nothing.
 */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import { parseJson } from './json-file.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export interface Profile {
  readonly name: string
  readonly url: string
  /** Absent: it is in the keyring, under `keyId`. */
  readonly key?: string
  /** The public part of the key. Absent: an older version wrote the profile. */
  readonly keyId?: string
  /** Whether `berth login` got the key from a person in a browser. */
  readonly isDevice?: boolean
  /** Absent: the key does not end, or an older version wrote the profile. */
  readonly expiresAt?: string
  /** Name and id of the account at the time of the login. */
  readonly account: string
  readonly accountId?: string
  readonly scopes: readonly string[]
}

export interface ProfileList {
  readonly current: string | null
  readonly profiles: readonly Profile[]
}

/** The path of the profiles file. undefined: neither XDG_CONFIG_HOME nor HOME is set. */
function findFile({ env }: Shell): string | undefined {
  const home = env['HOME'] === undefined || env['HOME'] === '' ? undefined : path.join(env['HOME'], '.config')
  const configHome = env['XDG_CONFIG_HOME']
  // The XDG standard says to ignore a relative path.
  const folder = configHome !== undefined && path.isAbsolute(configHome) ? configHome : home
  return folder === undefined ? undefined : path.join(folder, 'berth', 'profiles.json')
}

export function readProfiles(shell: Shell): ProfileList {
  const file = findFile(shell)
  const text = file === undefined ? undefined : shell.readFile(file)
  if (file === undefined || text === undefined) return { current: null, profiles: [] }
  const list = parseJson(text)
  if (isProfileList(list)) return list
  throw new CliError(exitCodes.usage, `The profiles file ${file} is damaged.`, [
    'Repair it, or delete it and log in again: berth login',
  ])
}

/** Returns the path of the file. */
export function writeProfiles(shell: Shell, list: ProfileList): string {
  const file = findFile(shell)
  if (file === undefined) {
    throw new CliError(exitCodes.failed, 'There is no folder for profiles.', [
      'Set HOME or XDG_CONFIG_HOME, or pass the key in BERTH_KEY.',
    ])
  }
  const temporaryFile = `${file}.${process.pid}.new`
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(temporaryFile, `${JSON.stringify(list, null, 2)}\n`, { mode: 0o600 })
    chmodSync(temporaryFile, 0o600)
    renameSync(temporaryFile, file)
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.failed, `Cannot save the profile: ${cause}.`)
  }
  return file
}

/**
 * The profile that the option names, else the one in BERTH_PROFILE, else the current one. Where the command is about another
 * server, it is the profile for that server which was saved last.
 */
export function chooseProfile(shell: Shell, option: string | undefined, url: string | undefined): Profile | undefined {
  const explicitName = option ?? (shell.env['BERTH_PROFILE'] || undefined)
  const { current, profiles } = readProfiles(shell)
  const name = explicitName ?? current
  const profile = profiles.find((candidate) => candidate.name === name)
  if (profile === undefined && explicitName !== undefined) throw noProfile(explicitName)
  if (explicitName !== undefined || url === undefined) return profile
  if (profile !== undefined && isSameServer(profile.url, url)) return profile
  return profiles.findLast((candidate) => isSameServer(candidate.url, url)) ?? profile
}

export function isSameServer(one: string, other: string): boolean {
  return URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href
}

/** The key of a profile, from wherever it is kept. */
export function keyOfProfile({ keyring }: Shell, { name, url, key, keyId }: Profile): string {
  const text = key ?? (keyId === undefined ? undefined : keyring?.read(keyId))
  if (text !== undefined) return text
  const where = keyring === undefined ? 'There is no keyring here' : `${capital(keyring.title)} does not have the key`
  throw new CliError(exitCodes.refused, `${where} of the profile ${name}.`, [
    'Unlock the keyring, or pass a key in BERTH_KEY.',
    `To log in again: berth login --profile ${name} --server ${url}`,
  ])
}

/** Saves a profile in place of the one with its name, and makes it the current one. */
export function saveProfile(shell: Shell, profile: Profile & { readonly key: string; readonly keyId: string }): Saved {
  const { profiles } = readProfiles(shell)
  const { key, ...others } = profile
  const label = `API key of Berth for ${profile.account} at ${profile.url}`
  const isInKeyring = shell.keyring?.write(profile.keyId, label, key) === true
  for (const before of profiles.filter(({ name }) => name === profile.name))
    if (before.keyId !== profile.keyId) forgetKey(shell, before)
  const file = writeProfiles(shell, {
    current: profile.name,
    profiles: [...profiles.filter(({ name }) => name !== profile.name), isInKeyring ? others : profile],
  })
  return { file, keyIn: isInKeyring ? (shell.keyring?.title ?? file) : file }
}

export interface Saved {
  readonly file: string
  /** The keyring, or the file. */
  readonly keyIn: string
}

/** Deletes a profile and its key. */
export function deleteProfile(shell: Shell, profile: Profile): void {
  const { current, profiles } = readProfiles(shell)
  forgetKey(shell, profile)
  writeProfiles(shell, {
    current: current === profile.name ? null : current,
    profiles: profiles.filter(({ name }) => name !== profile.name),
  })
}

function forgetKey({ keyring }: Shell, { key, keyId }: Profile): void {
  if (key === undefined && keyId !== undefined) keyring?.remove(keyId)
}

/** Tells keys apart without reading them from a keyring. */
export function keyIdOf({ key, keyId }: Pick<Profile, 'key' | 'keyId'>): string {
  return keyId ?? publicIdIn(key ?? '')
}

/** The public part of `bk_<id>_<secret>`, or the whole text where it is no key. */
export function publicIdIn(key: string): string {
  return /^bk_([0-9A-Za-z]+)_/.exec(key)?.[1] ?? key
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

export function noProfile(name: string): CliError {
  return new CliError(exitCodes.usage, `There is no profile ${name}.`, [
    'To list profiles: berth profiles ls',
    `To create it: berth login --profile ${name} --server URL`,
  ])
}

export const PROFILE_NAME_RULE = 'Use letters, digits, dots, - and _, at most 64.'

export function isProfileName(text: string): boolean {
  return /^[\w.-]{1,64}$/.test(text)
}

export function parseProfileName(text: string): string {
  if (!isProfileName(text)) throw new InvalidArgumentError(PROFILE_NAME_RULE)
  return text
}

// This check is by hand because every command reads the file, and loading a schema library would double its start-up time.
function isProfileList(value: unknown): value is ProfileList {
  return (
    isRecord(value) &&
    (value['current'] === null || typeof value['current'] === 'string') &&
    Array.isArray(value['profiles']) &&
    value['profiles'].every(isProfile)
  )
}

function isProfile(value: unknown): boolean {
  return (
    isRecord(value) &&
    ['name', 'url', 'account'].every((field) => typeof value[field] === 'string') &&
    (typeof value['key'] === 'string' || typeof value['keyId'] === 'string') &&
    Array.isArray(value['scopes']) &&
    value['scopes'].every((scope) => typeof scope === 'string')
  )
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
