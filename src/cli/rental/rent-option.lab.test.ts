/** Templates, variables and secrets of an order, and orders like another. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest, type CustomerCli } from '../../../test/lab/cli.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let key: string
let berth: CustomerCli['berth']
let json: CustomerCli['json']
beforeAll(async () => {
  cli = await startCliTest()
  key = (await cli.server.account({ usd: '1000' })).key
  ;({ berth, json } = cli.as(key))
})
afterAll(() => cli.close())

test('orders from a template with variables and secrets, and another like it; exports it as a template', async () => {
  const set = await cli.berth(['secrets', 'set', 'HF_TOKEN'], { BERTH_KEY: key }, { input: 'planted-by-stdin\n' })
  expect({ code: set.code, error: set.error }).toEqual({ code: 0, error: '' })
  const options = ['--env', 'MODE=lab', '--secret-env', 'HF_TOKEN', '--args', "start '--port 1'", '--idle', '30:stop']
  const rented = await json('rent', '--gpu', 'a100', '--template', 'tpl_jupyter', ...options, '--label', 'lab', '--yes')
  const { workload, idle } = await json('show', rented.name)
  expect(workload).toMatchObject({
    templateId: 'tpl_jupyter@1',
    env: { MODE: 'lab', HF_TOKEN: '{{ secrets.HF_TOKEN }}' },
    args: ['start', '--port 1'],
    ports: [{ port: 8888, protocol: 'http', access: 'private' }],
  })
  expect(idle).toMatchObject({ afterMinutes: 30, action: 'stop' })
  expect((await berth('secrets', 'rm', 'HF_TOKEN')).code).not.toBe(0)
  const again = await json('rent', '--like', 'lab', '--label', 'lab-2', '--yes')
  expect((await json('show', again.name)).workload).toEqual({ ...workload, templateId: null })
  expect(await json('export', 'lab-2', '--template')).toMatchObject({ args: ['start', '--port 1'] })
  expect((await berth('export', 'lab-2', '--curl')).out).toContain('/v2/rentals')
  await json('terminate', 'lab', 'lab-2', '--yes')
})

test('a template of another account is shown with the secrets that it asks for, and gets the allowed ones (issue 31, 2)', async () => {
  await cli.berth(['secrets', 'set', 'WANDB'], { BERTH_KEY: key }, { input: 'planted-by-stdin\n' })
  const stranger = await cli.server.account({ usd: '1' })
  const body = { name: 'Shared', visibility: 'link', onStart: 'echo {{ secrets.WANDB }}' }
  const { id } = (await stranger.call('POST', '/v2/templates', body)).body
  expect((await berth('templates', 'show', id)).out).toMatch(/^Secrets +WANDB$/m)
  const order = ['rent', '--gpu', 'a100', '--template', id, '--label', 'shared', '--yes']
  const refused = await berth(...order)
  expect(refused.out + refused.error).toMatch(/asks for WANDB \(not allowed\)/)
  expect(refused.error).toContain('--allow-secret')
  expect(refused.code).not.toBe(0)
  const rented = await json(...order, '--allow-secret', 'WANDB')
  expect((await json('show', rented.name)).workload).toMatchObject({ templateId: `${id}@1` })
  await json('terminate', 'shared', '--yes')
})

test.each([
  ['container', '4090', 'container'],
  ['vm', 'h100', 'virtual-machine'],
])('an ended machine of kind %s is found by id, name and label', async (kind, gpu, kindOnWire) => {
  const label = `late ${kind}`
  const order = ['rent', '--kind', kind, '--gpu', gpu, '--count', '1', '--label', label, '--yes']
  const { id, name } = await json(...order)
  expect((await berth('show', String(id))).out).toMatch(/^Price +\$/m)
  await json('terminate', label, '--yes')
  for (const handle of [String(id), name, label]) {
    await waitFor('it to have ended', async () => (await json('show', handle)).state === 'Terminated')
    expect(await json('show', handle)).toMatchObject({ id, name, label })
    expect(await json('export', handle)).toMatchObject({ order: { kind: kindOnWire } })
    const again = await json('rent', '--like', handle, '--label', 'again', '--yes')
    expect(again).toMatchObject({ kind: kindOnWire, state: 'Running' })
    await json('terminate', again.name, '--yes')
  }
  // The living one comes first, then the one that ended last.
  const other = await json(...order)
  expect(await json('show', label)).toMatchObject({ name: other.name, state: 'Running' })
  await json('terminate', label, '--yes')
  expect(await json('show', label)).toMatchObject({ name: other.name })
})

test('a machine that never was: the hint names both lists', async () => {
  for (const args of [
    ['show', '999'],
    ['export', 'nobody'],
    ['rent', '--like', 'nobody', '--yes'],
  ]) {
    const { code, error } = await berth(...args)
    expect(code).toBe(1)
    expect(error).toContain(`There is no machine ${args.find((word) => /^(999|nobody)$/.test(word))}.`)
    expect(error).toContain('berth ls --ended')
  }
})

test('a bad --env-file: the message has its name and line, not its content', async () => {
  const file = path.join(cli.folder, 'bad.env')
  await writeFile(file, '# comment\nMODE=lab\n\ns3cret-without-a-name\n')
  const { code, out, error } = await berth('rent', '--gpu', '4090', '--env-file', file, '--yes')
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(error).toContain(`Line 4 of ${file} is not NAME=value.`)
  expect(error).not.toContain('s3cret')
})

test('the idle rule is part of the order summary and of berth show', async () => {
  const rented = await berth('rent', '--gpu', '4090', '--idle', '30', '--label', 'idler', '--yes')
  expect({ code: rented.code, error: rented.error }).toEqual({ code: 0, error: '' })
  expect(rented.out).toMatch(/^Idle +stop after 30 minutes$/m)
  expect((await berth('show', 'idler')).out).toMatch(/^Idle +stop after 30 minutes$/m)
  await json('terminate', 'idler', '--yes')
})
