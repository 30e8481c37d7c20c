/**
 * Nothing that the driver prints for the agent, a server of base images sends, or a hostile server answers to the command can
 * end it or keep it waiting; and what the agent makes of its driver's words is something that its server accepts.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { realGpus, type GpuSnapshot } from '../src/agent/gpu-source.ts'
import { listGpus } from '../src/agent/gpu-listing.ts'
import type { AgentTerms } from '../src/agent/identity.ts'
import { makeOffer } from '../src/agent/offer.ts'
import { answerTo } from '../src/base/net/http-answer.ts'
import { makeGetter } from '../src/artifacts/download/http-get.ts'
import { runCli } from '../src/cli/program.ts'
import { hostOffer } from '../src/contract/agent.ts'
import { makeBaseImages } from '../src/runtimes/qemu/base-image.ts'
import { atMost, fuzzingServer, fuzzOf } from './harness/listener-fuzz.ts'
import { writeNvidiaSmi } from './harness/nvidia-smi.ts'

const FUZZ = { timeout: 1_800_000 }
const WAIT_MS = 60_000

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-output-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('an agent makes a valid offer of whatever nvidia-smi prints (issue 31, 1)', FUZZ, async () => {
  const fixture = (name: string) => readFile(`test/fixtures/nvidia-smi/${name}`, 'utf8')
  const hardware = { cpuModel: 'Any', cpuCores: 2, virtualCores: 2, ramGb: 8, storageGb: 50 }
  const terms: AgentTerms = {
    name: null,
    clusterName: 'lab',
    region: 'local',
    offering: 'marketplace',
    networkType: 'ethernet',
    priceUsdPerGpuHour: '2.50',
    simulated: null,
  }
  const [table, report] = [await fixture('h200-580.csv'), await fixture('h200-580.txt')]
  const valid = await writeNvidiaSmi(folder, { table, report })
  const recorder = path.join(folder, 'recorder')
  const rows = path.join(folder, 'rows')
  await writeProgram(recorder, `case $1 in --query*) '${valid}' "$@" | tee '${rows}' ;; *) '${valid}' "$@" ;; esac`)
  expect((await readGpus(recorder)).gpus).toHaveLength(1)
  const fuzzed = fuzzOf('nvidia-smi', [await readFile(rows), report])
  const refused: string[] = []
  let [programs, offers] = [0, 0]
  const attempt = async (): Promise<void> => {
    const own = path.join(folder, `smi-${(programs += 1)}`)
    const program = path.join(own, 'nvidia-smi')
    await mkdir(own)
    // The first is as it should be, so that there is an offer.
    const isFirst = programs === 1
    await writeFile(path.join(own, 'table'), isFirst ? await readFile(rows) : fuzzed.next())
    await writeFile(path.join(own, 'report'), isFirst ? report : fuzzed.next())
    const exitCode = isFirst || fuzzed.random() < 0.8 ? 0 : 15
    const script = `case $1 in --query*) cat '${own}/table' ;; *) cat '${own}/report' ;; esac; exit ${exitCode}`
    await writeProgram(program, script)
    const snapshot = await readGpus(program)
    const offer = makeOffer(terms, hardware, snapshot)
    if (offer !== undefined) offers += 1
    const checked = offer === undefined ? undefined : hostOffer.safeParse(offer)
    if (checked?.success === false) refused.push(`${checked.error.message} ${JSON.stringify(offer)}`)
  }
  const faultless = (): Promise<void> => attempt().catch((error: unknown) => void refused.push(String(error)))
  expect(await fuzzed.run(faultless)).toEqual([])
  expect(refused).toEqual([])
  expect(offers).toBeGreaterThan(0)
})

function writeProgram(file: string, script: string): Promise<void> {
  return writeFile(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

function readGpus(program: string): Promise<GpuSnapshot> {
  const gpus = realGpus({ list: (signal) => listGpus(program, signal), kernelLog: program })
  return gpus.read().finally(() => gpus.close())
}

test('an agent outlasts every answer of a server of base images (issue 31, 1)', FUZZ, async () => {
  const body = 'the first bytes of a disk'
  const fuzzed = fuzzOf('base images', [
    `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    'HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
  ])
  const server = await fuzzingServer(fuzzed)
  const image = { name: 'debian', source: `http://127.0.0.1:${server.port}/disk`, sha256: 'a'.repeat(64) } as never
  const limits = { maxIdleAttempts: 1 }
  const images = makeBaseImages({ folder: path.join(folder, 'images'), allowPrivate: true, limits })
  const attempt = () => images.fetch(image, () => {}, AbortSignal.timeout(1_000))
  expect(await fuzzed.run(attempt)).toEqual([])
  await server.close()
})

test('the command outlasts every answer of a hostile server (issue 31, 1)', FUZZ, async () => {
  const machine = { id: 'a-b-c', start: null, sshCommand: 'ssh a@b -p 1', portMappings: [], userMetadata: {} }
  const json = (value: unknown): string => {
    const text = JSON.stringify(value)
    return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
  }
  const fuzzed = fuzzOf('a hostile server', [
    json({ instances: [{ ...machine, instance: { status: 'online', id: 'x' } }] }),
    json({ credits: 5, balanceUsd: '1.00', hourlySpendUsd: '0', availableUsd: '1' }),
    json({ error: { message: 'no \u001B[2J', code: 'x' }, reason: 'x', message: '\u0007' }),
    'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na\nb\nc\r\n0\r\n\r\n',
    'HTTP/1.1 429 Later\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n',
  ])
  const server = await fuzzingServer(fuzzed)
  const commands = [['ls'], ['balance'], ['ls', '--json'], ['market'], ['logs', 'a-b-c'], ['status']]
  const shown: string[] = []
  const attempt = async (): Promise<void> => {
    const args = commands[Math.floor(fuzzed.random() * commands.length)] ?? []
    const code = await runCli(args, {
      env: { BERTH_URL: `http://127.0.0.1:${server.port}`, BERTH_KEY: 'bk_x', XDG_CONFIG_HOME: folder },
      color: { out: false, error: false },
      write: (text) => void shown.push(text),
      writeError: (text) => void shown.push(text),
      readFile: () => undefined,
      readInput: () => undefined,
    })
    if (typeof code !== 'number') shown.push('\u0000 no exit status')
  }
  const attempts: Array<Promise<void>> = []
  const attemptAgain = async (): Promise<void> => {
    const latest = attempt()
    attempts.push(latest)
    await atMost(500, latest)
  }
  expect(await fuzzed.run(attemptAgain)).toEqual([])
  await server.close()
  // One that was left waiting ends with the server. None may still load its modules when the next file begins.
  await Promise.allSettled(attempts)
  // oxlint-disable-next-line no-control-regex
  expect(shown.filter((text) => /[\u0000-\u0008\u000B-\u001F\u007F]/.test(text))).toEqual([])
})

describe('an answer that switches protocols, which nobody asked for,', () => {
  let server: net.Server
  let url: string
  beforeAll(async () => {
    const head = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'
    server = net.createServer((socket) => void socket.on('error', () => {}).once('data', () => socket.write(head)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`
  })
  afterAll(() => server.close())

  const forever = AbortSignal.timeout(WAIT_MS)
  const image = () => ({ name: 'debian', source: url, sha256: 'a'.repeat(64) }) as never
  const getter = makeGetter({ allowPrivate: true })
  afterAll(() => getter.close())

  test('is an error (issue 31, 1)', async () => {
    await expect(answerTo(http.get(url))).rejects.toThrow('without an answer')
  })
  test('ends the download of a base image (issue 31, 1)', async () => {
    const images = makeBaseImages({ folder, allowPrivate: true, limits: { maxIdleAttempts: 1 } })
    await expect(images.fetch(image(), () => {}, forever)).rejects.toThrow('cannot be reached')
  })
  test('ends the download of a file (issue 31, 1)', async () => {
    const options = { headers: {}, authorization: null, trustedOrigin: null, signal: forever }
    expect(await getter.get(url, options)).toMatchObject({ ok: false, reason: 'unreachable' })
  })
})
