/** `berth login`, `logout` and `profiles`. A key is tried on its server before it is saved, and never printed again. */
import type { Reply } from '../../client/client.ts'
import { explain } from '../kit/failure.ts'
import {
  isProfileName,
  noProfile,
  parseProfileName,
  PROFILE_NAME_RULE,
  readProfiles,
  writeProfiles,
  type Profile,
} from '../kit/profile.ts'
import { askFor } from '../kit/question.ts'
import { custom } from '../kit/row.ts'
import { tableOf } from '../kit/record.ts'
import { makeScreen, toned, type Screen } from '../kit/screen.ts'
import { DEFAULT_URL, isLocal, keyIn, sessionWith, type GlobalOptions } from '../rental/session.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

interface LoginOptions extends GlobalOptions {
  readonly server?: string
}

const NAME = { '<name>': { help: 'name, as shown by berth profiles ls', parse: parseProfileName } }

export const rows: readonly Row[] = [
  custom<LoginOptions>('login', 'save the API key for a server in a profile', {
    isOffline: true,
    options: { '--server <url>': 'URL of the server; same as --url' },
    run: logIn,
    examples: ['berth login --server https://gpu.example.com', 'berth login --profile work < key-file'],
  }),
  custom<GlobalOptions>('logout', 'delete a profile and its API key', {
    isOffline: true,
    run: async ({ shell, options }) => {
      const name = options.profile ?? (shell.env['BERTH_PROFILE'] || readProfiles(shell).current)
      if (name === null) {
        throw new CliError(exitCodes.failed, 'You are not logged in: no profile is in use.', [
          'To list profiles: berth profiles ls',
        ])
      }
      removeProfile(shell, screenOf(shell, options), name)
    },
    examples: ['berth logout', 'berth logout --profile work'],
  }),
  custom<GlobalOptions>('profiles ls', 'list profiles', {
    isOffline: true,
    run: async ({ shell, options }) => showProfiles(shell, screenOf(shell, options)),
  }),
  custom<GlobalOptions>('profiles use', 'switch to a profile', {
    isOffline: true,
    args: NAME,
    run: async ({ shell, options, args }) => {
      const name = String(args[0])
      const { profiles } = readProfiles(shell)
      const profile = profiles.find((one) => one.name === name)
      if (profile === undefined) throw noProfile(name)
      writeProfiles(shell, { current: name, profiles })
      screenOf(shell, options).show(toRow(profile, name), () => [`Using ${name}: ${profile.account} at ${profile.url}`])
    },
    examples: ['berth profiles use work'],
  }),
  custom<GlobalOptions>('profiles rm', 'delete a profile and its API key', {
    isOffline: true,
    args: NAME,
    run: async ({ shell, options, args }) => removeProfile(shell, screenOf(shell, options), String(args[0])),
    examples: ['berth profiles rm work'],
  }),
]

function screenOf(shell: Shell, { json }: GlobalOptions): Screen {
  return makeScreen(shell, json === true)
}

async function logIn({ shell, options }: Call<LoginOptions>): Promise<void> {
  const before = readProfiles(shell)
  const profileName = options.profile ?? (shell.env['BERTH_PROFILE'] || undefined)
  if (profileName !== undefined && !isProfileName(profileName)) {
    throw new CliError(exitCodes.usage, `${profileName} is not a valid profile name.`, [PROFILE_NAME_RULE])
  }
  const url = await chooseServer(shell, options, before.profiles.find(({ name }) => name === profileName)?.url)
  const key = keyIn(shell, options) ?? (await askForKey(shell, url))
  const session = sessionWith(shell, { url, key, who: 'anyone', json: options.json === true })
  const me = await session.client.call('getMe').catch((error: unknown) => {
    throw explain(error, session)
  })
  const name = profileName ?? nameOf(url)
  const profile = { name, url: session.client.url, key: key.text, account: me.account.name, scopes: me.key.scopes }
  const others = before.profiles.filter((one) => one.name !== name)
  const file = writeProfiles(shell, { current: name, profiles: [...others, profile] })
  showLogin(shell, session.screen, { profile, me, file })
}

async function chooseServer(
  shell: Shell,
  { server, url }: GlobalOptions & { server?: string },
  before: string | undefined,
): Promise<string> {
  const address = server ?? url ?? before ?? (shell.env['BERTH_URL'] || undefined)
  if (address !== undefined) return address
  if (shell.person === undefined) return DEFAULT_URL
  return askFor(shell.person, 'Server', (text) => text, DEFAULT_URL)
}

/** A key is typed without echo, or comes from a pipe: an option would show in the shell's history and in the list of processes. */
async function askForKey(shell: Shell, url: string): Promise<{ text: string; from: string }> {
  const isTyped = shell.person !== undefined
  const text = isTyped
    ? await shell.person.ask(`API key for ${url} (not shown): `, { hidden: true })
    : shell.readInput()?.trim()
  if (text !== undefined && text !== '') return { text, from: isTyped ? 'the prompt' : 'the standard input' }
  throw new CliError(exitCodes.usage, 'No API key was given.', [
    'Use --key-file, or a pipe: berth login < key-file',
    isLocal(url)
      ? 'The keys of a local server are in its data folder: .berth/demo.key and .berth/operator.key'
      : 'Ask the operator of the server for an API key.',
  ])
}

/** A profile is named after the host, so that two servers never share one. */
function nameOf(url: string): string {
  const { hostname, port } = new URL(url)
  const host = isLocal(url) ? 'local' : hostname.replaceAll(/[^\w.-]/g, '')
  const usual = isLocal(url) ? new URL(DEFAULT_URL).port : ''
  return port === usual ? host : `${host}-${port}`
}

function showLogin(
  shell: Shell,
  screen: Screen,
  { profile, me, file }: { profile: Profile; me: Reply<'getMe'>; file: string },
): void {
  screen.show({ ...toRow(profile, profile.name), accountId: me.account.id, keyName: me.key.name, file }, () => [
    ['Server', profile.url],
    ['Account', `${me.account.name} (${me.account.id})`],
    ['API key', `"${me.key.name}": ${profile.scopes.join(', ')}`],
    ['Profile', `${profile.name} (now in use)`],
    ['Saved in', file],
  ])
  for (const name of ['BERTH_URL', 'BERTH_KEY']) {
    if ((shell.env[name] ?? '') !== '') screen.remark(`${name} is set and overrides the profile.`)
  }
}

function showProfiles(shell: Shell, screen: Screen): void {
  const { current, profiles } = readProfiles(shell)
  screen.show(
    profiles.map((one) => toRow(one, current)),
    () =>
      profiles.length === 0
        ? ['There are no profiles.', 'To log in to a server: berth login --server URL']
        : [
            tableOf(profiles, [
              { '': ({ name }) => (name === current ? toned('good', '*') : '') },
              'name',
              'url:SERVER',
              'account',
            ]),
          ],
  )
}

function removeProfile(shell: Shell, screen: Screen, name: string): void {
  const { current, profiles } = readProfiles(shell)
  const profile = profiles.find((one) => one.name === name)
  if (profile === undefined) throw noProfile(name)
  writeProfiles(shell, {
    current: current === name ? null : current,
    profiles: profiles.filter((one) => one !== profile),
  })
  screen.show({ removed: name, url: profile.url }, () => [
    `Deleted the profile ${name} and its API key for ${profile.url}.`,
    'The key itself stays valid until it is revoked.',
  ])
}

/** Everything but the key. */
function toRow({ name, url, account, scopes }: Profile, current: string | null) {
  return { name, url, account, scopes, current: name === current }
}
