/** `berth secrets` and `berth registries`. Values come from standard input or a hidden question, never from arguments. */
import { parserOf } from '../kit/flag.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { act, list, withBody } from '../kit/row.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Row } from '../kit/row-type.ts'

const registry = targetOf('registry login', 'berth registries ls', {
  read: async (client) => (await client.call('listRegistryCredentials')).registryCredentials,
  id: 'id',
  name: 'name',
})

export const rows: readonly Row[] = [
  list('secrets ls', 'listSecrets', 'list the names of secrets', {
    columns: ['name', 'rentals:USED BY', 'updatedAt:CHANGED'],
    empty: 'To add one: berth secrets set NAME',
    hint: 'In an order: {{ secrets.NAME }}, or berth rent --secret-env NAME',
  }),
  act('secrets set', 'setSecret', 'create a secret or replace its value; asks for it, or reads standard input', {
    args: {
      '<name>': { help: 'letters, digits, _ and -, starting with a letter or _', field: 'name', parse: parseName },
    },
    only: [],
    prepare: async (call) => withBody(call.input, { value: await readHidden(call, 'Value') }),
    examples: ['berth secrets set HF_TOKEN', 'berth secrets set HF_TOKEN < token.txt'],
    done: ({ name, rentals }) => [
      `Saved ${name}.`,
      rentals.length === 0 ? undefined : `Rental ${rentals.join(', ')} keeps the value that it was created with.`,
    ],
  }),
  act('secrets rm', 'deleteSecret', 'delete a secret that no rental refers to', {
    args: { '<name>': 'name, as shown by berth secrets ls' },
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
  }),
  list('registries ls', 'listRegistryCredentials', 'list registry logins', {
    noun: 'registry login',
    columns: ['id', 'name', 'server', 'username', 'createdAt'],
    empty: 'To add one: berth registries create NAME --server HOST --username USER',
    hint: 'To use one: berth rent --registry ID',
  }),
  act('registries create', 'addRegistryCredential', 'add a login for private images; asks for the password', {
    args: { '<name>': 'your own name for it' },
    only: ['server', 'username'],
    flags: { server: 'host of the registry, as in the names of its images', username: 'user name' },
    prepare: async (call) => withBody(call.input, { password: await readHidden(call, 'Password or access token') }),
    examples: ['berth registries create team --server reg.example.com --username ada'],
    done: ({ id, name }) => [`Added ${name}: ${id}.`, `To use it: berth rent --registry ${id}`],
  }),
  act('registries rm', 'deleteRegistryCredential', 'delete a registry login that no rental uses', {
    target: registry,
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
  }),
]

const readName = parserOf(fieldOf('setSecret', 'name'))

/** Rejects `NAME=value` without a word of the value: arguments show in the shell's history and in the list of processes. */
function parseName(text: string): unknown {
  const at = text.indexOf('=')
  if (at < 0) return readName(text)
  const name = text.slice(0, at)
  const safeName = /^[A-Za-z_][\w-]{0,99}$/.test(name) ? name : 'NAME'
  throw new CliError(exitCodes.usage, 'Do not put the value of a secret on the command line: nothing was saved.', [
    `To be asked for it: berth secrets set ${safeName}`,
    `From a file: berth secrets set ${safeName} < file`,
    'Your shell may have saved the value in its history.',
  ])
}

/** Drops the line break that `echo` and editors add. */
async function readHidden({ shell }: Call, question: string): Promise<string> {
  const text = shell.person === undefined ? shell.readInput() : await shell.person.ask(question, { hidden: true })
  const value = text?.replace(/\r?\n$/, '') ?? ''
  if (value === '') throw new CliError(exitCodes.usage, `${question} is missing: nothing was changed.`)
  return value
}
