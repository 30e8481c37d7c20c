/** `berth ssh-config` and `berth pools`: the account's machines for programs that log in by SSH themselves. */
import os from 'node:os'
import path from 'node:path'
import type { Client } from '../../client/client.ts'
import { count } from '../../view/number.ts'
import { machineOf, type OwnMachine } from '../../view/own-machine.ts'
import { custom } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import { poolFormats, poolMachines, renderPool, type PoolFormat } from './machine-pool.ts'
import { IDENTITY } from './remote.ts'
import { demoIdentity } from './ssh-command.ts'
import { hostsOf, removeSshFiles, renderConfig, writeSshFiles, aliasOf } from './ssh-config-file.ts'

interface ConfigOptions {
  readonly identity?: string
  readonly print?: true
  readonly remove?: true
}

interface PoolOptions {
  readonly identity?: string
  readonly name: string
}

const POOL_NAME = /^[a-z][a-z0-9-]{0,39}$/

export const rows: readonly Row[] = [
  custom<ConfigOptions>('ssh-config', 'let ssh, scp and editors reach your machines by name', {
    who: 'customer',
    options: {
      '--print': 'print the file instead of writing it',
      '--remove': { help: 'remove what it has written', conflicts: ['print'] },
      [IDENTITY]: 'private key to log in with',
    },
    run: async ({ session, client, shell, screen, options }) => {
      const folder = sshFolder(shell)
      if (options.remove === true) {
        removeSshFiles(folder)
        return screen.show({ removed: true }, () => ['Removed.'])
      }
      const identity = identityOf(options.identity) ?? demoKey(demoIdentity(session, shell))
      const hosts = hostsOf(await readMachines(client))
      if (options.print === true) return shell.write(renderConfig(hosts, identity))
      const { file, isIncluded } = writeSshFiles(folder, hosts, identity)
      const aliases = hosts.map(({ name }) => aliasOf(name))
      screen.show({ file, hosts: aliases, included: isIncluded }, () => [
        `Wrote ${count(hosts.length, 'machine')} to ${file}.`,
        ...(isIncluded ? [`Added an Include line to ${path.join(folder, 'config')}.`] : []),
        ...(aliases[0] === undefined ? [] : [`To log in: ssh ${aliases[0]}`]),
      ])
    },
    notes:
      'Writes ~/.ssh/berth_config with a Host berth-NAME for each machine that can be\nreached, and one Include line to ~/.ssh/config. Run it again after renting or\nterminating: machines that have ended are removed.',
    examples: ['berth ssh-config', 'berth ssh-config -i ~/.ssh/work', 'berth ssh-config --remove'],
  }),
  custom<PoolOptions>('pools', 'print your machines as a node pool of SkyPilot or a fleet of dstack', {
    who: 'customer',
    args: {
      '<format>': { help: 'scheduler', choices: poolFormats },
      '[machines...]': 'names of the machines; default: all virtual machines and bare metal that run',
    },
    options: {
      '--name <name>': { help: 'name of the pool', default: 'berth' },
      [IDENTITY]: 'private key to log in with; for dstack',
    },
    run: async ({ client, shell, options, args }) => {
      const format = args[0] as PoolFormat
      const names = (args[1] ?? []) as readonly string[]
      if (!POOL_NAME.test(options.name)) {
        throw new CliError(exitCodes.usage, 'The name of a pool has lowercase letters, digits and hyphens.')
      }
      const machines = poolMachines(await readMachines(client))
      const missing = names.find((name) => !machines.some((machine) => machine.name === name))
      if (missing !== undefined) {
        throw new CliError(exitCodes.failed, `There is no virtual machine or bare metal ${missing} that runs.`, [
          'To list them: berth ls',
        ])
      }
      const chosen = names.length === 0 ? machines : machines.filter(({ name }) => names.includes(name))
      if (chosen.length === 0) {
        throw new CliError(exitCodes.failed, 'No virtual machine and no bare metal of yours runs.', [
          'Containers cannot be nodes: these schedulers need root on the machine.',
        ])
      }
      shell.write(renderPool(format, options.name, chosen, identityOf(options.identity)))
    },
    notes: 'The pool of SkyPilot uses the names of berth ssh-config: run that first.',
    examples: [
      'berth pools skypilot > ~/.sky/ssh_node_pools.yaml',
      'berth pools dstack -i ~/.ssh/id_ed25519 > fleet.dstack.yml',
    ],
  }),
]

function sshFolder({ env }: Shell): string {
  return path.join(env['HOME'] ?? os.homedir(), '.ssh')
}

/** In a file that is read from anywhere, a relative path would name another file. */
function identityOf(file: string | undefined): string | undefined {
  if (file === undefined || file.startsWith('~')) return file
  return checked(path.resolve(file))
}

function demoKey(file: string | undefined): string | undefined {
  return file === undefined ? undefined : checked(path.resolve(file))
}

function checked(file: string): string {
  // ssh has no way to write them in a quoted word.
  if (!/["\n]/.test(file)) return file
  throw new CliError(exitCodes.usage, 'The path of the key has a character that ssh cannot read in its configuration.')
}

async function readMachines(client: Client): Promise<OwnMachine[]> {
  const machines: OwnMachine[] = []
  let cursor: string | undefined
  do {
    const page = await client.call('listRentals', { query: cursor === undefined ? {} : { cursor } })
    machines.push(...page.rentals.map(machineOf))
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined)
  return machines
}
