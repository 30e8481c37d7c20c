/** The commands around hosts and machines, and a server that really does it. */
import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { TestAgent, testOffer } from '../../../test/harness/host-sockets.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { MuxStream } from '../../base/net/mux.ts'
import { streamRequest } from '../../contract/agent.ts'
import { HEARTBEAT_MS } from '../../domain/host.ts'
import { exampleBodies } from '../../contract/openapi/example-body.ts'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let agent: TestAgent
/** Says again and again what there is, as agents do. */
let beat: NodeJS.Timeout
/** A container of the demo account on a machine that has joined. */
let instance = ''

beforeAll(async () => {
  cli = await startCliTest({ BERTH_DRIVERS: 'mock,host' })
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { token } = (await cli.json('supply', 'tokens', 'create')) as { token: string }
  const body = { token, name: 'pier-1', offer: testOffer, publicKey: publicKey.export({ format: 'jwk' }).x }
  await cli.server.anonymous('POST', '/v2/agent/join', body)
  agent = await new TestAgent(cli.server.url, { id: 'pier-1', privateKey }, answerStream).enter()
  agent.report()
  instance = await waitFor('the machine to be on sale', async () => {
    const order = { cluster_name: 'lab', node_name: 'pier-1', gpu_count: 1, label: 'box' }
    const reply = await cli.server.demo('POST', '/v1/marketplace/instances/create', order)
    return reply.status === 200 && (reply.body.instance_name as string)
  })
  const { generation, workloads } = await agent.hear('desired', (desired) => desired.workloads.length === 1)
  const [{ id, tag } = { id: '', tag: '' }] = workloads
  const say = (): void =>
    agent.report({ generation, workloads: [{ id, tag, state: 'running', sshUser: 'root', disks: [] }] })
  say()
  beat = setInterval(say, HEARTBEAT_MS)
  await waitFor('it to run', async () => (await cli.berth(['rentals'])).out.includes('Running'))
})
afterAll(async () => {
  clearInterval(beat)
  await agent.end()
  await cli.close()
})

/** A shell that says back what it hears until `exit` or a second end of the input, and a log of two lines. */
function answerStream(head: unknown, stream: MuxStream): void {
  const request = streamRequest.parse(head)
  if (request.kind === 'logs') {
    return void stream.end(`first\\tline\n\u001B[31mred\u001B[0m\u001B]0;title\u0007${request.follow ? '\nmore' : ''}`)
  }
  if (request.kind !== 'terminal') return void stream.destroy()
  if (request.command !== null) stream.write(`${request.columns}x${request.rows} ${JSON.stringify(request.command)}\n`)
  let typed = ''
  stream.on('data', (chunk: Buffer) => {
    stream.write(chunk)
    typed += chunk.toString()
    if (!typed.includes('exit') && typed.split('\u0004').length < 3) return
    stream.sendSignal({ exitCode: 7 })
    stream.end()
  })
}

test('supply: creates a join token and prints the join command', async () => {
  const { code, out } = await cli.berth(['supply', 'tokens', 'create', '--uses', '3', '--hours', '2'])
  expect(code).toBe(0)
  const [, token = ''] = /^Token +(bj_\w+)$/m.exec(out) ?? []
  expect(out).toMatch(/^Valid for +3 machines, until \d{4}-/m)
  expect(out).toContain('Owner      the operator')
  expect(out).toContain(`  curl -fsSL ${cli.server.url}/install.sh | sh -s -- --token ${token}\n`)
  const { tokens } = (await cli.json('supply', 'tokens')) as { tokens: Array<{ id: string; usesLeft: number }> }
  const listedToken = tokens.find((one) => one.usesLeft === 3)
  expect((await cli.berth(['supply', 'tokens'])).out).toContain(listedToken?.id)
  expect(await cli.berth(['supply', 'tokens', 'rm', listedToken?.id ?? ''])).toMatchObject({
    code: 0,
    out: `Revoked ${listedToken?.id}. No more machines can join with it.\n`,
  })
  const refused = await cli.berth(['supply', 'tokens', 'create', '--key-file', path.join(cli.folder, 'demo.key')])
  expect(refused).toMatchObject({ code: 4, error: expect.stringContaining('is not a supplier') })
  expect((await cli.berth(['supply', 'tokens', 'create', '--uses', '0'])).code).toBe(2)
})

test('supply: lists, drains and resumes hosts, and keeps those with tenants', async () => {
  const { out } = await cli.berth(['supply', 'hosts'])
  expect(out).toMatch(
    /^pier-1 +ready +marketplace +us-east +lab +2 NVIDIA-GeForce-RTX-4090 +1 .* \d+\.\d+\.\d+ +simulated GPUs$/m,
  )
  expect((await cli.berth(['supply', 'drain', 'pier-1'])).out).toBe('pier-1 is draining, with 1 tenant.\n')
  expect((await cli.berth(['supply', 'resume', 'pier-1'])).out).toBe('pier-1 is ready, with 1 tenant.\n')
  const leaving = await cli.berth(['supply', 'leave', 'pier-1', '--yes'])
  expect(leaving).toMatchObject({ code: 1, error: expect.stringContaining('still has tenants') })
  expect(await cli.json('supply', 'hosts')).toMatchObject({ hosts: [{ id: 'pier-1', tenants: 1 }] })
})

test('operator: adds bare metal from a file, and records the reason of each action', async () => {
  const file = path.join(cli.folder, 'hosts.json')
  const { privateKey } = makeSshKeyPair('test')
  const host = { ...exampleBodies.addHost, privateKey }
  await writeFile(file, JSON.stringify({ hosts: [host, { ...host, id: 'rack1-02', publicIp: '198.51.100.18' }] }))
  const added = await cli.berth(['operator', 'hosts', 'create', file])
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining('Added rack1-02 (cleaning)') })
  await writeFile(file, JSON.stringify({ ...host, id: 'rack1-03', scratch: ['/etc'], region: undefined }))
  const faulty = await cli.berth(['operator', 'hosts', 'create', file])
  expect(faulty).toMatchObject({ code: 1, error: expect.stringContaining('region: Required') })
  expect((await cli.berth(['operator', 'hosts', 'create', path.join(cli.folder, 'none.json')])).code).toBe(2)
  expect((await cli.berth(['operator', 'hosts', 'ls'])).out).toMatch(/^rack1-01 +cleaning, offline +bare-metal .*new$/m)
  const act = (verb: string) => cli.berth(['operator', 'hosts', verb, 'rack1-01', '--reason', 'for the test'])
  expect((await act('quarantine')).out).toBe('rack1-01 is quarantined.\n')
  expect((await act('release')).out).toBe('rack1-01 is cleaning.\n')
  expect(await act('rm')).toMatchObject({ code: 2, error: expect.stringContaining('add --yes') })
  const remove = ['operator', 'hosts', 'rm', 'rack1-01', '--reason', 'for the test']
  expect(await cli.berth(remove, {}, { answers: ['n'] })).toMatchObject({ code: 1, out: '' })
  expect((await cli.berth(remove, {}, { answers: ['y'] })).out).toBe('rack1-01 is left.\n')
  expect((await cli.berth(['operator', 'hosts', 'drain', 'rack1-01'])).code).toBe(2)
})

test('operator: adds, lists and removes images', async () => {
  expect((await cli.berth(['operator', 'images', 'ls'])).out).toContain('There are no images')
  const source = 'https://images.example.com/debian-12.qcow2'
  const add = ['operator', 'images', 'create', 'debian-12', '--source', source, '--sha256', '0a'.repeat(32)]
  const added = await cli.berth([...add, '--user', 'debian', '--default'])
  expect(added.out).toBe('Added debian-12, the default for x64.\n')
  expect((await cli.berth(['operator', 'images', 'ls'])).out).toMatch(/^debian-12 +x64 +debian +yes +https:/m)
  expect((await cli.berth(['operator', 'images', 'rm', 'debian-12'])).out).toBe('Deleted debian-12.\n')
})

test('operator: explains why an order can or cannot be placed', async () => {
  const result = await cli.berth(['operator', 'placement', '--region', 'mock-region'])
  expect(result.code).toBe(0)
  expect(result.out).toMatch(/^mock-lab-h100-01 +mock +tried first +8 of 8 GPUs free in mock-lab-vm-h100-ethernet$/m)
  expect(result.out).toMatch(/^pier-1 +host +other_offering +offered as marketplace$/m)
  const none = await cli.berth(['operator', 'placement', '--region', 'jp-east-1', '--gpu', 'b200', '--count', '3'])
  expect(none).toMatchObject({ code: 1, out: expect.stringContaining('for other GPU counts only') })
  expect((await cli.berth(['operator', 'placement'])).code).toBe(2)
})

test('logs: prints lines without control sequences', async () => {
  for (const name of [instance, 'box']) {
    const { code, out } = await cli.berth(['logs', name])
    expect([code, out]).toEqual([0, 'first\\tline\n\u001B[31mred\u001B[0m\\x1b]0;title\\x07\n'])
  }
  expect((await cli.berth(['logs', instance, '-f'])).out).toMatch(/\nmore\n$/)
  const json = (await cli.berth(['logs', instance, '--json'])).out
  expect(json.split('\n')[0]).toBe(JSON.stringify({ line: 'first\\tline' }))
  expect(await cli.berth(['logs', 'nobody'])).toMatchObject({ code: 1, error: expect.stringContaining('nobody') })
})

test('ssh: runs the system client with the demo account’s SSH key', async () => {
  const key = path.join(cli.folder, 'demo_ssh_key')
  const { out: bare } = await cli.berth(['ssh', 'box', '--print'])
  expect(bare).toMatch(
    new RegExp(
      `^ssh -p \\d+ -o HostKeyAlias=berth-${instance} -o ConnectTimeout=\\d+ -o StrictHostKeyChecking=accept-new root@127\\.0\\.0\\.1\n$`,
    ),
  )
  await writeFile(key, 'a key')
  const { out } = await cli.berth(['ssh', 'box', '--print', '--', 'echo', "it's"])
  expect(out).toContain(` -i ${key} -o IdentitiesOnly=yes `)
  expect(out).toMatch(/ root@127\.0\.0\.1 echo 'it'\\''s'\n$/)
  const { command } = (await cli.json('ssh', 'box', '-i', '/some/key')) as { command: string[] }
  expect(command.slice(0, 5)).toEqual(['ssh', '-p', command[2], '-i', '/some/key'])
})

test('terminal: passes input, output and the exit code', async () => {
  const child = spawn(process.execPath, [cli.program, 'terminal', 'box', '--', 'sh', '-c', 'two words'], {
    env: cli.environment(),
  })
  let seen = ''
  child.stdout.on('data', (chunk: Buffer) => (seen += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  await waitFor('the command to run', () => seen === '80x24 ["sh","-c","two words"]\n')
  child.stdin.write('exit')
  expect(await ended).toBe(7)
  expect(seen).toBe('80x24 ["sh","-c","two words"]\nexit')
})

test('terminal: passes the end of input, and prints a rejection as a sentence', async () => {
  const child = spawn(process.execPath, [cli.program, 'terminal', 'box'], { env: cli.environment() })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stdin.end('hello')
  expect(await ended).toBe(7)
  const order = { gpuCount: 1, region: 'mock-region', label: 'simulated' }
  await cli.server.demo('POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  const refused = await cli.berthProcess(['terminal', 'simulated'])
  expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('simulated') })
})
