/**
 * The output of `berth` without arguments: one screen with the commands that a newcomer needs, and pointers to the
 * others.
 */
import { paint } from './screen.ts'
import type { Shell } from './shell.ts'

/** A test checks that each command exists. */
export const firstCommands: ReadonlyArray<readonly [command: string, what: string]> = [
  ['login', 'save the API key for a server'],
  ['status', 'show the server, your account and your balance'],
  ['gpus ls', 'list GPUs you can rent, and their prices'],
  ['rent --gpu h100', 'rent a machine; shows the price and asks first'],
  ['ls', 'list your machines'],
  ['ssh NAME', 'log in to a machine'],
  ['cp FILE NAME:/root/', 'copy a file to a machine'],
  ['terminate NAME', 'end a rental, and show what it cost'],
  ['chat "Hello"', 'ask a model'],
  ['balance', 'show what you have, and how long it lasts'],
]

/** A role of `berth help ROLE`, and the title of its part of the help. */
export const helpRoles: Readonly<Record<string, string>> = {
  server: 'Server:',
  customers: 'Customers:',
  customer: 'Customers:',
  suppliers: 'Suppliers:',
  supplier: 'Suppliers:',
  operators: 'Operators:',
  operator: 'Operators:',
}

const others: ReadonlyArray<readonly [command: string, what: string]> = [
  ['help customers', 'machines, models, volumes, billing: all commands'],
  ['help suppliers', 'offer machines for rent'],
  ['help operators', 'run a cloud; `berth serve` starts a server'],
  ['help all', 'every command'],
  ['COMMAND --help', 'the options of a command, with an example'],
]

export function firstScreen(shell: Shell): string {
  const width = Math.max(...[...firstCommands, ...others].map(([command]) => command.length))
  const lines = (rows: typeof others): string[] =>
    rows.map(([command, what]) => `  berth ${command.padEnd(width)}  ${what}`)
  const title = (text: string): string => paint(shell.color.out, 'bold', text)
  return [
    'Berth: GPU machines, volumes and models over one HTTP API.',
    '',
    title('Start here:'),
    ...lines(firstCommands),
    '',
    title('More:'),
    ...lines(others),
    '',
  ].join('\n')
}
