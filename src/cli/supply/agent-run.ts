/**
 * `berth agent join` and `berth agent run`. For a server on the same machine the latter is enough: it creates a join
 * token with the operator's key in the data folder.
 */
import path from 'node:path'
import type { AgentEnd } from '../../agent/agent.ts'
import type { MakeRuntime } from '../../agent/host-runtime.ts'
import type { AgentFolder } from '../../agent/folder.ts'
import { readHardware } from '../../agent/hardware.ts'
import {
  openKey,
  readMembership,
  writeMembership,
  type AgentTerms,
  type Membership,
  type RunSettings,
} from '../../agent/identity.ts'
import { agentVersion } from '../../agent/installation.ts'
import { makeOffer } from '../../agent/offer.ts'
import { makeClient } from '../../client/client.ts'
import { gpuType } from '../../contract/shared.ts'
import { folderOf, forget, gpusOf, shownMembership, withAgentErrors } from './agent-folder.ts'
import { makeEventText } from './agent-label.ts'
import { termsOf, termsOptions, type TermsOptions } from './agent-option.ts'
import { runOptions, runSettingsOf } from './agent-run-option.ts'
import { sentence } from '../kit/failure.ts'
import { custom } from '../kit/row.ts'
import type { Screen } from '../kit/screen.ts'
import { isLocal, openSession, type Session } from '../rental/session.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

type RunOptions = TermsOptions & RunSettings

export const joinRow: Row = custom<RunOptions & { check?: true }>(
  'agent join',
  'join a server with a join token, without starting the agent',
  {
    options: {
      ...termsOptions,
      '--token <token>': { help: 'join token, from berth supply tokens create', required: true },
      '--check': 'join only if this machine can run tenants',
      ...runOptions,
    },
    run: ({ session, shell, options }) =>
      withAgentErrors(async () => {
        const folder = folderOf(options)
        const before = readMembership(folder)
        if (before !== undefined) throw alreadyJoined(before)
        const settings = runSettingsOf(options, undefined)
        if (options.check === true) await openRuntime(folder, termsOf(options, undefined), settings, shell)
        const membership = await joinWith(folder, serverOf(options, session), options.token ?? '', options, settings)
        session.screen.show(shownMembership(membership), () => [
          `Joined ${membership.server} as ${membership.hostId}.`,
          'To put it on sale, start the agent: berth agent run',
        ])
      }),
    examples: ['berth agent join --server https://gpu.example.com --token TOKEN --price 1.99'],
  },
)

export const runRow: Row = custom<RunOptions>('agent run', 'run the agent; joins a local server automatically', {
  options: { ...termsOptions, '--token <token>': 'join token, if it has not joined yet', ...runOptions },
  run: (call) => withAgentErrors(() => runTheAgent(call)),
  examples: ['berth agent run', 'berth agent run --simulate-gpus h100:8 --price 0.10'],
})

async function runTheAgent({ session, shell, options }: Call<RunOptions>): Promise<ExitCode> {
  const { screen } = session
  const folder = folderOf(options)
  const savedMembership = readMembership(folder)
  const terms = termsOf(options, savedMembership?.terms)
  const settings = runSettingsOf(options, savedMembership?.run)
  const { runAgent } = await import('../../agent/agent.ts')
  // This comes before it joins: a machine that cannot run anything is not put on sale.
  const makeRuntime = await openRuntime(folder, terms, settings, shell)
  const membership = await memberOf(folder, options, settings, session, shell)
  screen.remark(`This machine is ${membership.hostId}; its folder is ${folder.dir}.`)
  const eventText = makeEventText(membership.server)
  const end = await untilStopped((signal) =>
    runAgent({
      folder,
      membership,
      version: agentVersion(),
      gpus: gpusOf(membership.terms, settings, folder),
      makeRuntime,
      onEvent: (event) => screen.showLine(event, () => eventText(event)),
      signal,
    }),
  )
  return reportEnd(end, folder, screen)
}

async function openRuntime(
  folder: AgentFolder,
  { offering, simulated }: AgentTerms,
  settings: RunSettings,
  shell: Shell,
): Promise<MakeRuntime> {
  // The runtimes are large, and no other command needs them.
  const { prepareRuntime } = await import('../../agent/host-runtime.ts')
  return prepareRuntime({
    offering,
    isSimulated: simulated !== null,
    folder,
    socket: {
      named: settings.dockerSocket,
      dockerHost: shell.env['DOCKER_HOST'],
      runtimeDir: shell.env['XDG_RUNTIME_DIR'],
    },
    settings,
  })
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

function reportEnd(end: AgentEnd, folder: AgentFolder, screen: Screen): ExitCode {
  switch (end.kind) {
    case 'stopped':
      screen.remark('The agent has stopped. Machines keep running.')
      return exitCodes.ok
    case 'restart':
      screen.remark('The agent stops to be started again with another version. Machines keep running.')
      return exitCodes.restart
    case 'left':
      forget(folder)
      return exitCodes.ok
    case 'refused':
      throw new CliError(exitCodes.refused, sentence(end.refusal.message), [
        'To forget that server and join another: berth agent leave --forget',
      ])
  }
}

/** The saved membership, or a new one by joining now. */
async function memberOf(
  folder: AgentFolder,
  options: TermsOptions,
  run: RunSettings,
  session: Session,
  shell: Shell,
): Promise<Membership> {
  const savedMembership = readMembership(folder)
  const server = serverOf(options, session)
  if (savedMembership !== undefined) {
    if (options.server !== undefined && options.server !== savedMembership.server) {
      throw alreadyJoined(savedMembership)
    }
    const now = { ...savedMembership, terms: termsOf(options, savedMembership.terms), run }
    writeMembership(folder, now)
    return now
  }
  const token = options.token ?? (await tokenFor(server, shell))
  const membership = await joinWith(folder, server, token, options, run)
  session.screen.showLine({ kind: 'joined', ...shownMembership(membership) }, () => `Joined as ${membership.hostId}.`)
  return membership
}

/** Makes a token only for a local server: no key is sent to another without being asked for. */
async function tokenFor(server: string, shell: Shell): Promise<string> {
  if (!isLocal(server)) {
    throw new CliError(exitCodes.usage, 'This machine has not joined a server yet.', [
      `Ask the operator of ${server} for a join token, then: berth agent run --server ${server} --token TOKEN`,
    ])
  }
  // The operator's key of that server even where BERTH_KEY is set: a customer's key cannot create tokens.
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
  const reading = await gpus.read().finally(() => gpus.close())
  const offer = makeOffer(terms, hardware, reading)
  if (offer === undefined) throw noGpu(reading.notes)
  if (offer.offering === 'virtual-machine' && offer.gpuType === null) {
    throw new CliError(exitCodes.failed, `Virtual machines cannot be offered with ${offer.gpuModel}.`, [
      `They have ${gpuType.options.join(', ')}. The marketplace takes any GPU: --offer marketplace`,
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
  return new CliError(exitCodes.failed, `This machine has already joined ${server} as ${hostId}.`, [
    'Leave first with berth agent leave, or use another folder with --dir.',
  ])
}

function noGpu(notes: readonly string[]): CliError {
  return new CliError(exitCodes.failed, ['No GPU was found.', ...notes].join(' '), [
    'To try it without GPUs: --simulate-gpus rtx4090:2',
  ])
}
