/**
 * `berth login`, `logout` and `profiles`: keys that are kept. A key is tried on its server before it is, and never
 * printed again.
 */
import type { Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { explain } from './failure.ts'
import { isProfileName, noProfile, parseProfileName, readProfiles, writeProfiles, type Profile } from './profile.ts'
import { askFor } from './question.ts'
import { fields, makeScreen, table, type Cell, type Screen } from './screen.ts'
import { DEFAULT_URL, GROUP_USAGE, isLocal, sessionWith, type GlobalOptions, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export function addProfileCommands(program: Command, _run: Run, shell: Shell): void {
  const screenOf = (command: Command): Screen =>
    makeScreen(shell, command.optsWithGlobals<GlobalOptions>().json === true)
  addLogin(program, shell, screenOf)
  const logout = program
    .command('logout')
    .description('forget the key of a profile')
    .action(() => {
      const wanted = logout.optsWithGlobals<GlobalOptions>().profile ?? (shell.env['BERTH_PROFILE'] || undefined)
      const name = wanted ?? readProfiles(shell).current
      if (name === null) {
        throw new CliError(exitCodes.failed, 'No profile is in use, so there is nothing to log out of.', [
          'berth profiles ls lists them.',
        ])
      }
      forget(shell, screenOf(logout), name)
    })
  const profiles = program.command('profiles').description('servers that you are logged in to').usage(GROUP_USAGE)
  profiles.commandsGroup('Server:')
  const list = profiles
    .command('ls', { isDefault: true })
    .description('list the profiles')
    .action(() => showProfiles(shell, screenOf(list)))
  const use = profiles
    .command('use')
    .description('use this profile from now on')
    .argument('<name>', 'as berth profiles ls shows it', parseProfileName)
    .action((name: string) => {
      const { profiles: all } = readProfiles(shell)
      const profile = all.find((one) => one.name === name)
      if (profile === undefined) throw noProfile(name)
      writeProfiles(shell, { current: name, profiles: all })
      screenOf(use).show(shown(profile, name), () => [`Using ${name}: ${profile.account} at ${profile.url}`])
    })
  const remove = profiles
    .command('rm')
    .description('remove a profile and its key')
    .argument('<name>', 'as berth profiles ls shows it', parseProfileName)
    .action((name: string) => forget(shell, screenOf(remove), name))
}

function addLogin(program: Command, shell: Shell, screenOf: (command: Command) => Screen): void {
  const login = program
    .command('login')
    .description('keep a key for a server in a profile')
    .option('--server <url>', 'the server (the same as --url)')
  login.action(async () => {
    const options = login.optsWithGlobals<GlobalOptions & { server?: string }>()
    const before = readProfiles(shell)
    const wanted = options.profile ?? (shell.env['BERTH_PROFILE'] || undefined)
    if (wanted !== undefined && !isProfileName(wanted)) {
      throw new CliError(exitCodes.usage, `${wanted} cannot be the name of a profile.`, [
        'Letters, digits, dot, - and _ only, 64 at most.',
      ])
    }
    const url = await chooseServer(shell, options, before.profiles.find(({ name }) => name === wanted)?.url)
    const key = await takeKey(shell, options, url)
    const session = sessionWith(shell, { url, key, who: 'anyone', json: options.json === true })
    const me = await session.client.call('getMe').catch((error: unknown) => {
      throw explain(error, session)
    })
    const name = wanted ?? nameOf(url)
    const profile = { name, url: session.client.url, key: key.text, account: me.account.name, scopes: me.key.scopes }
    const others = before.profiles.filter((one) => one.name !== name)
    const file = writeProfiles(shell, { current: name, profiles: [...others, profile] })
    showLogin(shell, screenOf(login), { profile, me, file })
  })
}

async function chooseServer(
  shell: Shell,
  { server, url }: GlobalOptions & { server?: string },
  before: string | undefined,
): Promise<string> {
  const given = server ?? url ?? before ?? (shell.env['BERTH_URL'] || undefined)
  if (given !== undefined) return given
  if (shell.person === undefined) return DEFAULT_URL
  return askFor(shell.person, 'Server', (text) => text, DEFAULT_URL)
}

/** Typed where nobody sees it, or from a pipe: an option stands in the history of the shell and in the list of processes. */
async function takeKey(
  shell: Shell,
  { key, keyFile }: GlobalOptions,
  url: string,
): Promise<{ text: string; from: string }> {
  if (key !== undefined) return { text: key.trim(), from: '--key' }
  if (keyFile !== undefined) {
    const text = shell.readFile(keyFile)?.trim()
    if (text === undefined) throw new CliError(exitCodes.usage, `The key file ${keyFile} cannot be read.`)
    return { text, from: keyFile }
  }
  const isTyped = shell.person !== undefined
  const text = isTyped
    ? await shell.person.ask(`API key for ${url} (not shown): `, { hidden: true })
    : shell.readInput()?.trim()
  if (text !== undefined && text !== '') return { text, from: isTyped ? 'what was typed' : 'the standard input' }
  throw new CliError(exitCodes.usage, 'No key was given.', [
    'Give one with --key-file, or by a pipe: berth login < key-file',
    isLocal(url)
      ? 'The keys of a server that was started here are in its data folder: .berth/demo.key and .berth/operator.key'
      : 'Ask the operator of that server for a key.',
  ])
}

/** Servers do not take each other's place: the name is that of the host. */
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
  screen.show({ ...shown(profile, profile.name), accountId: me.account.id, keyName: me.key.name, file }, () => [
    ...fields(screen, [
      ['Server', profile.url],
      ['Account', `${me.account.name} (${me.account.id})`],
      ['Key', `"${me.key.name}": ${profile.scopes.join(', ')}`],
      ['Profile', `${profile.name}, in use from now on`],
      ['Kept in', file],
    ]),
  ])
  for (const name of ['BERTH_URL', 'BERTH_KEY']) {
    if ((shell.env[name] ?? '') !== '') screen.remark(`${name} is set, and wins over profiles.`)
  }
}

function showProfiles(shell: Shell, screen: Screen): void {
  const { current, profiles } = readProfiles(shell)
  screen.show(
    profiles.map((one) => shown(one, current)),
    () =>
      profiles.length === 0
        ? ['There are no profiles.', 'Log in to a server with: berth login --server URL']
        : table(
            screen,
            [{ title: '' }, { title: 'NAME' }, { title: 'SERVER', shrink: true }, { title: 'ACCOUNT', shrink: true }],
            profiles.map((one): Cell[] => [
              one.name === current ? { text: '*', style: 'green' } : '',
              one.name,
              one.url,
              one.account,
            ]),
          ),
  )
}

function forget(shell: Shell, screen: Screen, name: string): void {
  const { current, profiles } = readProfiles(shell)
  const profile = profiles.find((one) => one.name === name)
  if (profile === undefined) throw noProfile(name)
  writeProfiles(shell, {
    current: current === name ? null : current,
    profiles: profiles.filter((one) => one !== profile),
  })
  screen.show({ removed: name, url: profile.url }, () => [
    `Removed ${name}, and the key for ${profile.url} with it.`,
    'The key itself stays good until it is revoked.',
  ])
}

/** Everything but the key. */
function shown({ name, url, account, scopes }: Profile, current: string | null) {
  return { name, url, account, scopes, current: name === current }
}
