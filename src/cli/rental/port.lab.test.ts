/** `berth ports`, `open` and `port-tokens`, against a real server with simulated machines. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let key: string
let port: string

const berth = (...args: string[]) => cli.berth(args, { BERTH_KEY: key })

beforeAll(async () => {
  cli = await startCliTest()
  key = (await cli.server.account({ usd: '1000' })).key
  port = new URL(cli.server.url).port
  const rent = [
    'rent',
    '--kind',
    'vm',
    '--region',
    'mock-region',
    '-y',
    '--port',
    '8888/http',
    '8000/http/public',
    '22000',
  ]
  const { code, error } = await berth(...rent, '--label', 'web')
  if (code !== 0) throw new Error(error)
})
afterAll(() => cli.close())

test('ports lists what was ordered, with an address for each', async () => {
  const { out } = await berth('ports', 'web')
  expect(out).toMatch(new RegExp(`^ *8888 +http +private +open +http://[a-z-]+-8888\\.localhost:${port}$`, 'm'))
  expect(out).toMatch(new RegExp(`^ *8000 +http +public +open +http://[a-z-]+-8000\\.localhost:${port}$`, 'm'))
  expect(out).toMatch(/^22000 +tcp +public +open +tcp:\/\/\S+:22000$/m)
  expect(out).toContain('berth open web 8888')
  expect((await berth('show', 'web')).out).toMatch(/^Port +8888\/http → http:\/\/[a-z-]+-8888\.localhost/m)
})

test('open prints a link: with a code for a private port, without for a public one', async () => {
  const several = await berth('open', 'web', '--print')
  expect([several.code, several.error]).toEqual([2, expect.stringContaining('8888/http, 8000/http')])
  const link = (await berth('open', 'web', '8888', '--path', '/lab', '--print')).out.trim()
  expect(link).toMatch(/-8888\.localhost:\d+\/\.berth\/open\?code=[\w-]{43}&path=%2Flab$/)
  expect((await berth('open', 'web', '8000', '--path', '/x', '--print')).out).toMatch(/-8000\.localhost:\d+\/x\n$/)
  expect(await berth('open', 'web', '22000', '--print')).toMatchObject({ code: 1 })
})

test('tokens are created, listed and revoked by name', async () => {
  const { code, out } = await berth('port-tokens', 'create', 'web', '8888', '--name', 'ci', '--json')
  expect([code, JSON.parse(out)]).toMatchObject([0, { name: 'ci', token: expect.stringMatching(/^bpt_\w{43}$/) }])
  const { token, last4 } = JSON.parse(out) as { token: string; last4: string }
  const listed = await berth('port-tokens', 'ls', 'web', '8888')
  expect([listed.out.includes(`bpt_…${last4}`), listed.out.includes(token)]).toEqual([true, false])
  expect(await berth('port-tokens', 'rm', 'web', '8888', 'ci')).toMatchObject({ code: 0 })
  expect((await berth('port-tokens', 'ls', 'web', '8888')).out).toContain('There are no tokens.')
  expect(await berth('port-tokens', 'rm', 'web', '8888', 'ci')).toMatchObject({ code: 1 })
})
