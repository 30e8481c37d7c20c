/** The files in deploy/ do what docs/install.md says, as far as it can be tried without Docker images of others. */
import { execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { usage } from '../src/server/welcome.ts'
import packageJson from '../package.json' with { type: 'json' }
import { ownPorts } from './harness/own-port.ts'
import { testServer } from './harness/server.ts'
import { whyNoProxy } from './lab/tls-proxy.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('proxies')

const run = promisify(execFile)
const read = (name: string): string => readFileSync(path.join('deploy', name), 'utf8')
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

describe('deploy/Caddyfile', () => {
  const why = whyNoProxy('caddy')
  test.skipIf(why !== undefined)(`leads to the server${why === undefined ? '' : ` (skipped: ${why})`}`, async () => {
    const server = await testServer({ env: { BERTH_TRUST_PROXY: '1' } })
    onTestFinished(() => server.close())
    const address = `http://127.0.0.1:${ownPorts()}`
    const env = { ...process.env, BERTH_DOMAIN: address, BERTH_UPSTREAM: new URL(server.url).host }
    const caddy = spawn('caddy', ['run', '--config', 'deploy/Caddyfile', '--adapter', 'caddyfile'], { env })
    const ended = new Promise((resolve) => caddy.once('exit', resolve))
    onTestFinished(async () => {
      caddy.kill()
      await ended
    })
    const reply = await waitFor('Caddy', () => fetch(`${address}/readyz`).catch(() => undefined))
    expect(reply.status).toBe(200)
    // It installs from the address that the customer knows.
    const made = await fetch(`${address}/v2/supply/join-tokens`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${server.operatorKey}`, 'Content-Type': 'application/json' },
      body: '{}',
    })
    expect(((await made.json()) as { command: string }).command).toContain(`curl -fsSL ${address}/install.sh`)
  })
})

describe('deploy/systemd/berth.service', () => {
  test.skipIf(!hasSystemd)(`is a unit that systemd accepts${hasSystemd ? '' : ' (skipped: no systemd)'}`, async () => {
    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', 'deploy/systemd/berth.service'])
    expect(stderr).toBe('')
  })
})

describe('deploy/compose.yaml', () => {
  const text = read('compose.yaml')

  test('uses settings that exist, and the image and variables that the guide names', () => {
    const names = [...text.matchAll(/^ {6}(BERTH_\w+|DATABASE_URL):/gm)].map(([, name]) => name ?? '')
    expect(names.length).toBeGreaterThan(4)
    expect(names.filter((name) => !usage().includes(` ${name} `) && name !== 'BERTH_DOMAIN')).toEqual([])
    const variables = new Set([...text.matchAll(/\$\{(\w+):\?\}/g)].map(([, name]) => name ?? ''))
    const example = [...read('.env.example').matchAll(/^(\w+)=/gm)].map(([, name]) => name ?? '')
    expect([...variables].toSorted()).toEqual(example.toSorted())
    expect(text).toContain(`image: berth:\${BERTH_VERSION:-${packageJson.version}}`)
  })
})

describe('deploy/Dockerfile', () => {
  test('copies files that exist', () => {
    const places = [...read('Dockerfile').matchAll(/\/app\/([\w./-]+) (?=\/app)/g)].map(([, name]) => name ?? '')
    const made = new Set(['dist', 'node_modules'])
    expect(places.length).toBeGreaterThan(4)
    expect(places.filter((name) => !made.has(name) && !existsSync(name))).toEqual([])
  })
})
