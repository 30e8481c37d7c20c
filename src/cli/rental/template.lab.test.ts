/** On the server's machine, where the keys of the demo account and of the operator are both at hand. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
beforeAll(async () => {
  cli = await startCliTest()
})
afterAll(() => cli.close())

/** Without a named key or profile: the command finds both keys in the data folder. */
const here = (...args: string[]) => cli.berth(args, { BERTH_DATA_DIR: cli.server.dataDir, BERTH_KEY: '' })

test('a customer’s command uses the customer’s key, and says which account it created something in (issue 31, 10)', async () => {
  const created = await here('templates', 'create', 'Mine')
  expect(created.code).toBe(0)
  const me = (await cli.server.demo('GET', '/v2/users/me')).body
  expect(created.error).toContain(`Account: ${me.account.name} (${me.account.id}) at ${cli.server.url}`)
  const { templates } = (await cli.server.demo('GET', '/v2/templates')).body
  expect(templates.map(({ name }: { name: string }) => name)).toContain('Mine')
  expect((await here('templates', 'ls')).out).toContain('Mine')
})

test('an operator’s template is created with the operator’s key, and a named key needs no remark (issue 31, 10)', async () => {
  expect((await here('templates', 'create', 'Ours', '--for-everyone')).code).toBe(0)
  const { templates } = (await cli.server.demo('GET', '/v2/templates')).body
  expect(templates).toContainEqual(expect.objectContaining({ name: 'Ours', owner: 'operator' }))
  const env = { BERTH_DATA_DIR: cli.server.dataDir, BERTH_KEY: cli.server.demoKey }
  const named = await cli.berth(['templates', 'create', 'Named'], env)
  expect([named.code, named.error]).toEqual([0, ''])
})
