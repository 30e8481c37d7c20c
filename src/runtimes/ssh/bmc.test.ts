/** Power control: a Redfish controller and a command. */
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { metalAccessFields } from './access.ts'
import { powerSwitch, type PowerSwitch } from './bmc.ts'

const { signal } = new AbortController()

function switchOf(bmc: object): PowerSwitch {
  const parsed = metalAccessFields.shape.bmc.parse(bmc)
  if (parsed === undefined) throw new Error('no power switch')
  return powerSwitch(parsed)
}

describe('a Redfish controller', () => {
  const requests: string[] = []
  let state = 'On'
  let systems = ['/redfish/v1/Systems/1']
  let target = '/redfish/v1/Systems/1/Actions/ComputerSystem.Reset'
  let resetStatus = 204
  const listener: RequestListener = (request, response) => {
    let body = ''
    request.on('data', (data: Buffer) => {
      body += data.toString('utf8')
    })
    request.on('end', () => {
      requests.push(`${request.method} ${request.url}${body === '' ? '' : ` ${body}`}`)
      const answer = (status: number, value?: object): void => {
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(value === undefined ? '' : JSON.stringify(value))
      }
      const isIn = request.headers.authorization === `Basic ${Buffer.from('admin:secret').toString('base64')}`
      if (!isIn) return answer(401, { error: 'who are you' })
      if (request.method === 'POST') return answer(resetStatus)
      if (request.url === '/redfish/v1/Systems')
        return answer(200, { Members: systems.map((one) => ({ '@odata.id': one })) })
      answer(200, { PowerState: state, Actions: { '#ComputerSystem.Reset': { target } } })
    })
  }
  const plain = createServer(listener)
  let folder: string
  let url: string
  let tlsUrl: string
  let fingerprint: string
  let tls: ReturnType<typeof createTlsServer>

  beforeAll(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-bmc-'))
    const [key, cert] = [path.join(folder, 'key'), path.join(folder, 'cert')]
    const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    execFileSync('openssl', ['req', ...options, '-subj', '/CN=bmc', '-keyout', key, '-out', cert], { stdio: 'pipe' })
    tls = createTlsServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, listener)
    fingerprint = new X509Certificate(fs.readFileSync(cert)).fingerprint256
    for (const server of [plain, tls]) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(plain.address() as AddressInfo).port}`
    tlsUrl = `https://127.0.0.1:${(tls.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    for (const server of [plain, tls]) await new Promise((resolve) => server.close(resolve))
    fs.rmSync(folder, { recursive: true })
  })

  const login = { kind: 'redfish', username: 'admin', password: 'secret' }

  test('restarts a host that is on, and starts one that is off', async () => {
    requests.length = 0
    await switchOf({ ...login, url, insecure: true }).reset(signal)
    state = 'Off'
    await switchOf({ ...login, url, insecure: true, system: '/redfish/v1/Systems/1' }).reset(signal)
    state = 'On'
    expect(requests).toEqual([
      'GET /redfish/v1/Systems',
      'GET /redfish/v1/Systems/1',
      `POST ${target} {"ResetType":"ForceRestart"}`,
      'GET /redfish/v1/Systems/1',
      `POST ${target} {"ResetType":"On"}`,
    ])
  })

  test('accepts an unsigned certificate by its pinned fingerprint only', async () => {
    requests.length = 0
    await expect(switchOf({ ...login, url: tlsUrl }).reset(signal)).rejects.toThrow(/self.signed/)
    const other = fingerprint.startsWith('00') ? `11${fingerprint.slice(2)}` : `00${fingerprint.slice(2)}`
    await expect(switchOf({ ...login, url: tlsUrl, fingerprint: other }).reset(signal)).rejects.toThrow(
      'does not match the pinned one',
    )
    expect(requests).toEqual([])
    await switchOf({ ...login, url: tlsUrl, fingerprint }).reset(signal)
    await switchOf({ ...login, url: tlsUrl, insecure: true }).reset(signal)
    expect(requests.filter((one) => one.startsWith('POST'))).toHaveLength(2)
  })

  test('rejects plain HTTP unless it is allowed', async () => {
    await expect(switchOf({ ...login, url }).reset(signal)).rejects.toThrow('plain HTTP')
  })

  test('reports a refusal, several systems and a redirect as errors', async () => {
    const one = switchOf({ ...login, url, insecure: true })
    await expect(switchOf({ ...login, password: 'wrong', url, insecure: true }).reset(signal)).rejects.toThrow('401')
    resetStatus = 503
    await expect(one.reset(signal)).rejects.toThrow('503')
    resetStatus = 204
    target = 'http://elsewhere.example/reset'
    await expect(one.reset(signal)).rejects.toThrow('redirects to another address')
    systems = ['/redfish/v1/Systems/1', '/redfish/v1/Systems/2']
    await expect(one.reset(signal)).rejects.toThrow('2 systems')
  })
})

describe('a power command', () => {
  test('gets its arguments unchanged, and an error carries its output', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-power-'))
    const file = path.join(folder, 'a file; $(touch x)')
    await switchOf({ kind: 'command', reset: ['touch', file] }).reset(signal)
    expect(fs.readdirSync(folder)).toEqual(['a file; $(touch x)'])
    fs.rmSync(folder, { recursive: true })
    await expect(switchOf({ kind: 'command', reset: ['ls', '/there-is-none'] }).reset(signal)).rejects.toThrow(
      'there-is-none',
    )
  })

  test('falls back to power on for a host that is off', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-power-'))
    const on = ['touch', path.join(folder, 'on')]
    await switchOf({ kind: 'command', reset: ['false'], on }).reset(signal)
    expect(fs.readdirSync(folder)).toEqual(['on'])
    fs.rmSync(folder, { recursive: true })
  })
})
