/** `berth ssh-keys`: what new machines let in. A private key that is named by mistake is not sent anywhere. */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import type { Command } from 'commander'
import { limits } from '../base/limits.ts'
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { chooseOne } from './choice.ts'
import { readStandardInput } from './prompt.ts'
import { fields, table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

type SshKey = Reply<'listSshKeys'>['sshKeys'][number]

const EXAMPLE = 'berth ssh-keys add ~/.ssh/id_ed25519.pub'

export function addSshKeyCommands(program: Command, run: Run, shell: Shell): void {
  const keys = program
    .command('ssh-keys')
    .description('SSH keys that new machines let in')
    .usage(GROUP_USAGE)
    .commandsGroup('Customers:')
  addList(keys, run)
  addAdd(keys, run, shell)
  addRemove(keys, run)
}

function addList(keys: Command, run: Run): void {
  keys
    .command('ls', { isDefault: true })
    .description('the keys that new machines let in')
    .addHelpText('after', '\nExample:\n  berth ssh-keys ls')
    .action(
      run('customer', async ({ client, screen }) => {
        const answer = await client.call('listSshKeys')
        screen.show(answer, () => {
          if (answer.sshKeys.length === 0) return ['There are no SSH keys.', `Add one: ${EXAMPLE}`]
          const rows = answer.sshKeys.map(({ id, name, fingerprint }): Cell[] => [id, name, fingerprint])
          const columns = [
            { title: 'ID' },
            { title: 'NAME', shrink: true },
            { title: 'FINGERPRINT', shrink: true },
          ] as const
          return [...table(screen, columns, rows), '', count(rows.length, 'SSH key')]
        })
      }),
    )
}

function addAdd(keys: Command, run: Run, shell: Shell): void {
  const add = keys
    .command('add')
    .description('let a public key into new machines')
    .argument('<file>', 'a public key, such as ~/.ssh/id_ed25519.pub; - for the standard input')
    .option('-n, --name <name>', 'what it is called (its comment, or the name of the file)')
    .addHelpText('after', `\nExample:\n  ${EXAMPLE} --name laptop`)
  add.action(
    run('customer', async ({ client, screen }, file = '') => {
      const publicKey = await readPublicKey(shell, file)
      const name = add.opts<{ name?: string }>().name ?? nameOf(publicKey, file)
      const made = await client.call('addSshKey', { body: { name, publicKey }, idempotencyKey: randomUUID() })
      screen.show(made, () => [
        ...fields(screen, [
          ['SSH key', `${made.id} "${made.name}"`],
          ['Fingerprint', made.fingerprint],
        ]),
        '',
        'Machines that are rented from now on let it in; those that run do not.',
      ])
    }),
  )
}

async function readPublicKey(shell: Shell, file: string): Promise<string> {
  const text = (file === '-' ? await readStandardInput() : shell.readFile(file))?.trim()
  if (text === undefined || text === '') {
    throw new CliError(exitCodes.usage, `There is no key in ${file === '-' ? 'the standard input' : file}.`, [
      `Such as: ${EXAMPLE}`,
      'Without a key yet, make one: ssh-keygen -t ed25519',
    ])
  }
  if (text.includes('PRIVATE KEY')) {
    throw new CliError(exitCodes.usage, `${file} is a private key. It was not sent.`, [
      `Its public half is the one to add: ${file === '-' ? EXAMPLE : `berth ssh-keys add ${file}.pub`}`,
    ])
  }
  return text
}

/** A key's comment is mostly who made it, and where. */
function nameOf(publicKey: string, file: string): string {
  const comment = /^\S+ +\S+ +(\S.*)$/m.exec(publicKey)?.[1]?.trim()
  const name = comment ?? (file === '-' ? 'key' : path.basename(file, '.pub'))
  return name.slice(0, limits.nameChars)
}

function addRemove(keys: Command, run: Run): void {
  keys
    .command('rm')
    .description('take a key away; machines that run keep it')
    .argument('<key>', 'its id or name, as berth ssh-keys ls shows it')
    .addHelpText('after', '\nExample:\n  berth ssh-keys rm laptop')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { sshKeys } = await client.call('listSshKeys')
        const by = { idOf: (key: SshKey) => key.id, nameOf: (key: SshKey) => key.name }
        const { id, name } = chooseOne(sshKeys, wanted, by, { noun: 'SSH key', list: 'berth ssh-keys ls' })
        await client.call('deleteSshKey', { params: { id } })
        screen.show({ id, name, deleted: true }, () => [`${id} "${name}" is gone. Machines that run keep it.`])
      }),
    )
}
