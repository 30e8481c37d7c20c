/** Account commands against a real server: keys, SSH keys, members, webhooks and usage. */
import { fail } from '../../contract/result.ts'
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { startReceiver, status, type Receiver } from '../../../test/harness/receiver.ts'
import { testSshKey } from '../../../test/harness/server.ts'
import { waitFor, waitForDayWithTimeLeft } from '../../../test/harness/wait.ts'
import { DAY_MS, formatInstant, instantOf, systemClock } from '../../base/instant.ts'
import { formatUsdForPeople, nanoUsdOf } from '../../base/money.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let receiver: Receiver
let model: TestModel

beforeAll(async () => {
  cli = await startCliTest()
  receiver = await startReceiver()
  model = await serveModel(cli.server)
})
afterAll(async () => {
  await receiver.close()
  await model.upstream.close()
  await cli.close()
})

const done = async (...args: string[]): Promise<string> => {
  const { code, out, error } = await cli.berth(args)
  // There are two keys in the data folder, so changes state the account.
  expect({ code, error: error.replace(/^Account: .*\n/, '') }).toEqual({ code: 0, error: '' })
  return out
}

const inTerminal = (...args: string[]): Promise<string> => cli.onScreen(args, { BERTH_KEY: cli.server.demoKey })

const widthOf = (screen: string): number => Math.max(...screen.split('\n').map((line) => line.length))

describe('keys', () => {
  test('are created with their limits, shown once, and work', async () => {
    const limits = [
      '--total-limit',
      '25',
      '--requests-per-minute',
      '120',
      '--expires',
      '2099-01-01',
      '--model',
      'a',
      'b',
    ]
    const out = await done('keys', 'create', 'laptop', '--scope', 'inference', 'billing:read', ...limits)
    const [, key = ''] = /^Key {6}(bk_\w+)$/m.exec(out) ?? []
    const [, id = ''] = /^Id {7}(\w+)$/m.exec(out) ?? []
    expect(out).toContain(`Save the key now: it is not shown again. To revoke it:\n  berth keys rm ${id}\n`)
    expect((await cli.berth(['balance', '--key', key])).code).toBe(0)
    expect(await done('keys', 'ls')).toMatch(
      new RegExp(`^${id} +laptop +inference billing:read +\\S+ +2099-01-01$`, 'm'),
    )
    const output = await done('keys', 'show', 'laptop')
    expect(output).toMatch(new RegExp(`^Key +${id} "laptop", ends in ${key.slice(-4)}$`, 'm'))
    expect(output).toMatch(/^Models +a, b\nTotal limit +\$25\.00\nRequests per minute +120$/m)
    expect(output).not.toContain(key)
    await done('keys', 'rm', 'laptop')
    expect((await cli.berth(['balance', '--key', key])).code).toBe(4)
    expect(await done('keys', 'ls')).toMatch(/To include revoked keys: berth keys ls --all\n$/)
    expect(await done('keys', 'ls', '--all')).toMatch(new RegExp(`^${id} .*revoked$`, 'm'))
    expect(await cli.json('keys', 'ls', '--all')).toMatchObject({
      apiKeys: expect.arrayContaining([expect.anything()]),
    })
  })

  test('the key in use is revoked only with confirmation', async () => {
    const { key } = await cli.server.account()
    const { apiKeys } = (await cli.json('keys', 'ls', '--key', key)) as { apiKeys: [{ publicId: string }] }
    const [{ publicId }] = apiKeys
    const result = await cli.berth(['keys', 'rm', publicId, '--key', key])
    expect(result).toMatchObject({
      code: 2,
      out: '',
      error: expect.stringContaining(`berth keys rm ${publicId} --yes`),
    })
    await done('keys', 'rm', publicId, '--yes', '--key', key)
    expect((await cli.berth(['keys', 'ls', '--key', key])).code).toBe(4)
  })

  test('unknown or ambiguous keys are reported with how to list them', async () => {
    const none = await cli.berth(['keys', 'rm', 'nothing'])
    expect(none).toMatchObject({
      code: 1,
      error: 'error: There is no API key nothing.\n  To list them: berth keys ls\n',
    })
    await done('keys', 'create', 'twin', '--scope', 'inference')
    await done('keys', 'create', 'twin', '--scope', 'inference')
    const both = await cli.berth(['keys', 'rm', 'twin'])
    expect(both).toMatchObject({ code: 2, error: expect.stringMatching(/Use one of the ids: \w+, \w+\n$/) })
  })

  test('a table fits a terminal of 80 columns', async () => {
    await done(
      'keys',
      'create',
      'everything that it may do',
      '--scope',
      'inference',
      'compute:read',
      'compute:write',
      'keys',
    )
    const screen = await inTerminal('keys', 'ls')
    expect(screen).toContain('…')
    expect(widthOf(screen)).toBeLessThanOrEqual(80)
  })
})

describe('SSH keys', () => {
  test('are added from a file or standard input, listed and removed', async () => {
    const file = path.join(cli.folder, 'id.pub')
    const { key } = await cli.server.account({ sshKey: false })
    const as = ['--key', key]
    expect(await done('ssh-keys', 'ls', ...as)).toContain('To add one: berth ssh-keys add ~/.ssh/id_ed25519.pub')
    const [type = '', blob = ''] = testSshKey.split(' ')
    const other = `${type} ${blob.slice(0, -4)}AAAA`
    await writeFile(file, `${other}\n`)
    const out = await done('ssh-keys', 'add', file, ...as)
    expect(out).toMatch(/^SSH key {6}ssh_\w+ "id"\nFingerprint {2}SHA256:\S+$/m)
    const child = spawn(process.execPath, [cli.program, 'ssh-keys', 'add', '-', '--json', ...as], {
      env: cli.environment(),
    })
    child.stdin.end(testSshKey)
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    await new Promise((resolve) => child.once('close', resolve))
    expect(JSON.parse(output)).toMatchObject({ name: 'test@example.test' })
    expect(await done('ssh-keys', 'ls', ...as)).toMatch(
      /^ssh_\w+ +id +SHA256:\S+\nssh_\w+ +test@example\.test +SHA256:/m,
    )
    const twice = await cli.berth(['ssh-keys', 'add', file, ...as])
    expect(twice).toMatchObject({ code: 1, error: expect.stringContaining(fail('ssh_key_exists').message) })
    expect(await done('ssh-keys', 'rm', 'id', ...as)).toMatch(/^Deleted ssh_\w+ "id"\. Running machines keep it\.$/m)
    expect(await done('ssh-keys', 'ls', ...as)).toMatch(/\n1 SSH key\n$/)
  })

  test('a private key is not sent', async () => {
    const file = path.join(cli.folder, 'id_secret')
    await writeFile(file, '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n')
    const { code, out, error } = await cli.berth(['ssh-keys', 'add', file])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(`It was not sent.\n  Add the public key instead: berth ssh-keys add ${file}.pub`)
    expect((await cli.berth(['ssh-keys', 'add', '/nowhere'])).error).toContain('ssh-keygen -t ed25519')
  })
})

describe('people', () => {
  test('are added, change their role and are removed', async () => {
    const { key } = await cli.server.account()
    const as = ['--key', key]
    expect(await done('members', 'add', 'second@example.test', '--role', 'viewer', ...as)).toMatch(
      /^Added second@example\.test as a viewer \(usr_\w+\)\.$/m,
    )
    expect(await done('members', 'ls', ...as)).toMatch(
      /^usr_\w+ +second@example\.test +viewer +invited +\d{4}-\d\d-\d\d$/m,
    )
    expect(await done('members', 'set', 'second@example.test', 'owner', ...as)).toContain('is now an owner.')
    const result = await cli.berth(['members', 'rm', 'second@example.test', ...as], {}, { answers: ['n'] })
    expect(result).toMatchObject({ code: 1, error: expect.stringContaining('Remove second@example.test') })
    expect(await done('members', 'rm', 'second@example.test', '--yes', ...as)).toContain('Removed second@example.test')
    const gone = await cli.berth(['members', 'rm', 'second@example.test', ...as])
    expect(gone).toMatchObject({ code: 1, error: expect.stringContaining('To list them: berth members ls') })
    expect(await done('members', 'ls', ...as)).toMatch(/\n1 member\n$/)
  })
})

describe('webhooks', () => {
  test('are added, tested, listed with deliveries, and removed', async () => {
    expect(await done('webhooks', 'ls')).toContain('There are no webhooks.')
    const url = `${receiver.url}/hook`
    const out = await done('webhooks', 'create', url, '--event', 'key.created', 'webhook.test')
    const [, id = ''] = /^Webhook {2}(whk_\w+)$/m.exec(out) ?? []
    expect(out).toMatch(/^Secret {3}whsec_\S+$/m)
    expect(out).toContain(`Save it now: it is not shown again. To test it:\n  berth webhooks test ${id}\n`)
    expect(await done('webhooks', 'test', id)).toBe('Delivered: status 200.\n')
    expect(receiver.received.at(-1)?.body).toContain('webhook.test')
    expect(await done('webhooks', 'ls')).toMatch(new RegExp(`^${id} +${url} +on +2 types$`, 'm'))
    receiver.answer = status(500)
    const failed = await cli.berth(['webhooks', 'test', url])
    expect(failed).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^Not delivered: .*500.*\nNext attempt at /),
    })
    // Tried again in five seconds, it must still be refused if that is now.
    const listed = await inTerminal('webhooks', 'deliveries', id)
    receiver.answer = status(200)
    expect(listed).toMatch(/^dlv_\w+ +pending +\d+[sm] +\S.* +webhook\.test\ndlv_\w+ +delivered .*webhook\.test$/m)
    expect(widthOf(listed)).toBeLessThanOrEqual(80)
    const [, delivery = ''] = /^(dlv_\w+) +delivered/m.exec(listed) ?? []
    expect(await done('webhooks', 'redeliver', delivery)).toBe('Sending webhook.test again.\n')
    expect(await done('webhooks', 'rotate', id)).toMatch(/^Secret {2}whsec_\S+$/m)
    expect(await done('webhooks', 'disable', id)).toBe(`${id} is off.\n`)
    expect(await done('webhooks', 'enable', url)).toBe(`${id} is on.\n`)
    expect(await cli.json('webhooks', 'ls')).toMatchObject({ webhooks: [{ id, enabled: true }] })
    expect(await cli.berth(['webhooks', 'rm', id])).toMatchObject({ code: 2, out: '' })
    await done('webhooks', 'rm', id, '--yes')
    expect((await cli.berth(['webhooks', 'test', id])).error).toContain('To list them: berth webhooks ls')
  })

  test('an unknown event type is a usage error', async () => {
    const { code, error } = await cli.berth(['webhooks', 'create', 'https://a.test', '--event', 'rental.gone'])
    expect(code).toBe(2)
    expect(error).toContain('Allowed choices are rental.created, ')
  })
})

describe('usage', () => {
  let today: string
  let yesterday: string
  let requestId: string
  let costNano: number

  beforeAll(async () => {
    // A charge before midnight belongs to the previous day.
    await waitForDayWithTimeLeft()
    today = formatInstant(systemClock.now()).slice(0, 10)
    yesterday = formatInstant(instantOf(systemClock.now() - DAY_MS)).slice(0, 10)
    const reply = (await cli.json('chat', 'Hello')) as { requestId: string; costNanoUsd: number }
    requestId = reply.requestId
    costNano = reply.costNanoUsd
    await waitFor('it to be in the ledger', async () => (await done('usage')).includes('$'))
  })

  test('by request: known ones with their sum, unknown ones with exit code 1', async () => {
    const cost = formatUsdForPeople(nanoUsdOf(BigInt(costNano)))
    expect(await done('cost', requestId)).toBe(
      `REQUEST${' '.repeat(29)}  ${'COST'.padStart(cost.length)}\n${requestId}  ${cost}\n\n1 request, ${cost} in total\n`,
    )
    const { code, out } = await cli.berth(['cost', requestId, 'req_none'])
    expect(code).toBe(1)
    expect(out).toMatch(/^req_none +unknown$/m)
    const reply = JSON.parse((await cli.berth(['cost', requestId, 'req_none', '--json'])).out) as unknown
    expect(reply).toEqual({ requests: [{ requestId, costNanoUsd: costNano }], unknown: ['req_none'] })
    const many = await cli.berth(['cost', ...Array.from({ length: 101 }, (_, n) => `req_${n}`)])
    expect(many).toMatchObject({ code: 1, out: '', error: expect.stringContaining('at most 100') })
  })

  test('by day, including empty ones, with bars that fit the terminal', async () => {
    const out = await done('usage', '--since', '2d')
    expect(out).toMatch(new RegExp(`^${yesterday} +\\$0\\.00\\n${today} +1 +<?\\$0\\.0+\\d+\\n`, 'm'))
    expect(out).toContain(` charged from ${yesterday} to ${today} (UTC)\n$0.00 running, not charged yet`)
    const screen = await inTerminal('usage', '--since', '2d')
    expect(screen).toMatch(new RegExp(`^${today} .* {2}█{20}$`, 'm'))
    expect(widthOf(screen)).toBeLessThanOrEqual(80)
  })

  test('by model and by key, with key names', async () => {
    expect(await done('usage', '--by', 'model')).toMatch(/^test\/model +1 +<?\$0\.0+\d+$/m)
    expect(await done('usage', '--by', 'key')).toMatch(/^\w+ first key +1 +<?\$0\.0+\d+$/m)
    expect(await cli.json('usage', '--by', 'model')).toMatchObject({ by: 'model', rows: [{ group: 'test/model' }] })
    expect(await done('usage', '--since', '2020-01-01', '--until', '2020-01-02')).toBe(
      'No spending from 2020-01-01 to 2020-01-02.\n',
    )
  })

  test.each([
    [['usage', '--since', '0d'], 'from 1d to 366d.'],
    [['usage', '--since', '2026-02-30'], 'Must be a day such as'],
    [['usage', '--by', 'week'], 'Allowed choices are day, model, key, rental'],
    [['keys', 'create', 'x'], "required option '-s, --scope <scope...>' not specified"],
    [['keys', 'create', 'x', '--scope', 'all'], 'Allowed choices are inference'],
    [['keys', 'create', 'x', '--scope', 'keys', '--expires', 'soon'], 'Must be a time such as'],
    [['members', 'set', 'x', 'king'], 'Allowed choices are owner'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
    const { code, out, error } = await cli.berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(message)
  })
})
