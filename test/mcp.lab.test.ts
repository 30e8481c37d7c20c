/** `berth mcp` as agents start it, with the published clients of both eras, and the conformance suite over HTTP. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tools } from '../src/server/mcp/tool-list.ts'
import { eras, openAgent, runCommands, type Era } from './harness/agent-client.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { removeFolder } from './harness/leftover.ts'
import { waitFor } from './harness/wait.ts'
import { startCliTest, type CliTest } from './lab/cli.ts'
import { needs } from './needs.ts'

needs('build')

const LONG_MS = 240_000

let cli: CliTest
let host: JoinedHost
let customer: Awaited<ReturnType<CliTest['server']['account']>>
const ran = runCommands('a log\n')

beforeAll(async () => {
  cli = await startCliTest({ BERTH_DRIVERS: 'mock,host' })
  host = await joinHost(cli.server, 9, { gpusTotal: 8 }, ran.answer)
  customer = await cli.server.account({ usd: '1000' })
})
afterAll(async () => {
  await host.close()
  await cli.close()
})

const overStdio = (era: Era, answer?: 'accept' | 'decline', key = customer.key) => {
  const env = cli.environment({ BERTH_KEY: key, BERTH_URL: cli.server.url })
  return openAgent(era, { command: process.execPath, args: [cli.program, 'mcp'], env }, answer)
}

describe.each(eras)('berth mcp for a client of %s', (era) => {
  test('P51: lists and calls the tools of the server', { timeout: LONG_MS }, async () => {
    const client = await overStdio(era)
    expect((await client.tools()).map(({ name }) => name)).toEqual(tools.map(({ name }) => name))
    const { value } = await client.call('get_quote', { machineId: host.id, image: 'busybox:1' })
    const rental = (await client.call('rent', { quote: value.quote })).value.rental as string
    await waitFor('the machine', async () => (await client.call('get_rental', { rental })).value.state === 'Running')
    const output = await client.call('run_command', { rental, command: 'echo here; exit 4' })
    expect(output.value).toMatchObject({ exitCode: 4, stdout: 'here\n' })
    expect((await client.call('terminate', { rental })).reason).toBe('confirmation_required')
    expect((await client.call('terminate', { rental, confirm: rental })).value.state).toBe('Terminating')
    await client.close()
  })

  test('P54: questions reach the user of the agent', { timeout: LONG_MS }, async () => {
    const dear = { machineId: host.id, image: 'busybox:1', spendingLimitUsd: 200, hours: 100 }
    const no = await overStdio(era, 'decline')
    const { value } = await no.call('get_quote', dear)
    expect((await no.call('rent', { quote: value.quote })).reason).toBe('declined_by_user')
    expect(no.questions).toHaveLength(1)
    await no.close()
    const yes = await overStdio(era, 'accept')
    const again = await yes.call('get_quote', dear)
    const rental = (await yes.call('rent', { quote: again.value.quote })).value.rental as string
    expect((await yes.call('terminate', { rental })).value.state).toBe('Terminating')
    expect(yes.questions).toHaveLength(2)
    await yes.close()
  })

  test('P57: a command ends with the program that asked for it', { timeout: LONG_MS }, async () => {
    const client = await overStdio(era)
    const { value } = await client.call('get_quote', { machineId: host.id, image: 'busybox:1' })
    const rental = (await client.call('rent', { quote: value.quote })).value.rental as string
    await waitFor('the machine', async () => (await client.call('get_rental', { rental })).value.state === 'Running')
    const before = ran.commands.length
    const call = client
      .call('run_command', { rental, command: 'exec sleep 600', timeoutSeconds: 600 })
      .catch(() => 'gone')
    const command = await waitFor('the command', () => ran.commands[before])
    await client.close()
    await call
    expect(await waitFor('its end', () => command.isOver)).toBe(true)
    await customer.call('DELETE', `/v2/rentals/${rental}`)
  })
})

describe('P51: conformance', () => {
  let proxy: http.Server
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-conformance-'))
    const packages = path.resolve('node_modules')
    const program = await readFile(path.join(packages, '@modelcontextprotocol/conformance/dist/index.js'), 'utf8')
    // A function of Node 22, which the scenarios of servers do not use.
    await writeFile(path.join(folder, 'conformance.mjs'), program.replace(/globSync as \w+,/, ''))
    await symlink(packages, path.join(folder, 'node_modules'))
    proxy = await addKey(cli.server.url, customer.key)
  })
  afterAll(async () => {
    await new Promise((resolve) => proxy.close(resolve))
    await removeFolder(folder)
  })

  // Those of a server with tools. The other scenarios call tools, prompts and resources of a server that is made for them.
  const scenarios = ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection']
  test.each(scenarios)('scenario %s', { timeout: LONG_MS }, async (scenario) => {
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`
    const args = [path.join(folder, 'conformance.mjs'), 'server', '--url', url, '--scenario', scenario]
    const { code, output } = await new Promise<{ code: number; output: string }>((resolve) => {
      execFile(process.execPath, args, { cwd: folder }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : 1, output: `${stdout}\n${stderr}` }),
      )
    })
    expect([code, output]).toEqual([0, expect.stringMatching(/Passed: [1-9]\d*\/\d+, 0 failed/)])
  })
})

/** The suite sends no key. Everything else passes unchanged, the host included. */
async function addKey(url: string, key: string): Promise<http.Server> {
  const target = new URL(url)
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${key}` }
    const { method, url: at } = request
    const onward = http.request({ host: target.hostname, port: target.port, method, path: at, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
