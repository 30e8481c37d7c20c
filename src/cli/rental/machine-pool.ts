/** The account's machines as a pool of another scheduler. Both log in by SSH and need root. */
import type { Ssh } from '../../view/own-machine.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { aliasOf } from './ssh-config-file.ts'

export const poolFormats = ['skypilot', 'dstack'] as const
export type PoolFormat = (typeof poolFormats)[number]

/** SkyPilot and dstack install a container engine, so a container cannot be a node. */
export function poolMachines(machines: readonly OwnMachine[]): PoolMachine[] {
  return machines.flatMap(({ kind, name, ssh }) => (kind === 'container' || ssh === undefined ? [] : [{ name, ssh }]))
}

export interface PoolMachine {
  readonly name: string
  readonly ssh: Ssh
}

export function renderPool(
  format: PoolFormat,
  pool: string,
  machines: readonly PoolMachine[],
  identity: string | undefined,
): string {
  const lines =
    format === 'skypilot' ? skypilot(pool, machines) : dstack(pool, machines, identity ?? '~/.ssh/id_ed25519')
  return `${lines.join('\n')}\n`
}

/** Hosts are names of the SSH configuration: node pools have no field for a port. */
function skypilot(pool: string, machines: readonly PoolMachine[]): string[] {
  return [`${pool}:`, '  hosts:', ...machines.map(({ name }) => `    - ${aliasOf(name)}`)]
}

function dstack(pool: string, machines: readonly PoolMachine[], identity: string): string[] {
  return [
    'type: fleet',
    `name: ${pool}`,
    'ssh_config:',
    `  identity_file: ${JSON.stringify(identity)}`,
    '  hosts:',
    ...machines.flatMap(({ ssh }) => [
      `    - hostname: ${JSON.stringify(ssh.host)}`,
      `      port: ${ssh.port}`,
      `      user: ${JSON.stringify(ssh.user)}`,
    ]),
  ]
}
