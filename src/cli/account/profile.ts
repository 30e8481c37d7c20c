/** `berth profiles` and `berth accounts`: the logins of this machine. No command prints their keys. */
import { utcDay } from '../../view/time.ts'
import {
  deleteProfile,
  noProfile,
  parseProfileName,
  readProfiles,
  writeProfiles,
  type Profile,
} from '../kit/profile.ts'
import { tableOf } from '../kit/record.ts'
import { custom } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'
import { makeScreen, toned, type Screen } from '../kit/screen.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import type { GlobalOptions } from '../rental/session.ts'

const NAME = { '<name>': { help: 'name, as shown by berth profiles ls', parse: parseProfileName } }

export const rows: readonly Row[] = [
  custom<GlobalOptions>('profiles ls', 'list profiles', {
    isOffline: true,
    run: async ({ shell, options }) => showProfiles(shell, screenOf(shell, options)),
  }),
  custom<GlobalOptions>('profiles use', 'switch to a profile', {
    isOffline: true,
    args: NAME,
    run: async ({ shell, options, args }) => use(shell, screenOf(shell, options), profileNamed(shell, String(args[0]))),
    examples: ['berth profiles use work'],
  }),
  custom<GlobalOptions>('profiles rm', 'delete a profile and its API key', {
    isOffline: true,
    args: NAME,
    run: async ({ shell, options, args }) => {
      const profile = profileNamed(shell, String(args[0]))
      deleteProfile(shell, profile)
      showRemoved(screenOf(shell, options), profile)
    },
    examples: ['berth profiles rm work'],
  }),
  custom<GlobalOptions>('accounts ls', 'list the accounts that you are logged in to', {
    isOffline: true,
    run: async ({ shell, options }) => showAccounts(shell, screenOf(shell, options)),
    notes: 'A login is for one account. To log in to another one: berth login',
  }),
  custom<GlobalOptions>('accounts use', 'switch to another account', {
    isOffline: true,
    args: { '<account>': 'its name or id, as shown by berth accounts ls' },
    run: async ({ shell, options, args }) => use(shell, screenOf(shell, options), accountNamed(shell, String(args[0]))),
    examples: ['berth accounts use "Example Lab"', 'berth accounts use acc_4YtC2sWm0kTq8rBv1nXz'],
  }),
]

export function screenOf(shell: Shell, { json }: GlobalOptions): Screen {
  return makeScreen(shell, json === true)
}

export function profileNamed(shell: Shell, name: string): Profile {
  const profile = readProfiles(shell).profiles.find((one) => one.name === name)
  if (profile === undefined) throw noProfile(name)
  return profile
}

function accountNamed(shell: Shell, text: string): Profile {
  const { profiles } = readProfiles(shell)
  const [only, ...others] = profiles.filter(({ account, accountId }) => account === text || accountId === text)
  if (only === undefined) {
    throw new CliError(exitCodes.failed, `You are not logged in to an account ${text} here.`, [
      'To list your logins: berth accounts ls',
      'To log in to another account: berth login',
    ])
  }
  if (others.length === 0) return only
  throw new CliError(
    exitCodes.usage,
    `There is more than one login for ${text}.`,
    [only, ...others].map(({ name, url }) => `berth profiles use ${name}  (${url})`),
  )
}

function use(shell: Shell, screen: Screen, profile: Profile): void {
  const { name, account, url } = profile
  writeProfiles(shell, { current: name, profiles: readProfiles(shell).profiles })
  screen.show(toRow(profile, name), () => [`Using ${name}: ${account} at ${url}`])
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

function showAccounts(shell: Shell, screen: Screen): void {
  const { current, profiles } = readProfiles(shell)
  screen.show(
    profiles.map((one) => toRow(one, current)),
    () =>
      profiles.length === 0
        ? ['You are not logged in to an account.', 'To log in: berth login --server URL']
        : [
            tableOf(profiles, [
              { '': ({ name }) => (name === current ? toned('good', '*') : '') },
              'account',
              { ID: ({ accountId }) => accountId ?? '' },
              'url:SERVER',
              { ENDS: ({ expiresAt }) => utcDay(expiresAt ?? null) || 'never' },
            ]),
          ],
  )
}

export function showRemoved(screen: Screen, { name, url }: Profile, isEnded = false): void {
  screen.show({ removed: name, url, isEnded }, () => [
    `Deleted the profile ${name} and its API key for ${url}.`,
    isEnded ? 'The key has ended.' : 'The key itself stays valid until it is revoked.',
  ])
}

/** Everything but the key. */
export function toRow({ name, url, account, accountId, scopes, expiresAt }: Profile, current: string | null) {
  return {
    name,
    url,
    account,
    accountId: accountId ?? null,
    scopes,
    expiresAt: expiresAt ?? null,
    current: name === current,
  }
}
