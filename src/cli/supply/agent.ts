/** `berth agent`: offers this machine for rent, and shows what it does. Joining and running are in agent-run.ts. */
import path from 'node:path'
import type { AgentStatus } from '../../agent/agent.ts'
import type { Move } from '../../agent/connection.ts'
import { askControl } from '../../agent/control.ts'
import type { AgentFolder } from '../../agent/folder.ts'
import { readHardware } from '../../agent/hardware.ts'
import { openKey } from '../../agent/identity.ts'
import type { HostState } from '../../agent/move.ts'
import { agentVersion } from '../../agent/installation.ts'
import { makeOffer } from '../../agent/offer.ts'
import { folderOf, forget, gpusOf, joinedOf, shownMembership, withAgentErrors } from './agent-folder.ts'
import { offerLabel, stateLabels } from './agent-label.ts'
import { folderOption, termsOf, termsOptions, type FolderOptions, type TermsOptions } from './agent-option.ts'
import { joinRow, runRow } from './agent-run.ts'
import { serviceRows } from './agent-systemd.ts'
import { updateRow } from './agent-update.ts'
import { custom } from '../kit/row.ts'
import { describeRecord } from '../kit/record.ts'
import { red, toned, type Content, type Fact } from '../kit/screen.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  joinRow,
  runRow,
  custom<FolderOptions>('agent status', 'show the agent on this machine', {
    options: folderOption,
    run: (call) => withAgentErrors(() => showStatus(call)),
  }),
  ...serviceRows,
  updateRow,
  moveRow('drain', 'draining', 'stop accepting new tenants'),
  moveRow('resume', 'ready', 'accept tenants again'),
  custom<FolderOptions & { forget?: true }>('agent leave', 'permanently remove this machine from the server', {
    options: { ...folderOption, '--forget': 'forget the server without contacting it' },
    run: ({ screen, options }) =>
      withAgentErrors(async () => {
        const folder = folderOf(options)
        const { hostId, server } = joinedOf(folder)
        if (options.forget === true) await checkStopped(folder)
        else await move(folder, 'left')
        forget(folder)
        screen.show({ state: 'left', hostId, server }, () => [`${hostId} has left ${server}.`])
      }),
  }),
  custom<TermsOptions>('agent hardware', 'show how this machine would be listed', {
    options: termsOptions,
    run: (call) => withAgentErrors(() => showHardware(call)),
  }),
  custom<FolderOptions>('agent image', 'build the small image that virtual machines boot from', {
    options: folderOption,
    run: ({ screen, options }) =>
      withAgentErrors(async () => {
        const { smallImage } = await import('../../agent/host-runtime.ts')
        const never = new AbortController().signal
        const image = await smallImage(folderOf(options), (message) => screen.remark(message), never)
        screen.show(image, () => describeRecord(image))
      }),
  }),
]

function moveRow(name: string, to: Move, description: string): Row {
  return custom<FolderOptions>(`agent ${name}`, description, {
    options: folderOption,
    run: ({ screen, options }) =>
      withAgentErrors(async () => {
        const state = await move(folderOf(options), to)
        screen.show({ state }, () => [stateLabels[state]])
      }),
  })
}

async function showStatus({ screen, options }: Call<FolderOptions>): Promise<ExitCode> {
  const folder = folderOf(options)
  const membership = joinedOf(folder)
  const answer = await askControl(folder, { command: 'status' })
  if (answer === undefined) {
    screen.show({ running: false, ...shownMembership(membership) }, () => [
      `This machine is ${membership.hostId} on ${membership.server}; its agent is not running.`,
      'To start it: berth agent run',
    ])
    return exitCodes.failed
  }
  const status = answer.value as AgentStatus
  screen.show({ running: true, ...status }, () => describeStatus(status))
  return exitCodes.ok
}

function describeStatus(status: AgentStatus): Content[] {
  return [
    ['Host', status.hostId],
    ['Server', status.server],
    ['Version', status.version],
    ['Connection', status.connected ? toned('good', 'connected') : red('disconnected')],
    ['State', status.state === null ? 'not known yet' : stateLabels[status.state]],
    ['Fault', status.fault === null ? undefined : red(status.fault.message)],
    ['Offer', offerLabel(status.offer)],
    ...status.workloads.map((one): Fact => ['Tenant', `${one.tag} ${one.state} ${one.message ?? ''}`.trim()]),
    ...status.notes.map((note): Fact => ['Note', note]),
  ]
}

/** The running agent passes it on; without one, it goes over a connection of our own. */
async function move(folder: AgentFolder, to: Move): Promise<HostState> {
  const membership = joinedOf(folder)
  const answer = await askControl(folder, { command: 'move', to })
  if (answer !== undefined) return (answer.value as { state: HostState }).state
  const { moveDirectly } = await import('../../agent/move.ts')
  return moveDirectly(membership, openKey(folder), agentVersion(), to)
}

async function checkStopped(folder: AgentFolder): Promise<void> {
  if ((await askControl(folder, { command: 'status' })) === undefined) return
  throw new CliError(exitCodes.failed, 'The agent is running.', ['Stop it first, or run this without --forget.'])
}

async function showHardware({ screen, options }: Call<TermsOptions>): Promise<void> {
  const terms = termsOf({ price: '0', ...options }, undefined)
  const gpus = gpusOf(terms, options)
  const reading = await gpus.read().finally(() => gpus.close())
  const hardware = readHardware(path.resolve(options.dir ?? '.'))
  const offer = makeOffer(terms, hardware, reading) ?? null
  screen.show({ offer, hardware, gpus: reading.gpus, notes: reading.notes }, () => [
    ['CPU', `${hardware.cpuModel}, ${hardware.cpuCores} cores, ${hardware.virtualCores} threads`],
    ['Memory', `${hardware.ramGb} GB`],
    ['Disk', `${hardware.storageGb} GB free`],
    ...reading.gpus.map(({ gpu, problems }, index): Fact => [
      `GPU ${index}`,
      problems.length === 0
        ? `${gpu.name}, ${gpu.ramMib} MiB, ${gpu.clockMhz} MHz, ${gpu.interface}`
        : red(`${gpu.name}: ${problems.join('; ')}`),
    ]),
    ['Driver', reading.driver],
    ['CUDA', reading.cuda],
    ...reading.notes.map((note): Fact => ['Note', note]),
  ])
}
