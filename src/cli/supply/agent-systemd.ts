/** `berth agent install` and `uninstall`: the agent as a systemd service. */
import path from 'node:path'
import { agentVersion, findInstallation } from '../../agent/installation.ts'
import { readMembership } from '../../agent/identity.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { folderOf, joinedOf, withAgentErrors } from './agent-folder.ts'
import { folderOption, type FolderOptions } from './agent-option.ts'
import { custom } from '../kit/row.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const CONNECT_MS = 60 * SECOND_MS

type InstallOptions = FolderOptions & { readonly print?: true }
type UninstallOptions = FolderOptions & { readonly force?: true }

export const serviceRows: readonly Row[] = [
  custom<InstallOptions>('agent install', 'run the agent as a systemd service', {
    options: { ...folderOption, '--print': 'print the unit file and change nothing' },
    run: (call) => withAgentErrors(() => install(call)),
  }),
  custom<UninstallOptions>('agent uninstall', 'stop and remove the service of the agent', {
    options: { ...folderOption, '--force': 'even if this machine has not left its server' },
    run: (call) => withAgentErrors(() => uninstall(call)),
  }),
]

async function install({ screen, shell, options }: Call<InstallOptions>): Promise<ExitCode> {
  const service = await import('../../agent/systemd.ts')
  const folder = folderOf(options)
  const unit = service.unitText(folder, exitCodes)
  if (options.print === true) {
    shell.write(unit)
    return exitCodes.ok
  }
  joinedOf(folder)
  const why = service.whyNoService()
  if (why !== undefined) {
    const command = service.runWords(folder).join(' ')
    screen.show({ state: 'not_installed', why, command }, () => [
      `The agent was not installed as a service: ${why}.`,
      'Start it with your own supervisor, which starts it again when it fails, or in a shell:',
      `  until ${command}; do sleep 5; done`,
    ])
    return exitCodes.ok
  }
  await service.installService(unit)
  const { waitConnected } = await import('../../agent/update.ts')
  if (!(await waitConnected(folder, agentVersion(), CONNECT_MS))) {
    throw new CliError(exitCodes.failed, 'The service was started, but the agent is not connected to its server.', [
      `See its log: journalctl -u ${service.UNIT}`,
    ])
  }
  screen.show({ state: 'installed', unit: service.UNIT_FILE }, () => [
    `The agent runs as the service ${service.UNIT} and is connected.`,
    'To see what it does: berth agent status',
  ])
  return exitCodes.ok
}

async function uninstall({ screen, options }: Call<UninstallOptions>): Promise<void> {
  const { removeService, UNIT } = await import('../../agent/systemd.ts')
  const folder = folderOf(options)
  const membership = readMembership(folder)
  if (membership !== undefined && options.force !== true) {
    throw new CliError(exitCodes.failed, `This machine is still ${membership.hostId} at ${membership.server}.`, [
      'Leave first: berth agent leave. Or add --force to only remove the service.',
    ])
  }
  const isRemoved = await removeService()
  const remaining = [folder.dir, findInstallation()?.prefix]
    .filter((one) => one !== undefined)
    .map((one) => path.resolve(one))
  screen.show({ state: isRemoved ? 'uninstalled' : 'not_installed', left: remaining }, () => [
    isRemoved ? `Removed the service ${UNIT}. Machines keep running.` : `There is no service ${UNIT}.`,
    `To remove the rest: rm -r ${remaining.join(' ')}`,
  ])
}
