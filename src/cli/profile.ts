/**
 * Profiles: which server, with which key, kept between commands in one file of the user's own configuration folder. The
 * file holds keys, so it is for its owner alone, and it is replaced as a whole: a cut write loses nothing.
 */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import { CliError, exitCodes, type Shell } from './shell.ts'

export interface Profile {
  readonly name: string
  readonly url: string
  readonly key: string
  /** Of its account, as it was told at the login. */
  readonly account: string
  readonly scopes: readonly string[]
}

export interface ProfileList {
  readonly current: string | null
  readonly profiles: readonly Profile[]
}

/** undefined: the environment names neither a configuration folder nor a home. */
function findFile({ env }: Shell): string | undefined {
  const home = env['HOME'] === undefined || env['HOME'] === '' ? undefined : path.join(env['HOME'], '.config')
  const named = env['XDG_CONFIG_HOME']
  // The standard has relative ones ignored.
  const folder = named !== undefined && path.isAbsolute(named) ? named : home
  return folder === undefined ? undefined : path.join(folder, 'berth', 'profiles.json')
}

export function readProfiles(shell: Shell): ProfileList {
  const file = findFile(shell)
  const text = file === undefined ? undefined : shell.readFile(file)
  if (file === undefined || text === undefined) return { current: null, profiles: [] }
  const list = parseJson(text)
  if (isProfileList(list)) return list
  throw new CliError(exitCodes.usage, `The file of profiles ${file} cannot be understood.`, [
    'Mend it, or remove it and log in again with: berth login',
  ])
}

/** Gives where they are kept. */
export function writeProfiles(shell: Shell, list: ProfileList): string {
  const file = findFile(shell)
  if (file === undefined) {
    throw new CliError(exitCodes.failed, 'There is no folder to keep a profile in.', [
      'Set HOME or XDG_CONFIG_HOME, or name the key with BERTH_KEY.',
    ])
  }
  const fresh = `${file}.${process.pid}.new`
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(fresh, `${JSON.stringify(list, null, 2)}\n`, { mode: 0o600 })
    chmodSync(fresh, 0o600)
    renameSync(fresh, file)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.failed, `The profile cannot be kept: ${why}.`)
  }
  return file
}

/** The one that is named by the option, by BERTH_PROFILE, or that is in use. */
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
    'berth profiles ls lists them.',
    `Make it with: berth login --profile ${name} --server URL`,
  ])
}

export function isProfileName(text: string): boolean {
  return /^[\w.-]{1,64}$/.test(text)
}

export function parseProfileName(text: string): string {
  if (!isProfileName(text)) throw new InvalidArgumentError('Letters, digits, dot, - and _ only, 64 at most.')
  return text
}

// By hand: every command reads this file, and a schema library would double the time that a command takes to start.
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
