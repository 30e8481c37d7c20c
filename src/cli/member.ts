/** `berth members`: people of the account. Owners add them; a viewer's keys only read. */
import { randomUUID } from 'node:crypto'
import { Argument, Option, type Command } from 'commander'
import type { Role } from '../contract/account.ts'
import type { Client, Reply } from '../client/client.ts'
import { utcTime } from '../view/time.ts'
import { chooseOne } from './choice.ts'
import { table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'

type Member = Reply<'listMembers'>['members'][number]

const roles = ['owner', 'member', 'viewer'] as const satisfies readonly Role[]
const DATE_CHARS = 10
const WHO = 'their id or email, as berth members ls shows it'

export function addMemberCommands(program: Command, run: Run): void {
  const members = program
    .command('members')
    .description('people of the account')
    .usage(GROUP_USAGE)
    .commandsGroup('Customers:')
  addList(members, run)
  addAdd(members, run)
  addRole(members, run)
  addRemove(members, run)
}

function addList(members: Command, run: Run): void {
  members
    .command('ls', { isDefault: true })
    .description('people of the account, and their roles')
    .addHelpText('after', '\nExample:\n  berth members ls')
    .action(
      run('customer', async ({ client, screen }) => {
        const answer = await client.call('listMembers')
        const rows = answer.members.map((one): Cell[] => [
          one.id,
          one.email,
          one.role,
          utcTime(one.createdAt).slice(0, DATE_CHARS),
        ])
        const columns = [
          { title: 'ID' },
          { title: 'EMAIL', shrink: true },
          { title: 'ROLE' },
          { title: 'SINCE' },
        ] as const
        screen.show(answer, () => [
          ...table(screen, columns, rows),
          '',
          rows.length === 1 ? '1 person' : `${rows.length} people`,
        ])
      }),
    )
}

function addAdd(members: Command, run: Run): void {
  const add = members
    .command('add')
    .description('add a person (owners only)')
    .argument('<email>', 'who it is')
    .addOption(new Option('-r, --role <role>', 'what they may do').choices(roles).default('member'))
    .option('-n, --name <name>', 'their name')
    .addHelpText('after', '\nExample:\n  berth members add second@example.com --role viewer')
  add.action(
    run('customer', async ({ client, screen }, email = '') => {
      const { role, name } = add.opts<{ role: Role; name?: string }>()
      const body = { email, role, ...(name === undefined ? {} : { name }) }
      const made = await client.call('addMember', { body, idempotencyKey: randomUUID() })
      screen.show(made, () => [`${made.email} is ${made.role === 'owner' ? 'an' : 'a'} ${made.role} now (${made.id}).`])
    }),
  )
}

function addRole(members: Command, run: Run): void {
  members
    .command('role')
    .description('change what a person may do (owners only)')
    .argument('<person>', WHO)
    .addArgument(new Argument('<role>', 'the new role').choices(roles))
    .addHelpText('after', '\nExample:\n  berth members role second@example.com owner')
    .action(
      run('customer', async ({ client, screen }, wanted = '', role = '') => {
        const { id } = await findMember(client, wanted)
        const changed = await client.call('changeMember', { params: { id }, body: { role: role as Role } })
        screen.show(changed, () => [`${changed.email} is ${role === 'owner' ? 'an' : 'a'} ${role} now.`])
      }),
    )
}

function addRemove(members: Command, run: Run): void {
  members
    .command('rm')
    .description('remove a person and revoke their keys (owners only)')
    .argument('<person>', WHO)
    .addHelpText('after', '\nExample:\n  berth members rm second@example.com')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { id, email } = await findMember(client, wanted)
        await client.call('removeMember', { params: { id } })
        screen.show({ id, email, removed: true }, () => [
          `${email} is no longer in the account; their keys are revoked.`,
        ])
      }),
    )
}

/** By id or e-mail address. */
export async function findMember(client: Client, wanted: string): Promise<Member> {
  const { members } = await client.call('listMembers')
  const by = { idOf: (one: Member) => one.id, nameOf: (one: Member) => one.email }
  return chooseOne(members, wanted, by, { noun: 'person', list: 'berth members ls' })
}
