/**
 * A file server with clients for tests. The virtual address is on the loopback interface; each client is a network
 * namespace on a switch with its own address and uses NFSv4 through libnfs, because the kernel may have no NFS. Closing
 * the lab cleans up everything a test leaves: the daemon by its pid, mounts, loop devices, links and addresses.
 */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { openGanesha } from '../../src/runtimes/storage/ganesha.ts'
import type { FileServer } from '../../src/runtimes/storage/file-server.ts'
import { startLabSwitch } from './lab-switch.ts'
import { killProcess, removeFolder, unmount } from '../harness/leftover.ts'
import { waitFor } from '../harness/wait.ts'

export interface StorageLab {
  readonly vip: string
  readonly folder: string
  /** The file server's log. */
  readonly logged: readonly string[]
  open(options?: { overcommit?: number }): Promise<FileServer>
  /** The same in a separate process, which can be killed. It has created the volume and granted the client access. */
  openElsewhere(volume: string, client: string): Promise<ChildProcess>
  addClient(): StorageClient
  addTap(): StorageTap
  /** The pid of the running NFS daemon. */
  daemonPid(): number | undefined
  close(): Promise<void>
}

/** A port on the clients' network for a virtual machine. */
export interface StorageTap {
  /** QEMU has to run in this network namespace. */
  readonly netns: string
  readonly name: string
  readonly address: string
}

export interface Said {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A machine with or without access. Paths are the server's: `/volume/file`. */
export interface StorageClient {
  readonly address: string
  ls(at: string): Promise<Said>
  read(at: string): Promise<Said>
  /** Up to 2,000 bytes: libnfs 4 cannot write more at once. */
  write(at: string, text: string): Promise<Said>
  /** Starts reading a file and continues only when told. Returns the number of bytes and the output. */
  readSlowly(at: string): { begun: Promise<void>; finish(): Promise<{ bytes: number; stderr: string; code: number }> }
}

const programs = ['ganesha.nfsd', 'nfs-ls', 'nfs-cat', 'nfs-cp', 'mke2fs', 'mount', 'losetup', 'ip', 'nsenter'] as const
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const CLIENT_MS = 20_000
const MAX_CLIENTS = 20

/** null if it can run here, otherwise the reason in a sentence. */
export function whyNoStorageLab(): string | null {
  if (process.getuid?.() !== 0) return 'mounts and network namespaces need root'
  if (!fs.existsSync('/dev/loop-control')) return 'there are no loop devices'
  const isThere = (name: string): boolean => PATH.split(':').some((at) => fs.existsSync(path.join(at, name)))
  const missing = programs.filter((name) => !isThere(name))
  return missing.length === 0 ? null : `these programs are missing: ${missing.join(', ')}`
}

/** `folder`: on the test's own disk. */
export function startStorageLab(options: { folder?: string } = {}): StorageLab {
  const undo: (() => void | Promise<void>)[] = []
  const folder = options.folder ?? fs.mkdtempSync(path.join(os.tmpdir(), 'berth-storage-'))
  fs.mkdirSync(folder, { recursive: true })
  undo.push(
    () => removeFolder(folder),
    () => cleanFolder(folder),
  )
  const network = startLabSwitch('storage')
  undo.push(() => network.close())
  const vip = `${network.prefix}.5`
  ip('addr', 'add', `${vip}/32`, 'dev', 'lo')
  undo.push(() => ip('addr', 'del', `${vip}/32`, 'dev', 'lo'))

  const logged: string[] = []
  const log = {
    info: (_: object, message: string): void => void logged.push(message),
    warn: (detail: object, message: string): void => void logged.push(`${message} ${JSON.stringify(detail)}`),
  }
  let clients = 0
  return {
    vip,
    folder,
    logged,
    async open(how = {}) {
      const server = await openGanesha({ folder, vip, log, ...how })
      undo.push(() => server.shutDown())
      return server
    },
    async openElsewhere(volume, client) {
      const child = await startElsewhere({ folder, vip, volume, client })
      undo.push(() => void child.kill('SIGKILL'))
      return child
    },
    addClient() {
      clients += 1
      if (clients > MAX_CLIENTS) throw new Error('too many clients')
      const address = `${network.prefix}.${10 + clients}`
      const space = `${network.name}-${clients}`
      network.addNamespace(space, address)
      return makeClient(space, address, vip, folder)
    },
    addTap() {
      clients += 1
      return { netns: network.netns, name: network.addTap(), address: `${network.prefix}.${10 + clients}` }
    },
    daemonPid: () => daemonPid(folder),
    async close() {
      const faults: unknown[] = []
      for (const step of undo.splice(0).toReversed()) {
        try {
          await step()
        } catch (error) {
          faults.push(error)
        }
      }
      if (faults.length > 0) throw new AggregateError(faults, 'the lab was not taken down whole')
    },
  }
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { env: { PATH }, stdio: 'pipe' })
}

function makeClient(space: string, address: string, vip: string, folder: string): StorageClient {
  const url = (at: string): string => `nfs://${vip}${at}?version=4`
  const inside = [`--net=/run/netns/${space}`, '--']
  const run = (program: string, ...args: string[]): Promise<Said> =>
    new Promise((resolve) => {
      const options = { env: { PATH }, timeout: CLIENT_MS, maxBuffer: 1 << 28 }
      execFile('nsenter', [...inside, program, ...args], options, (error, stdout, stderr) => {
        // libnfs exits with 0 even on failure, but prints an error.
        resolve({ code: error !== null || stderr !== '' ? 1 : 0, stdout, stderr: stderr || (error?.message ?? '') })
      })
    })
  return {
    address,
    ls: (at) => run('nfs-ls', url(at)),
    read: (at) => run('nfs-cat', url(at)),
    async write(at, text) {
      const source = path.join(folder, `from-${randomBytes(4).toString('hex')}`)
      fs.writeFileSync(source, text)
      return run('nfs-cp', source, url(at)).finally(() => fs.rmSync(source))
    },
    readSlowly(at) {
      const child = spawn('nsenter', [...inside, 'nfs-cat', url(at)], { env: { PATH } })
      let bytes = 0
      let stderr = ''
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
      const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? 1)))
      // The pipe is not read, so the transfer stalls as soon as it is full.
      const begun = new Promise<void>((resolve) => child.stdout.once('readable', () => resolve()))
      return {
        begun,
        async finish() {
          child.stdout.on('data', (chunk: Buffer) => (bytes += chunk.length))
          return { code: await ended, bytes, stderr }
        },
      }
    },
  }
}

const elsewhere = `
  const [, moduleUrl, text] = process.argv
  const { folder, vip, volume, client } = JSON.parse(text)
  const { openGanesha } = await import(moduleUrl)
  const server = await openGanesha({ folder, vip, log: { info() {}, warn() {} } })
  await server.create(volume, 1, AbortSignal.timeout(20_000))
  await server.setClients(volume, [client], AbortSignal.timeout(20_000))
  process.stdout.write('ready')
  setInterval(() => {}, 1_000)
`

async function startElsewhere(task: object): Promise<ChildProcess> {
  const moduleUrl = new URL('../../src/runtimes/storage/ganesha.ts', import.meta.url).href
  const args = ['--import', 'tsx', '--input-type=module', '-e', elsewhere, moduleUrl, JSON.stringify(task)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const isReady = (): boolean => {
    if (child.exitCode !== null) throw new Error(`the other server ended at its start: ${said}`)
    return said.endsWith('ready')
  }
  await waitFor(() => `the other server: ${said}`, isReady)
  return child
}

function daemonPid(folder: string): number | undefined {
  const file = path.join(folder, 'ganesha.pid')
  const pid = fs.existsSync(file) ? Number.parseInt(fs.readFileSync(file, 'utf8'), 10) : Number.NaN
  if (!Number.isSafeInteger(pid)) return undefined
  const line = fs.existsSync(`/proc/${pid}/cmdline`) ? fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8') : ''
  return line.includes(path.join(folder, 'ganesha.conf')) ? pid : undefined
}

/** A killed process leaves its daemon and its mounts behind. */
async function cleanFolder(folder: string): Promise<void> {
  const pid = daemonPid(folder)
  if (pid !== undefined) killProcess(pid)
  await waitFor('the end of the NFS daemon', () => daemonPid(folder) === undefined)
  const mounts = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  for (const point of mounts.flatMap((line) => line.split(' ')[4] ?? []).filter((at) => at.startsWith(`${folder}/`))) {
    await unmount(point)
  }
  const loops = execFileSync('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'], { env: { PATH } })
  for (const line of loops.toString().split('\n')) {
    const [device, file] = line.trim().split(/\s+/)
    if (device !== undefined && file?.startsWith(`${folder}/`) === true) {
      execFileSync('losetup', ['--detach', device], { env: { PATH } })
    }
  }
}
