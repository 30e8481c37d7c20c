/** `berth agent`: puts this machine on sale, and tells what it does there. Running it is in agent-run.ts. */
import path from 'node:path'
import type { Command } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import type { AgentStatus } from '../agent/agent.ts'
import type { Move } from '../agent/connection.ts'
import { askControl } from '../agent/control.ts'
import type { AgentFolder } from '../agent/folder.ts'
import { readHardware } from '../agent/hardware.ts'
import { openKey } from '../agent/identity.ts'
import type { HostState } from '../agent/move.ts'
import { makeOffer } from '../agent/offer.ts'
import { folderOf, forget, gpusOf, joinedOf, shownMembership, telling } from './agent-folder.ts'
import { addFolderOption, addTermsOptions, termsOf, type FolderOptions, type TermsOptions } from './agent-option.ts'
import { addJoinCommand, addRunCommand } from './agent-run.ts'
import { offerWords, stateWords } from './agent-words.ts'
import { fields, type Cell, type Screen } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export function addAgentCommands(program: Command, run: Run, shell: Shell): void {
  const agent = program
    .command('agent')
    .description('put this machine on sale')
    .usage(GROUP_USAGE)
    .commandsGroup('Suppliers:')
  addJoinCommand(agent, run)
  addRunCommand(agent, run, shell)
  addStatus(agent, run)
  addMove(agent, run, 'drain', 'draining', 'take no more tenants')
  addMove(agent, run, 'resume', 'ready', 'take tenants again')
  addLeave(agent, run)
  addHardware(agent, run)
  addImage(agent, run)
}

function addStatus(agent: Command, run: Run): void {
  const command = addFolderOption(agent.command('status').description('what the agent on this machine does'))
  command.action(
    run('anyone', ({ screen }) =>
      telling(async () => {
        const folder = folderOf(command.opts<FolderOptions>())
        const membership = joinedOf(folder)
        const answer = await askControl(folder, { command: 'status' })
        if (answer === undefined) {
          screen.show({ running: false, ...shownMembership(membership) }, () => [
            `This machine is ${membership.hostId} of ${membership.server}; its agent is not running.`,
            'Start it with: berth agent run',
          ])
          return exitCodes.failed
        }
        const status = answer.value as AgentStatus
        screen.show({ running: true, ...status }, () => statusLines(screen, status))
        return exitCodes.ok
      }),
    ),
  )
}

function statusLines(screen: Screen, status: AgentStatus): string[] {
  const connected: Cell = status.connected ? { text: 'connected', style: 'green' } : { text: 'away', style: 'red' }
  return [
    ...fields(screen, [
      ['Host', status.hostId],
      ['Server', status.server],
      ['Line', connected],
      ['State', status.state === null ? 'not known yet' : stateWords[status.state]],
      ...(status.fault === null ? [] : [['Fault', { text: status.fault.message, style: 'red' }] as [string, Cell]]),
      ['Offer', offerWords(status.offer)],
      ...status.workloads.map((one): [string, string] => [
        'Tenant',
        `${one.tag} ${one.state} ${one.message ?? ''}`.trim(),
      ]),
      ...status.notes.map((note): [string, string] => ['Note', note]),
    ]),
  ]
}

function addMove(agent: Command, run: Run, name: string, to: Move, description: string): void {
  const command = addFolderOption(agent.command(name).description(description))
  command.action(
    run('anyone', ({ screen }) =>
      telling(async () => {
        const folder = folderOf(command.opts<FolderOptions>())
        const state = await move(folder, to)
        screen.show({ state }, () => [stateWords[state]])
      }),
    ),
  )
}

function addLeave(agent: Command, run: Run): void {
  const command = addFolderOption(
    agent.command('leave').description('take this machine off the server for good'),
  ).option('--forget', 'forget the server without asking it')
  command.action(
    run('anyone', ({ screen }) =>
      telling(async () => {
        const options = command.opts<FolderOptions & { forget?: true }>()
        const folder = folderOf(options)
        const { hostId, server } = joinedOf(folder)
        if (options.forget === true) await checkStopped(folder)
        else await move(folder, 'left')
        forget(folder)
        screen.show({ state: 'left', hostId, server }, () => [`${hostId} has left ${server}.`])
      }),
    ),
  )
}

/** Through the agent that runs; without one, over a connection of our own. */
async function move(folder: AgentFolder, to: Move): Promise<HostState> {
  const membership = joinedOf(folder)
  const answer = await askControl(folder, { command: 'move', to })
  if (answer !== undefined) return (answer.value as { state: HostState }).state
  const { moveDirectly } = await import('../agent/move.ts')
  return moveDirectly(membership, openKey(folder), packageJson.version, to)
}

async function checkStopped(folder: AgentFolder): Promise<void> {
  if ((await askControl(folder, { command: 'status' })) === undefined) return
  throw new CliError(exitCodes.failed, 'The agent is running.', ['Stop it first, or leave without --forget.'])
}

function addHardware(agent: Command, run: Run): void {
  const command = addTermsOptions(agent.command('hardware').description('what this machine would be listed as'))
  command.action(
    run('anyone', ({ screen }) =>
      telling(async () => {
        const options = command.opts<TermsOptions>()
        const terms = termsOf({ price: '0', ...options }, undefined)
        const gpus = gpusOf(terms, options)
        const sight = await gpus.read().finally(() => gpus.close())
        const hardware = readHardware(path.resolve(options.dir ?? '.'))
        const offer = makeOffer(terms, hardware, sight) ?? null
        screen.show({ offer, hardware, gpus: sight.gpus, notes: sight.notes }, () => [
          ...fields(screen, [
            ['CPU', `${hardware.cpuModel}, ${hardware.cpuCores} cores, ${hardware.virtualCores} threads`],
            ['Memory', `${hardware.ramGb} GB`],
            ['Disk', `${hardware.storageGb} GB free`],
            ...sight.gpus.map(({ gpu, problems }, index): [string, Cell] => [
              `GPU ${index}`,
              problems.length === 0
                ? `${gpu.name}, ${gpu.ramMib} MiB, ${gpu.clockMhz} MHz, ${gpu.interface}`
                : { text: `${gpu.name}: ${problems.join('; ')}`, style: 'red' },
            ]),
            ['Driver', sight.driver],
            ['CUDA', sight.cuda],
            ...sight.notes.map((note): [string, string] => ['Note', note]),
          ]),
        ])
      }),
    ),
  )
}

function addImage(agent: Command, run: Run): void {
  const command = addFolderOption(
    agent.command('image').description('build the small image that virtual machines start from'),
  )
  command.action(
    run('anyone', ({ screen }) =>
      telling(async () => {
        const folder = folderOf(command.opts<FolderOptions>())
        const { smallImage } = await import('../agent/engine.ts')
        const never = new AbortController().signal
        const image = await smallImage(folder, (message) => screen.remark(message), never)
        screen.show(image, () => fields(screen, Object.entries(image)))
      }),
    ),
  )
}
