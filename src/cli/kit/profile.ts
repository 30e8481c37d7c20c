/**
 * Profiles: a server and an API key each, in one file in the user's configuration folder. The file holds keys, so only
 * its owner can read it. It is replaced as a whole, so that an interrupted write loses nothing.
 */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import { parseJson } from './json-file.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export interface Profile {
  readonly name: string
  readonly url: string
  readonly key: string
  /** Name of the account at the time of the login. */
  readonly account: string
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

/** The profile that the option names, else the one in BERTH_PROFILE, else the current one. */
export function chooseProfile(shell: Shell, option: string | undefined): Profile | undefined {
  const explicitName = option ?? (shell.env['BERTH_PROFILE'] || undefined)
  const { current, profiles } = readProfiles(shell)
  const name = explicitName ?? current
  const profile = profiles.find((candidate) => candidate.name === name)
  if (profile === undefined && explicitName !== undefined) throw noProfile(explicitName)
  return profile
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
    ['name', 'url', 'key', 'account'].every((field) => typeof value[field] === 'string') &&
    Array.isArray(value['scopes']) &&
    value['scopes'].every((scope) => typeof scope === 'string')
  )
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
