/**
 * `berth login`, `logout` and `whoami`. A person logs this machine in with a browser; programs, and servers where people do
 * not sign in, use an API key. A key is tried on its server before it is saved, and never printed again.
 */
import { InvalidArgumentError } from 'commander'
import { limits } from '../../base/limits.ts'
import { makeClient, type Client, type Reply } from '../../client/client.ts'
import { isClientError, isRefusal } from '../../client/error.ts'
import { utcTime } from '../../view/time.ts'
import { explain } from '../kit/failure.ts'
import {
  deleteProfile,
  isProfileName,
  isSameServer,
  keyOfProfile,
  PROFILE_NAME_RULE,
  readProfiles,
  saveProfile,
  type Profile,
  type Saved,
} from '../kit/profile.ts'
import { askFor } from '../kit/question.ts'
import { custom } from '../kit/row.ts'
import type { Call, Row } from '../kit/row-type.ts'
import { bold, type Screen } from '../kit/screen.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import { DEFAULT_URL, isLocal, keyIn, sessionWith, type GlobalOptions, type Session } from '../rental/session.ts'
import { logInByPerson } from './device-login.ts'
import { profileNamed, screenOf, showRemoved, toRow } from './profile.ts'

interface LoginOptions extends GlobalOptions {
  readonly server?: string
  readonly days?: number
}

interface LogoutOptions extends GlobalOptions {
  readonly everywhere?: true
}

export const rows: readonly Row[] = [
  custom<LoginOptions>('login', 'log this machine in to a server', {
    isOffline: true,
    options: {
      '--server <url>': 'URL of the server; same as --url',
      '--days <number>': { help: `how long the login lasts, at most ${limits.deviceKeyDays} days`, parse: readDays },
    },
    run: logIn,
    notes: `It shows a code, which you type on a page of the server where you are signed in.
There you choose the account and what this machine may do. With --key-file or a
pipe, it saves that API key instead. The key is kept in the keyring of the
system, or in a file that only you can read.`,
    examples: [
      'berth login --server https://gpu.example.com',
      'berth login --days 7',
      'berth login --profile work < key-file',
    ],
  }),
  custom<LogoutOptions>('logout', 'log this machine out and delete its API key', {
    isOffline: true,
    options: { '--everywhere': 'log out all machines that you logged in to this server' },
    run: logOut,
    examples: ['berth logout', 'berth logout --everywhere', 'berth logout --profile work'],
  }),
  custom<GlobalOptions>('whoami', 'show the server, account and API key that commands use', {
    who: 'customer',
    showsAccount: true,
    run: async ({ session, client, screen }) => showCaller(session, screen, await client.call('getMe')),
    examples: ['berth whoami', 'berth whoami --json'],
  }),
]

function readDays(text: string): number {
  const days = Number(text)
  if (Number.isInteger(days) && days >= 1 && days <= limits.deviceKeyDays) return days
  throw new InvalidArgumentError(`Use a whole number from 1 to ${limits.deviceKeyDays}.`)
}

async function logIn({ shell, options }: Call<LoginOptions>): Promise<void> {
  const { profiles } = readProfiles(shell)
  const profileName = options.profile ?? (shell.env['BERTH_PROFILE'] || undefined)
  if (profileName !== undefined && !isProfileName(profileName)) {
    throw new CliError(exitCodes.usage, `${profileName} is not a valid profile name.`, [PROFILE_NAME_RULE])
  }
  const url = await chooseServer(shell, options, profiles.find(({ name }) => name === profileName)?.url)
  const key = keyIn(shell, options) ?? pipedKey(shell) ?? (await keyOfPerson(shell, options, url))
  const session = sessionWith(shell, { url, key, who: 'anyone', json: options.json === true })
  const me = await session.client.call('getMe').catch((error: unknown) => {
    throw explain(error, session)
  })
  const account = { account: me.account.name, accountId: me.account.id }
  const name = profileName ?? nameOf(url, profiles, account)
  const before = profiles.find((one) => one.name === name)
  const profile = {
    name,
    url: session.client.url,
    key: key.text,
    keyId: me.key.publicId,
    isDevice: me.key.kind === 'device',
    ...(me.key.expiresAt === null ? {} : { expiresAt: me.key.expiresAt }),
    ...account,
    scopes: me.key.scopes,
  }
  const previous = before === undefined ? undefined : savedKey(shell, before)
  const saved = saveProfile(shell, profile)
  if (before?.isDevice === true && before.keyId !== profile.keyId && previous !== undefined)
    await endKey(makeClient({ url: before.url, key: previous }))
  showLogin(shell, session.screen, { profile, me, saved })
}

async function chooseServer(shell: Shell, { server, url }: LoginOptions, before: string | undefined): Promise<string> {
  const address = server ?? url ?? before ?? (shell.env['BERTH_URL'] || undefined)
  if (address !== undefined) return address
  if (shell.person === undefined) return DEFAULT_URL
  return askFor(shell.person, 'Server', (text) => text, DEFAULT_URL)
}

/** From a pipe: as an option it would show in the shell's history and in the list of processes. */
function pipedKey(shell: Shell): { text: string; from: string } | undefined {
  const text = shell.person === undefined ? shell.readInput()?.trim() : undefined
  return text === undefined || text === '' ? undefined : { text, from: 'the standard input' }
}

async function keyOfPerson(
  shell: Shell,
  { days, json }: LoginOptions,
  url: string,
): Promise<{ text: string; from: string }> {
  const session = sessionWith(shell, { url, key: undefined, who: 'anyone', json: json === true })
  const token = await logInByPerson(shell, session.client, days).catch((error: unknown) => {
    throw explain(error, session)
  })
  return token === undefined ? askForKey(shell, url) : { text: token.access_token, from: 'the login' }
}

/** On a server where people do not sign in as themselves. */
async function askForKey(shell: Shell, url: string): Promise<{ text: string; from: string }> {
  const text = await shell.person?.ask(`API key for ${url} (not shown): `, { hidden: true })
  if (text !== undefined && text !== '') return { text, from: 'the prompt' }
  throw new CliError(exitCodes.usage, 'No API key was given.', [
    'Use --key-file, or a pipe: berth login < key-file',
    isLocal(url)
      ? 'The keys of a local server are in its data folder: .berth/demo.key and .berth/operator.key'
      : 'Ask the operator of the server for an API key.',
  ])
}

/** Named after the host, and after the account where the host's name belongs to another account of the same person. */
function nameOf(
  url: string,
  profiles: readonly Profile[],
  { account, accountId }: Pick<Profile, 'account' | 'accountId'>,
) {
  const name = hostNameOf(url)
  const isOthers = profiles.some(
    (one) => one.name === name && one.accountId !== undefined && one.accountId !== accountId,
  )
  if (!isOthers) return name
  const suffix = account.replaceAll(/[^\w.-]+/g, '-').toLowerCase()
  return `${name.slice(0, 40)}-${suffix}`.slice(0, 64)
}

function hostNameOf(url: string): string {
  const { hostname, port } = new URL(url)
  const host = isLocal(url) ? 'local' : hostname.replaceAll(/[^\w.-]/g, '')
  const usual = isLocal(url) ? new URL(DEFAULT_URL).port : ''
  return (port === usual ? host : `${host}-${port}`).slice(0, 64)
}

function savedKey(shell: Shell, profile: Profile): string | undefined {
  try {
    return keyOfProfile(shell, profile)
  } catch (error) {
    if (error instanceof CliError) return undefined
    throw error
  }
}

function showLogin(
  shell: Shell,
  screen: Screen,
  { profile, me, saved }: { profile: Profile; me: Reply<'getMe'>; saved: Saved },
): void {
  const { file, keyIn: keptIn } = saved
  const row = { ...toRow(profile, profile.name), accountId: me.account.id, keyName: me.key.name, file, keptIn }
  screen.show(row, () => [
    ['Server', profile.url],
    ['Account', `${me.account.name} (${me.account.id})`],
    ['API key', `"${me.key.name}": ${profile.scopes.join(', ')}`],
    ['Ends', profile.expiresAt === undefined ? undefined : utcTime(profile.expiresAt)],
    ['Profile', `${profile.name} (now in use)`],
    ['Saved in', keptIn],
  ])
  for (const name of ['BERTH_URL', 'BERTH_KEY']) {
    if ((shell.env[name] ?? '') !== '') screen.remark(`${name} is set and overrides the profile.`)
  }
}

async function logOut({ shell, options }: Call<LogoutOptions>): Promise<void> {
  const name = options.profile ?? (shell.env['BERTH_PROFILE'] || readProfiles(shell).current)
  if (name === null) {
    throw new CliError(exitCodes.failed, 'You are not logged in: no profile is in use.', [
      'To list profiles: berth profiles ls',
    ])
  }
  const profile = profileNamed(shell, name)
  const everywhere = options.everywhere === true
  if (everywhere && profile.isDevice !== true) {
    throw new CliError(
      exitCodes.usage,
      `The profile ${name} has a plain API key, which can log out no other machine.`,
      ['End logins of other machines in the console, on the page Security.'],
    )
  }
  const screen = screenOf(shell, options)
  const key = profile.isDevice === true ? savedKey(shell, profile) : undefined
  const isEnded = key !== undefined && (await endKey(makeClient({ url: profile.url, key }), everywhere))
  if (everywhere && !isEnded) {
    throw new CliError(exitCodes.unreachable, `${profile.url} did not log out the other machines.`, [
      'To check the server: berth status',
      'Or end the logins in the console, on the page Security.',
    ])
  }
  deleteProfile(shell, profile)
  if (everywhere) for (const one of await endedLogins(shell, profile)) deleteProfile(shell, one)
  showRemoved(screen, profile, isEnded)
}

/** Other logins of this machine that ended with it; those of other people go on. */
async function endedLogins(shell: Shell, { url }: Profile): Promise<readonly Profile[]> {
  const logins = readProfiles(shell).profiles.filter((one) => one.isDevice === true && isSameServer(one.url, url))
  const states = await Promise.all(
    logins.map(async (login) => {
      const key = savedKey(shell, login)
      if (key === undefined) return []
      return makeClient({ url, key })
        .call('getMe')
        .then(
          () => [],
          (error: unknown) => (isRefusal(error, 'invalid_key') ? [login] : []),
        )
    }),
  )
  return states.flat()
}

/** True: the key is valid no more. */
async function endKey(client: Client, everywhere = false): Promise<boolean> {
  try {
    await client.call('logOutDevice', { body: { everywhere } })
    return true
  } catch (error) {
    if (isRefusal(error, 'invalid_key') || isRefusal(error, 'expired_key')) return true
    if (isClientError(error)) return false
    throw error
  }
}

function showCaller({ client, keyFrom, profile }: Session, screen: Screen, me: Reply<'getMe'>): void {
  const { account, key, email, role } = me
  const facts = {
    server: client.url,
    account: { id: account.id, name: account.name },
    person: { email, role },
    key: { id: key.publicId, name: key.name, kind: key.kind, scopes: key.scopes, expiresAt: key.expiresAt },
    keyFrom: keyFrom ?? null,
    profile: profile ?? null,
  }
  screen.show(facts, () => [
    ['Server', client.url],
    ['Account', bold(`${account.name} (${account.id})`)],
    ['You', `${email}, ${role}`],
    ['API key', `${key.publicId} "${key.name}", from ${keyFrom ?? 'nowhere'}`],
    ['Scopes', key.scopes.join(', ')],
    ['Ends', key.expiresAt === null ? 'never' : utcTime(key.expiresAt)],
  ])
}
