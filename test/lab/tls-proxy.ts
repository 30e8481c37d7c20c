/** nginx and Caddy with the configuration in docs/operator/servers.md; only addresses and files are replaced. */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import https from 'node:https'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { removeFolder } from '../harness/leftover.ts'
import { ownPorts } from '../harness/own-port.ts'
import { waitFor } from '../harness/wait.ts'

export type ProxyName = 'nginx' | 'caddy'

export const PROXY_HOST = 'berth.example'

export interface TlsProxy {
  readonly port: number
  /** Its certificate, for clients to trust. */
  readonly certificate: string
  close(): Promise<void>
}

export function whyNoProxy(name: ProxyName): string | undefined {
  const missing = [name, 'openssl'].find((command) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0)
  return missing === undefined ? undefined : `${missing} is not installed`
}

export async function startTlsProxy(name: ProxyName, upstreamPort: number): Promise<TlsProxy> {
  const folder = await mkdtemp(path.join(os.tmpdir(), `berth-${name}-`))
  const [certificate, key] = [path.join(folder, 'berth.pem'), path.join(folder, 'berth.key')]
  const subject = ['-subj', `/CN=${PROXY_HOST}`, '-addext', `subjectAltName=DNS:${PROXY_HOST}`]
  const files = ['-keyout', key, '-out', certificate]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  await promisify(execFile)('openssl', ['req', '-x509', ...kind, ...subject, ...files])
  const port = ownPorts()
  const shown = (await documented(name))
    .replaceAll('/etc/ssl/berth.pem', certificate)
    .replaceAll('/etc/ssl/berth.key', key)
    .replaceAll('127.0.0.1:8420', `127.0.0.1:${upstreamPort}`)
  const child = await (name === 'nginx' ? startNginx(folder, shown, port) : startCaddy(folder, shown, port))
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const close = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
    await removeFolder(folder)
  }
  try {
    const ca = await readFile(certificate, 'utf8')
    await waitFor(`${name} to answer`, () => {
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`)
      return answers(port, ca)
    })
    return { port, certificate: ca, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function documented(name: ProxyName): Promise<string> {
  const docs = await readFile('docs/operator/servers.md', 'utf8')
  const fence = name === 'nginx' ? 'nginx' : 'caddyfile'
  const [, block] = new RegExp(`\`\`\`${fence}\\n([^]*?)\`\`\``).exec(docs) ?? []
  if (block === undefined) throw new Error(`docs/operator/servers.md shows no configuration for ${name}`)
  return block
}

async function startNginx(folder: string, shown: string, port: number): Promise<ChildProcess> {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((one) => `${one}_temp_path ${folder}/${one};`)
    .join(' ')
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const around = `daemon off; ${user} pid ${folder}/pid; error_log ${folder}/error.log;\nevents {}\n`
  const server = shown.replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
  const file = path.join(folder, 'nginx.conf')
  await writeFile(file, `${around}http {\naccess_log off; ${temporary}\n${server}\n}\n`)
  return spawn('nginx', ['-p', folder, '-c', file], { stdio: 'ignore' })
}

async function startCaddy(folder: string, shown: string, port: number): Promise<ChildProcess> {
  const file = path.join(folder, 'Caddyfile')
  const site = shown.replace(`${PROXY_HOST} {`, `${PROXY_HOST}:${port} {\n    bind 127.0.0.1`)
  await writeFile(file, `{\n    admin off\n    auto_https disable_redirects\n}\n${site}`)
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  return spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', file], { stdio: 'ignore', env })
}

function answers(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, servername: PROXY_HOST, ca, path: '/healthz', agent: false }
    const request = https.get({ ...options, headers: { Host: `${PROXY_HOST}:${port}` } }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('error', () => resolve(false))
  })
}
