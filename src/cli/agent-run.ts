/**
 * `berth agent join` and `berth agent run`. Beside a server on the same machine nothing has to be typed but the latter:
 * the operator's key in the data folder makes the token that joining takes.
 */
import path from 'node:path'
import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import type { AgentEnd } from '../agent/agent.ts'
import type { AgentFolder } from '../agent/folder.ts'
import { readHardware } from '../agent/hardware.ts'
import { openKey, readMembership, writeMembership, type Membership, type RunSettings } from '../agent/identity.ts'
import { makeOffer } from '../agent/offer.ts'
import { makeClient } from '../client/client.ts'
import { gpuType } from '../contract/shared.ts'
import { folderOf, forget, gpusOf, sentence, shownMembership, telling } from './agent-folder.ts'
import { addTermsOptions, termsOf, type TermsOptions } from './agent-option.ts'
import { addRunOptions, runSettingsOf } from './agent-run-option.ts'
import { eventWords } from './agent-words.ts'
import type { Screen } from './screen.ts'
import { isLocal, openSession, type Run, type Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from './shell.ts'

type RunOptions = TermsOptions & RunSettings

export function addJoinCommand(agent: Command, run: Run): void {
  const join = addTermsOptions(
    agent.command('join').description('join a server with a token, without starting to work'),
  ).requiredOption('--token <token>', 'from the operator, or: POST /v2/supply/join-tokens')
  join.action(
    run('anyone', (session) =>
      telling(async () => {
        const options = join.opts<TermsOptions>()
        const folder = folderOf(options)
        const before = readMembership(folder)
        if (before !== undefined) throw alreadyJoined(before)
        const membership = await joinWith(
          folder,
          serverOf(options, session),
          options.token ?? '',
          options,
          runSettingsOf(options, undefined),
        )
        session.screen.show(shownMembership(membership), () => [
          `Joined ${membership.server} as ${membership.hostId}.`,
          'It is on sale once the agent runs: berth agent run',
        ])
      }),
    ),
  )
}

export function addRunCommand(agent: Command, run: Run, shell: Shell): void {
  const command = addTermsOptions(
    agent.command('run').description('run the agent; joins a server on this machine'),
  ).option('--token <token>', 'joins with it, where it has not joined yet')
  addRunOptions(command)
  command.action(
    run('anyone', (session) =>
      telling(async () => {
        const options = command.opts<RunOptions>()
        const folder = folderOf(options)
        const kept = readMembership(folder)
        const terms = termsOf(options, kept?.terms)
        const settings = runSettingsOf(options, kept?.run)
        // Engines are heavy, and no other command needs them.
        const [{ openEngine }, { runAgent }] = await Promise.all([
          import('../agent/engine.ts'),
          import('../agent/agent.ts'),
        ])
        // Before it joins: what cannot run anything is not put on sale.
        const makeRuntime = await openEngine({
          offering: terms.offering,
          folder,
          socket: {
            named: settings.dockerSocket,
            dockerHost: shell.env['DOCKER_HOST'],
            runtimeDir: shell.env['XDG_RUNTIME_DIR'],
          },
          settings,
        })
        const membership = await memberOf(folder, options, settings, session, shell)
        session.screen.remark(`This machine is ${membership.hostId}; its folder is ${folder.dir}.`)
        const { screen } = session
        const end = await untilStopped((signal) =>
          runAgent({
            folder,
            membership,
            version: packageJson.version,
            gpus: gpusOf(membership.terms, settings, folder),
            makeRuntime,
            tell: (event) => screen.showLine(event, () => eventWords(event, membership.server)),
            signal,
          }),
        )
        return tellEnd(end, folder, screen)
      }),
    ),
  )
}

async function untilStopped(work: (signal: AbortSignal) => Promise<AgentEnd>): Promise<AgentEnd> {
  const control = new AbortController()
  const stop = (): void => control.abort()
  process.once('SIGTERM', stop).once('SIGINT', stop)
  try {
    return await work(control.signal)
  } finally {
    process.off('SIGTERM', stop).off('SIGINT', stop)
  }
}

function tellEnd(end: AgentEnd, folder: AgentFolder, screen: Screen): ExitCode {
  switch (end.kind) {
    case 'stopped':
      screen.remark('The agent has ended. What runs here runs on.')
      return exitCodes.ok
    case 'left':
      forget(folder)
      return exitCodes.ok
    case 'refused':
      throw new CliError(exitCodes.refused, sentence(end.refusal.message), [
        'To forget that server and join one anew: berth agent leave --forget',
      ])
  }
}

/** As it has joined, or by joining now. */
async function memberOf(
  folder: AgentFolder,
  options: TermsOptions,
  run: RunSettings,
  session: Session,
  shell: Shell,
): Promise<Membership> {
  const kept = readMembership(folder)
  const server = serverOf(options, session)
  if (kept !== undefined) {
    if (options.server !== undefined && options.server !== kept.server) {
      throw alreadyJoined(kept)
    }
    const now = { ...kept, terms: termsOf(options, kept.terms), run }
    writeMembership(folder, now)
    return now
  }
  const token = options.token ?? (await tokenFor(server, shell))
  const membership = await joinWith(folder, server, token, options, run)
  session.screen.showLine({ kind: 'joined', ...shownMembership(membership) }, () => `Joined as ${membership.hostId}.`)
  return membership
}

/** Only for a server on this machine: no key is sent to another without being asked for. */
async function tokenFor(server: string, shell: Shell): Promise<string> {
  if (!isLocal(server)) {
    throw new CliError(exitCodes.usage, 'This machine has not joined a server yet.', [
      `Ask the operator of ${server} for a token: berth agent run --server ${server} --token TOKEN`,
    ])
  }
  // The operator's key of that server, whoever else's is at hand: a customer's could not.
  const { BERTH_KEY: _, ...env } = shell.env
  const ownKey = path.join(shell.env.BERTH_DATA_DIR || '.berth', 'operator.key')
  const hasOwn = shell.readFile(ownKey) !== undefined
  const { client } = openSession(hasOwn ? { ...shell, env } : shell, { url: server }, 'operator')
  const { token } = await client.call('createJoinToken', { body: {} })
  return token
}

async function joinWith(
  folder: AgentFolder,
  server: string,
  token: string,
  options: TermsOptions,
  run: RunSettings,
): Promise<Membership> {
  const terms = termsOf(options, undefined)
  const hardware = readHardware(folder.dir)
  const gpus = gpusOf(terms, run, folder)
  const sight = await gpus.read().finally(() => gpus.close())
  const offer = makeOffer(terms, hardware, sight)
  if (offer === undefined) throw noGpu(sight.notes)
  if (offer.offering === 'virtual-machine' && offer.gpuType === null) {
    throw new CliError(exitCodes.failed, `Virtual machines are ordered with other GPUs than ${offer.gpuModel}.`, [
      `With these: ${gpuType.options.join(', ')}. On the marketplace any GPU is sold: --offer marketplace`,
    ])
  }
  const { publicKey } = openKey(folder)
  const name = terms.name === null ? {} : { name: terms.name }
  const { hostId, installation } = await makeClient({ url: server }).call('joinHost', {
    body: { token, publicKey, ...name, offer },
  })
  const membership = {
    server,
    hostId,
    installation,
    terms: { ...terms, name: terms.name ?? hostId },
    storageGb: hardware.storageGb,
    run,
  }
  writeMembership(folder, membership)
  return membership
}

function serverOf(options: TermsOptions, session: Session): string {
  return options.server ?? session.client.url
}

function alreadyJoined({ server, hostId }: Membership): CliError {
  return new CliError(exitCodes.failed, `This machine is ${hostId} of ${server} already.`, [
    'Let it leave there first: berth agent leave; or give another folder with --dir.',
  ])
}

function noGpu(notes: readonly string[]): CliError {
  return new CliError(exitCodes.failed, ['No GPU was found.', ...notes].join(' '), [
    'Some can be declared for trying things out: --simulate-gpus rtx4090:2',
  ])
}
