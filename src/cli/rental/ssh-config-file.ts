/**
 * The files of `berth ssh-config` in `~/.ssh`: one with a `Host` for each machine, one with their host keys, and a single
 * `Include` line at the top of the person's own `config`, of which no other line is ever changed. Each file is replaced
 * whole, so a program that reads at the same time, or a crash, finds either the old or the new one.
 */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import type { OwnMachine, Ssh } from '../../view/own-machine.ts'

const OWN_FILE = 'berth_config'
const KNOWN_HOSTS = 'berth_known_hosts'
/** Relative names are looked up in `~/.ssh`. */
const INCLUDE = `Include ${OWN_FILE}`
const HEAD = '# Written by berth ssh-config, which replaces this file.'
const ALIAS = 'berth-'
const FOLDER_MODE = 0o700
const FILE_MODE = 0o600

export interface SshHost {
  readonly name: string
  readonly ssh: Ssh
}

export function hostsOf(machines: readonly OwnMachine[]): SshHost[] {
  return machines.flatMap(({ name, ssh }) => (ssh === undefined ? [] : [{ name, ssh }]))
}

/** The name by which programs reach the machine. */
export function aliasOf(name: string): string {
  return `${ALIAS}${name}`
}

export function renderConfig(hosts: readonly SshHost[], identity: string | undefined): string {
  const sorted = hosts.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  return [HEAD, ...sorted.map((host) => renderHost(host, identity))].join('\n\n') + '\n'
}

function renderHost({ name, ssh }: SshHost, identity: string | undefined): string {
  const alias = aliasOf(name)
  const lines = [
    `Host ${alias}`,
    `  HostName ${ssh.host}`,
    `  Port ${ssh.port}`,
    `  User ${ssh.user}`,
    // Addresses are reused by other machines and names are not, so host keys are remembered by name.
    `  HostKeyAlias ${alias}`,
    `  UserKnownHostsFile ~/.ssh/${KNOWN_HOSTS}`,
    '  HashKnownHosts no',
    '  StrictHostKeyChecking accept-new',
    ...(identity === undefined ? [] : [`  IdentityFile "${identity}"`, '  IdentitiesOnly yes']),
  ]
  return lines.join('\n')
}

export interface SshFiles {
  /** Whether the person's own `config` got the line. */
  readonly isIncluded: boolean
  readonly file: string
}

/** Machines that are not named are removed, with their host keys. */
export function writeSshFiles(folder: string, hosts: readonly SshHost[], identity: string | undefined): SshFiles {
  fs.mkdirSync(folder, { recursive: true, mode: FOLDER_MODE })
  const file = path.join(folder, OWN_FILE)
  replace(file, renderConfig(hosts, identity))
  forgetHosts(path.join(folder, KNOWN_HOSTS), new Set(hosts.map(({ name }) => aliasOf(name))))
  return { file, isIncluded: addInclude(path.join(folder, 'config')) }
}

/** Removes both files and the line. */
export function removeSshFiles(folder: string): void {
  const config = path.join(folder, 'config')
  const text = readText(config)
  // The line first: an Include of a missing file is no error, but a useless line is.
  if (text !== undefined && text.split('\n').some(isInclude)) replace(config, withoutInclude(text))
  for (const name of [OWN_FILE, KNOWN_HOSTS]) fs.rmSync(path.join(folder, name), { force: true })
}

/** At the top: below a `Host` it would hold for that host only. */
function addInclude(config: string): boolean {
  const text = readText(config) ?? ''
  const [first = ''] = text.split('\n')
  if (isInclude(first)) return false
  replace(config, `${INCLUDE}\n${text.split('\n').some(isInclude) ? withoutInclude(text) : text}`)
  return true
}

function isInclude(line: string): boolean {
  return line.trim() === INCLUDE
}

function withoutInclude(text: string): string {
  return text
    .split('\n')
    .filter((line) => !isInclude(line))
    .join('\n')
}

/** Ours are written in clear (`HashKnownHosts no`). */
function forgetHosts(file: string, aliases: ReadonlySet<string>): void {
  const text = readText(file)
  if (text === undefined) return
  const lines = text.split('\n')
  const current = lines.filter((line) => {
    const [host = ''] = line.split(' ')
    return !host.startsWith(ALIAS) || aliases.has(host)
  })
  if (current.length < lines.length) replace(file, current.join('\n'))
}

function readText(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Follows a link, as people keep their own `config` elsewhere, and keeps the mode. */
function replace(link: string, text: string): void {
  const file = fs.existsSync(link) ? fs.realpathSync(link) : link
  const mode = fs.existsSync(file) ? fs.statSync(file).mode & 0o777 : FILE_MODE
  const next = `${file}.${randomBytes(6).toString('hex')}`
  try {
    const handle = fs.openSync(next, 'wx', mode)
    try {
      fs.writeSync(handle, text)
      fs.fsyncSync(handle)
    } finally {
      fs.closeSync(handle)
    }
    fs.renameSync(next, file)
  } catch (error) {
    fs.rmSync(next, { force: true })
    throw error
  }
}
