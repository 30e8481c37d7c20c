/**
 * Profiles: a server and an API key each, in one file of the user's configuration folder. The file holds keys, so only
 * its owner can read it, and it is replaced as a whole, so that an interrupted write loses nothing.
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

/** undefined: neither XDG_CONFIG_HOME nor HOME is set. */
function findFile({ env }: Shell): string | undefined {
  const home = env['HOME'] === undefined || env['HOME'] === '' ? undefined : path.join(env['HOME'], '.config')
  const named = env['XDG_CONFIG_HOME']
  // The standard ignores relative paths.
  const folder = named !== undefined && path.isAbsolute(named) ? named : home
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
  const fresh = `${file}.${process.pid}.new`
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(fresh, `${JSON.stringify(list, null, 2)}\n`, { mode: 0o600 })
    chmodSync(fresh, 0o600)
    renameSync(fresh, file)
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.failed, `Cannot save the profile: ${cause}.`)
  }
  return file
}

/** By the option, by BERTH_PROFILE, or the one in use. */
export function chooseProfile(shell: Shell, named: string | undefined): Profile | undefined {
  const wanted = named ?? (shell.env['BERTH_PROFILE'] || undefined)
  const { current, profiles } = readProfiles(shell)
  const name = wanted ?? current
  const found = profiles.find((one) => one.name === name)
  if (found === undefined && wanted !== undefined) throw noProfile(wanted)
  return found
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

// Checked by hand: every command reads this file, and loading a schema library would double its start-up time.
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
