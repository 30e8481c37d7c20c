/** `berth agent update`: to the version of the server, and back when it does not come up. */
import { findInstallation } from '../../agent/installation.ts'
import { readMembership } from '../../agent/identity.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { folderOf, withAgentErrors } from './agent-folder.ts'
import { folderOption, type FolderOptions } from './agent-option.ts'
import { parseWhole } from '../kit/flag.ts'
import { custom } from '../kit/row.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

interface UpdateFlags extends FolderOptions {
  readonly check?: true
  readonly wait: number
}

const WAIT_SECONDS = 60
const MAX_WAIT_SECONDS = 3_600

export const updateRow: Row = custom<UpdateFlags>('agent update', 'update to the version of the server', {
  options: {
    ...folderOption,
    '--check': 'only show whether there is another version; exit code 1 if there is',
    '--wait <seconds>': {
      help: 'go back if the agent is not connected after this long',
      parse: parseWhole(1, MAX_WAIT_SECONDS),
      default: WAIT_SECONDS,
    },
  },
  run: (call) => withAgentErrors(() => update(call)),
  examples: ['berth agent update --check', 'berth agent update'],
})

async function update({ session, screen, options }: Call<UpdateFlags>): Promise<ExitCode> {
  const installation = findInstallation()
  if (installation === undefined) {
    throw new CliError(exitCodes.failed, 'This program was not installed by install.sh, so it cannot update itself.', [
      'Update the checkout or the npm package instead.',
    ])
  }
  const folder = folderOf(options)
  const server = readMembership(folder)?.server ?? session.client.url
  const { readRelease, updateAgent } = await import('../../agent/update.ts')
  const release = await readRelease(server)
  const versions = { server, installed: installation.build, available: release.build }
  if (release.build === installation.build) {
    screen.show({ state: 'current', ...versions }, () => [`${installation.build} is the version of ${server}.`])
    return exitCodes.ok
  }
  if (options.check === true) {
    screen.show({ state: 'outdated', ...versions }, () => [
      `${server} has ${release.build}; this is ${installation.build}.`,
      'To update: berth agent update',
    ])
    return exitCodes.failed
  }
  const progress = (message: string): void => screen.remark(message)
  const waitMs = options.wait * SECOND_MS
  const outcome = await updateAgent({ installation, server, folder, waitMs, progress }, release)
  if (outcome.kind === 'updated') {
    screen.show({ state: 'updated', running: outcome.isRunning, ...versions }, () => [
      outcome.isRunning
        ? `Updated to ${release.build}. The agent is connected.`
        : `Updated to ${release.build}. The agent is not running.`,
    ])
    return exitCodes.ok
  }
  throw new CliError(
    exitCodes.failed,
    `${release.build} did not connect to ${server} within ${options.wait} seconds, so ${installation.build} was put back.`,
    outcome.isRunning
      ? ['The agent runs again with it. See the log of the agent, such as: journalctl -u berth-agent']
      : ['The agent is not running: nothing has started it again. Start it: berth agent run'],
    { state: 'rolled-back', running: outcome.isRunning, ...versions },
  )
}
