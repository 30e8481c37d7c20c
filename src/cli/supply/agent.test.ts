/** `berth agent` at a real server, short of running things: that is for the journeys with real engines. */
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeNvidiaSmi } from '../../../test/harness/nvidia-smi.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { runCli } from '../program.ts'

let server: TestServer
let root: string

beforeAll(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), 'berth-cli-agent-'))
  server = await testServer({ env: { BERTH_DRIVERS: 'host' } })
})
afterAll(async () => {
  await server.close()
  await rm(root, { recursive: true, force: true })
})

async function berth(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  let [out, error] = ['', '']
  const code = await runCli(['agent', ...args], {
    env: { BERTH_URL: server.url, BERTH_DATA_DIR: root, ...env },
    color: { out: false, error: false },
    write: (text) => void (out += text),
    writeError: (text) => void (error += text),
    readFile: (file) => (file === path.join(root, 'operator.key') ? server.operatorKey : undefined),
    readInput: () => undefined,
  })
  return { code, out, error }
}

async function token(): Promise<string> {
  const { body } = await server.operator('POST', '/v2/supply/join-tokens', {})
  return body.token
}

const gpus = ['--simulate-gpus', 'h100:8'] as const

describe('hardware', () => {
  test('prints the hardware without a server, and marks simulated GPUs', async () => {
    const { code, out } = await berth(['hardware', ...gpus])
    expect(code).toBe(0)
    expect(out).toMatch(/^CPU +\S.*\nMemory +[\d.]+ GB\nDisk +[\d.]+ GB free\nGPU 0 +NVIDIA H100 80GB HBM3, 81559 MiB/)
    expect(out).toContain('8 simulated GPUs')
    const json = await berth(['hardware', ...gpus, '--json'])
    expect(JSON.parse(json.out)).toMatchObject({ offer: { gpuType: 'h100', gpusTotal: 8, simulated: true } })
  })

  test('reads a real H200 from nvidia-smi', async () => {
    const program = await writeNvidiaSmi(root, {
      table: await readFile('test/fixtures/nvidia-smi/h200-580.csv', 'utf8'),
      report: await readFile('test/fixtures/nvidia-smi/h200-580.txt', 'utf8'),
    })
    const { out } = await berth(['hardware', '--nvidia-smi', program])
    expect(out).toContain('GPU 0   NVIDIA H200, 143771 MiB, 1980 MHz, SXM5')
    expect(out).toMatch(/^Driver +580\.159\.04$/m)
  })

  test('succeeds without a GPU', async () => {
    const { code, out } = await berth(['hardware', '--nvidia-smi', '/nowhere/nvidia-smi'])
    expect({ code, note: out.trimEnd().split('\n').at(-1) }).toEqual({
      code: 0,
      note: 'Note    /nowhere/nvidia-smi not found on this machine.',
    })
  })
})

describe('a machine', () => {
  test('joins, drains, resumes and leaves, visibly to the server', async () => {
    const dir = path.join(root, 'one')
    const args = ['--name', 'cli-one', '--price', '1.25', '--region', 'here', ...gpus, '--dir', dir]
    const joined = await berth(['join', '--token', await token(), ...args])
    expect(joined).toMatchObject({ code: 0, error: '' })
    expect(joined.out).toContain(`Joined ${server.url} as cli-one.`)
    const state = async (): Promise<unknown> => {
      const { body } = await server.operator('GET', '/v2/operator/hosts')
      const host = body.hosts.find(({ id }: { id: string }) => id === 'cli-one')
      return { state: host.state, gpus: host.gpusTotal, region: host.region, simulated: host.simulated }
    }
    expect(await state()).toEqual({ state: 'ready', gpus: 8, region: 'here', simulated: true })
    expect((await stat(dir)).mode & 0o777).toBe(0o700)

    expect(await berth(['join', '--token', await token(), ...args])).toMatchObject({ code: 1 })
    expect(await berth(['status', '--dir', dir])).toMatchObject({
      code: 1,
      out: expect.stringContaining('its agent is not running'),
    })
    const drained = await berth(['drain', '--dir', dir, '--json'])
    expect(drained).toMatchObject({ code: 0, error: '' })
    expect(JSON.parse(drained.out)).toEqual({ state: 'draining' })
    expect(await state()).toMatchObject({ state: 'draining' })
    expect(await berth(['drain', '--dir', dir])).toMatchObject({ code: 0 })
    expect(await berth(['resume', '--dir', dir])).toMatchObject({ code: 0, out: 'Ready for tenants.\n' })
    expect(await state()).toMatchObject({ state: 'ready' })
    expect(await berth(['leave', '--dir', dir])).toMatchObject({ code: 0, out: `cli-one has left ${server.url}.\n` })
    expect(await berth(['status', '--dir', dir])).toMatchObject({ code: 1 })
    await expect(readFile(path.join(dir, 'key.pem'))).rejects.toThrow('ENOENT')
  })

  test('does not join with a wrong token', async () => {
    const args = ['join', '--token', 'bj_wrong', '--price', '1', ...gpus, '--dir', path.join(root, 'wrong')]
    const { code, out, error } = await berth(args)
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(error).toMatch(/^error: /)
  })

  test('without an engine stays off sale and prints what to do', async () => {
    const dir = path.join(root, 'no-docker')
    const { code, error } = await berth(['run', ...gpus, '--dir', dir, '--docker-socket', '/nowhere/docker.sock'])
    expect(code).toBe(1)
    expect(error).toContain('Cannot reach Docker or Podman')
    expect(error).toContain('/nowhere/docker.sock: no such file')
    expect(error).toContain('apt-get install docker.io')
    await expect(stat(path.join(dir, 'agent.json'))).rejects.toThrow('ENOENT')
  })
})

describe('wrong usage', () => {
  test.each([
    [['join'], "required option '--token <token>'"],
    [['run', '--simulate-gpus', 'abacus:3'], 'Use MODEL:COUNT, such as h100:8'],
    [['run', '--price', '-1'], 'Must be a price in USD'],
    [['run', '--name', 'Big Box'], 'Must be lower-case letters'],
    [['run', '--server', 'localhost:1'], 'Must be an http or https URL'],
    [['run', '--offer', 'virtual-machine', ...gpus], 'Virtual machines cannot be offered in the region local.'],
    [['join', '--token', 'x', '--nvidia-smi', '/nowhere'], 'A machine on the marketplace needs a price.'],
  ])('%j', async (args, text) => {
    const { code, error } = await berth([...args, ...(args[0] === 'join' && args.length === 1 ? [] : ['--dir', root])])
    expect(code).toBe(2)
    expect(error).toContain(text)
  })

  test('a machine without GPUs cannot join', async () => {
    const args = ['join', '--token', 'x', '--price', '1', '--nvidia-smi', '/nowhere', '--dir', path.join(root, 'none')]
    const { code, error } = await berth(args)
    expect(code).toBe(1)
    expect(error).toContain('/nowhere not found on this machine.')
    expect(error).toContain('--simulate-gpus rtx4090:2')
  })
})
