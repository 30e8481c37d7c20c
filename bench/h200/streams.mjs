/**
 * What a GPU does for its users through Berth, against asking its engine directly: tokens per second and the first token
 * of 1, 64, 256 and 1,024 streams, all settings of Berth at their defaults. Runs without packages, so that it works on a
 * borrowed machine that has only the built bundle:
 *
 *     node bench/h200/streams.mjs --engine http://127.0.0.1:8000
 *
 * Berth is started from this folder's bundle with its own database. `--berth URL --key KEY --model NAME` measures one that
 * runs already, such as one with a managed deployment. Load comes from several processes, which count bytes and parse no
 * JSON: with 1,024 streams and 6,400 tokens per second each used a tenth of a core.
 */
import { fork, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const OUTPUT_TOKENS = 128
const PROMPT_WORDS = 90
const PROCESSES = 4
const MANY_STREAMS = 500
const OPEN_EVERY_MS = 1
const EVENT = Buffer.from('data: {')
const DONE = 'data: [DONE]'
const LAST_CHUNK = '0\r\n\r\n'
const TAIL = 64

const here = fileURLToPath(import.meta.url)
if (process.send === undefined || process.argv[2] !== 'load') await main()
else process.once('message', (job) => void runLoad(job))

// The load of one process.

async function runLoad(job) {
  const counts = { events: 0, firstTokens: [], eventsPerAnswer: [], answers: 0, faults: 0, fault: '' }
  const measuredFrom = Date.now() + job.warmMs
  const until = measuredFrom + job.measureMs
  const streams = []
  for (let n = 0; n < job.streams; n += 1) {
    streams.push(openStream(job, counts, measuredFrom, until))
    if (n % 8 === 7) await new Promise((resolve) => setTimeout(resolve, OPEN_EVERY_MS))
  }
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - Date.now())))
  for (const end of streams) end()
  process.send(counts, () => process.exit(0))
}

/** One client: its next request follows its last answer. Returns what ends it. */
function openStream(job, counts, measuredFrom, until) {
  let isOver = false
  let sentAt = 0
  let secondEventAt = 0
  let events = 0
  let tail = ''
  let status = ''
  const socket = net.connect({ host: job.host, port: job.port, noDelay: true })
  const send = () => {
    sentAt = Date.now()
    secondEventAt = 0
    events = 0
    tail = ''
    status = ''
    socket.write(requestOf(job))
  }
  const fail = (why) => {
    if (isOver) return
    counts.faults += 1
    counts.fault ||= why
    isOver = true
    socket.destroy()
  }
  const ended = () => {
    if (Date.now() >= measuredFrom && Date.now() < until) {
      counts.answers += 1
      counts.eventsPerAnswer.push(events)
    }
    if (!isOver) send()
  }
  socket.on('connect', send)
  socket.on('error', (error) => fail(error.message))
  socket.on('close', () => fail('the connection was closed'))
  socket.on('data', (bytes) => {
    if (isOver) return
    const now = Date.now()
    if (status === '') {
      status = bytes.toString('latin1', 9, 12)
      if (status !== '200') return fail(bytes.toString('latin1', 0, 600))
    }
    let found = 0
    for (let at = bytes.indexOf(EVENT); at !== -1; at = bytes.indexOf(EVENT, at + EVENT.length)) found += 1
    events += found
    if (now >= measuredFrom && now < until) counts.events += found
    // The first event has the role, the second the first token.
    if (secondEventAt === 0 && events >= 2) {
      secondEventAt = now
      if (sentAt >= measuredFrom - job.warmMs / 2 && now < until) counts.firstTokens.push(now - sentAt)
    }
    tail = (tail + bytes.toString('latin1', Math.max(0, bytes.length - TAIL))).slice(-TAIL)
    if (tail.endsWith(LAST_CHUNK) && tail.includes(DONE)) ended()
  })
  return () => {
    isOver = true
    socket.destroy()
  }
}

function requestOf({ host, port, key, model }) {
  // No two prompts share a beginning, so that no cache helps either side.
  const words = Array.from({ length: PROMPT_WORDS }, () => Math.floor(Math.random() * 1_000)).join(' ')
  const body = JSON.stringify({
    model,
    messages: [{ role: 'user', content: words }],
    max_tokens: OUTPUT_TOKENS,
    stream: true,
    ignore_eos: true,
  })
  const authorization = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}:${port}\r\n${authorization}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

// The comparison.

async function main() {
  const options = readOptions()
  const engine = new URL(options.engine)
  const model = options.engineModel ?? (await firstModel(engine, options.engineKey))
  const direct = {
    name: 'direct',
    host: engine.hostname,
    port: Number(engine.port || 80),
    model,
    key: options.engineKey,
  }
  const berth = await (options.berth === undefined ? startBerth(options, model) : runningBerth(options))
  const rows = []
  try {
    for (const streams of options.streams) {
      const sides = [direct, berth.side].map((side) => ({ side, tokens: [], firstTokens: [] }))
      for (let round = 0; round < options.rounds; round += 1) {
        for (const one of sides) {
          const result = await measure(one.side, streams, options)
          one.tokens.push(result.tokensPerSecond)
          one.firstTokens.push(result.firstTokenMs)
          console.log(
            `${streams} streams, round ${round + 1}, ${one.side.name}: ${result.tokensPerSecond.toFixed(0)} tokens/s, first token ${result.firstTokenMs} ms, ${result.answers} answers, ${result.faults} faults${result.fault === '' ? '' : `: ${result.fault}`}${await berth.limit()}`,
          )
          await untilIdle(engine)
        }
      }
      const [ours, theirs] = [sides[1], sides[0]]
      rows.push([
        streams,
        median(theirs.tokens).toFixed(0),
        median(ours.tokens).toFixed(0),
        (median(ours.tokens) / median(theirs.tokens)).toFixed(3),
        median(theirs.firstTokens).toFixed(0),
        median(ours.firstTokens).toFixed(0),
        (median(ours.firstTokens) / median(theirs.firstTokens)).toFixed(2),
      ])
    }
  } finally {
    await berth.stop()
  }
  const head = ['streams', 'direct tokens/s', 'Berth tokens/s', 'ratio', 'direct first token ms', 'Berth ms', 'ratio']
  console.log(`\n| ${head.join(' | ')} |\n|${head.map(() => '---').join('|')}|`)
  for (const row of rows) console.log(`| ${row.join(' | ')} |`)
}

function readOptions() {
  const given = new Map()
  for (let n = 2; n + 1 < process.argv.length; n += 2)
    given.set(process.argv[n].replace(/^--/, ''), process.argv[n + 1])
  if (!given.has('engine')) throw new Error('usage: node bench/h200/streams.mjs --engine http://127.0.0.1:8000')
  return {
    engine: given.get('engine'),
    engineModel: given.get('engine-model'),
    engineKey: given.get('engine-key'),
    berth: given.get('berth'),
    key: given.get('key'),
    model: given.get('model'),
    rounds: Number(given.get('rounds') ?? 3),
    streams: (given.get('streams') ?? '1,64,256,1024').split(',').map(Number),
    warmMs: Number(given.get('warm') ?? 5) * 1_000,
    measureMs: Number(given.get('seconds') ?? 10) * 1_000,
    workers: given.get('workers'),
  }
}

async function firstModel(engine, key) {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const { data } = await (await fetch(new URL('/v1/models', engine), { headers })).json()
  return data[0].id
}

async function measure(side, streams, { warmMs, measureMs: usualMs }) {
  // An answer takes about ten seconds at a thousand streams, and first tokens need answers that begin meanwhile.
  const measureMs = streams > MANY_STREAMS ? 2 * usualMs : usualMs
  const processes = Math.min(PROCESSES, streams)
  const results = await Promise.all(
    Array.from({ length: processes }, (_, n) => {
      const own = Math.floor(streams / processes) + (n < streams % processes ? 1 : 0)
      return new Promise((resolve, reject) => {
        const child = fork(here, ['load'])
        child.once('message', resolve)
        child.once('error', reject)
        child.send({ ...side, streams: own, warmMs, measureMs })
      })
    }),
  )
  const events = results.reduce((sum, one) => sum + one.events, 0)
  const eventsPerAnswer = median(results.flatMap((one) => one.eventsPerAnswer))
  const answers = results.reduce((sum, one) => sum + one.answers, 0)
  // An answer has events besides those of its tokens.
  const tokensPerEvent = Number.isNaN(eventsPerAnswer) ? 1 : OUTPUT_TOKENS / eventsPerAnswer
  return {
    tokensPerSecond: (events * tokensPerEvent * 1_000) / measureMs,
    firstTokenMs: median(results.flatMap((one) => one.firstTokens)),
    answers,
    faults: results.reduce((sum, one) => sum + one.faults, 0),
    fault: results.find((one) => one.fault !== '')?.fault ?? '',
  }
}

/** Calls that were cut off must not be part of the next measurement. */
async function untilIdle(engine) {
  for (let n = 0; n < 50; n += 1) {
    await new Promise((resolve) => setTimeout(resolve, 200))
    const text = await fetch(new URL('/metrics', engine)).then(
      (answer) => (answer.ok ? answer.text() : ''),
      () => '',
    )
    const running = /^vllm:num_requests_running\S* ([0-9.]+)/m.exec(text)?.[1]
    if (running === undefined || Number(running) === 0) return
  }
}

function runningBerth({ berth, key, model }) {
  const { hostname, port } = new URL(berth)
  const side = { name: 'Berth', host: hostname, port: Number(port || 80), key, model }
  return { side, limit: async () => '', stop: async () => {} }
}

async function startBerth({ engine, engineKey, workers }, upstreamModel) {
  const root = path.join(path.dirname(here), '..', '..')
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-h200-'))
  const env = {
    PATH: process.env.PATH ?? '',
    LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH ?? '',
    HOME: process.env.HOME ?? '/root',
    BERTH_DATA_DIR: dataDir,
    BERTH_PORT: '0',
    BERTH_LOG_LEVEL: 'warn',
    BERTH_LOCAL_ENGINES: 'false',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    BERTH_DRIVERS: '',
    ...(process.env.DATABASE_URL === undefined ? {} : { DATABASE_URL: process.env.DATABASE_URL }),
    ...(workers === undefined ? {} : { BERTH_WORKERS: workers }),
  }
  const args = ['--max-semi-space-size=64', path.join(root, 'bin', 'berth.mjs'), 'serve']
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'pipe'] })
  const url = await new Promise((resolve, reject) => {
    let text = ''
    child.stderr.on('data', (chunk) => {
      text += chunk.toString()
      process.stderr.write(chunk)
      const [, ready] = /ready at (\S+)/.exec(text) ?? []
      if (ready !== undefined) resolve(ready)
    })
    child.once('exit', () => reject(new Error(`Berth did not start: ${text}`)))
  })
  const operatorKey = (await readFile(path.join(dataDir, 'operator.key'), 'utf8')).trim()
  const ask = async (key, method, pathname, body) => {
    const answer = await fetch(`${url}${pathname}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!answer.ok) throw new Error(`${method} ${pathname}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  const name = 'h200/streams'
  const made = await ask(operatorKey, 'POST', '/v2/operator/accounts', {
    name: 'H200',
    ownerEmail: 'h200@example.test',
  })
  await ask(operatorKey, 'POST', `/v2/operator/accounts/${made.account.id}/credit`, {
    amountUsd: '1000',
    reason: 'h200',
  })
  const { key } = await ask(made.key, 'POST', '/v2/api-keys', { name: 'h200', scopes: ['inference'] })
  const prices = { inputUsdPerMillion: '0.1', outputUsdPerMillion: '0.4' }
  await ask(operatorKey, 'POST', '/v2/operator/models', {
    name,
    kind: 'chat',
    contextTokens: 8_192,
    maxOutputTokens: 4_096,
    ...prices,
    reason: 'h200',
  })
  await ask(operatorKey, 'POST', '/v2/operator/deployments', {
    model: name,
    url: engine,
    upstreamModel,
    ...(engineKey === undefined ? {} : { apiKey: engineKey }),
    reason: 'h200',
  })
  const { hostname, port } = new URL(url)
  const side = { name: 'Berth', host: hostname, port: Number(port), key, model: name }
  for (let n = 0; n < 100; n += 1) {
    const { data } = await ask(key, 'GET', '/v1/models')
    if (data.some(({ id }) => id === name)) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    side,
    limit: async () => {
      const { models } = await ask(operatorKey, 'GET', '/v2/operator/models')
      const health = models.find((one) => one.name === name)?.deployments[0]?.health
      return health === null || health === undefined ? '' : ` (limit ${health.limit})`
    },
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return sorted.length === 0 ? Number.NaN : (sorted[Math.floor(middle)] + sorted[Math.ceil(middle) - 1]) / 2
}
