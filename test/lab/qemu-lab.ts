/**
 * Virtual machines for tests: the small image, built once and kept between runs, a runtime in its own folder, and the
 * system's SSH client. Closing the lab ends every machine of its folder, including those a failed test left behind.
 */
import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import type { Disk, Workload } from '../../src/contract/agent.ts'
import { qemuRuntime, type QemuOptions, type QemuRuntime } from '../../src/runtimes/qemu/runtime.ts'
import { buildSmallImage, type SmallImage } from '../../src/runtimes/qemu/small-image.ts'
import { processStart } from '../../src/base/process-start.ts'
import { killProcess, removeFolder } from '../harness/leftover.ts'
import { waitFor } from '../harness/wait.ts'

const SSH_MS = 60_000
const BUILD_MS = 300_000
const CONNECT_S = 45
const never = new AbortController().signal

let built: Promise<SmallImage> | undefined

/** Built by the first caller and shared by all test processes, which wait for it. A failed build is retried. */
export function smallImage(): Promise<SmallImage> {
  built ??= buildInTurn().catch((error: unknown) => {
    built = undefined
    throw error
  })
  return built
}

async function buildInTurn(): Promise<SmallImage> {
  const turn = `${smallImageFolder()}.turn`
  await waitFor('the turn to build the small image', () => takeTurn(turn), BUILD_MS)
  try {
    return await buildSmallImage({
      folder: smallImageFolder(),
      arch: process.arch === 'arm64' ? 'arm64' : 'amd64',
      progress: () => {},
      signal: never,
    })
  } finally {
    await fs.rm(turn, { force: true })
  }
}

/** Removes the lock of a dead process. If two processes then hold it, they do the work twice. */
async function takeTurn(turn: string): Promise<boolean> {
  try {
    await fs.writeFile(turn, `${process.pid} ${processStart(process.pid)}`, { flag: 'wx' })
    return true
  } catch {
    const [, pid = '', start = ''] = /^(\d+) (.+)$/.exec(await fs.readFile(turn, 'utf8').catch(() => '')) ?? []
    if (pid !== '' && processStart(Number(pid)) !== start) await fs.rm(turn, { force: true })
    return false
  }
}

export function smallImageFolder(): string {
  return path.join(os.tmpdir(), `berth-small-image-${os.userInfo().uid}`)
}

/** The reason virtual machines cannot run here; undefined if they can. */
export function whyNoQemu(...more: string[]): string | undefined {
  const missing = [
    ...more,
    'qemu-img',
    'genisoimage',
    'cpio',
    'ssh',
    process.arch === 'arm64' ? 'qemu-system-aarch64' : 'qemu-system-x86_64',
  ].filter((program) => {
    try {
      execFileSync('which', [program])
      return false
    } catch {
      return true
    }
  })
  return missing.length === 0 ? undefined : `${missing.join(', ')} cannot be found`
}

export interface QemuLab {
  readonly folder: string
  readonly publicKey: string
  /** A runtime on the lab's folder; an earlier one is closed, as when an agent restarts. */
  runtime(more?: Partial<QemuOptions>): QemuRuntime
  workload(id: string, more?: Partial<Workload>): Workload
  /** Runs a command inside over SSH. */
  ssh(id: string, command: string, user?: string): Promise<string>
  /** Process ids of its QEMU. */
  pids(id?: string): number[]
  close(): Promise<void>
}

export async function openQemuLab(): Promise<QemuLab> {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-qemu-'))
  const key = path.join(folder, 'key')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'a "test" key', '-f', key])
  const publicKey = (await fs.readFile(`${key}.pub`, 'utf8')).trim()
  let current: QemuRuntime | undefined
  const errors: string[] = []
  const pids = (id?: string): number[] => qemuPids(path.join(folder, 'engine', 'vms', id === undefined ? '' : `${id}/`))
  const lab: QemuLab = {
    folder,
    publicKey,
    runtime: (more = {}) => {
      current?.close()
      current = qemuRuntime({
        folder: path.join(folder, 'engine'),
        accel: 'auto',
        gpus: [],
        smallImage,
        onError: (what, error) => errors.push(`${what}: ${String(error)}`),
        maxMemoryMib: 256,
        maxCpus: 1,
        isRestricted: true,
        ...more,
      })
      return current
    },
    workload: (id, more = {}) => ({ ...workloadOf(id, publicKey), ...more }),
    ssh: async (id, command, user = 'root') => {
      if (current === undefined) throw new Error('no runtime')
      const runtime = current
      return throughRelay(
        async () => (await runtime.open({ kind: 'port', workloadId: id, port: 0 }, never)).stream,
        (port) => runSsh(key, port, user, command),
      )
    },
    pids,
    close: async () => {
      current?.close()
      for (const pid of pids()) killProcess(pid)
      await waitFor('the machines to be gone', () => pids().length === 0)
      await removeFolder(folder)
    },
  }
  return lab
}

export function fileDisk(volumeId: string): Disk {
  return { volumeId, label: volumeId, sizeGb: 1, source: { kind: 'file' } }
}

function workloadOf(id: string, publicKey: string): Workload {
  return {
    id,
    tag: `berth-lab-${id}-${randomBytes(4).toString('hex')}`,
    want: 'run',
    started: false,
    spec: {
      kind: 'virtual-machine',
      name: `Machine ${id}`,
      gpuCount: 0,
      resources: { cpuModel: 'any', cpuCount: 1, ramGb: 1, storageGb: 2 },
      sshKeys: [publicKey],
      ports: [8080],
      image: null,
    },
    node: { index: 0, gpuIndexes: [], peers: [{ hostname: `host-${id}`, privateIp: '10.0.0.1' }] },
    disks: [],
    baseImage: null,
  }
}

/** Like the server's relay: a listening port whose connections become streams of the runtime. */
async function throughRelay<T>(open: () => Promise<Duplex>, work: (port: number) => Promise<T>): Promise<T> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    const join = async (): Promise<void> => {
      const stream = await open()
      stream.on('error', () => socket.destroy())
      socket.on('close', () => stream.destroy())
      stream.pipe(socket).pipe(stream)
    }
    void join().catch(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await work((server.address() as net.AddressInfo).port)
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
}

async function runSsh(key: string, port: number, user: string, command: string): Promise<string> {
  const options = [
    ['-i', key, '-p', String(port), '-F', 'none', '-o', 'BatchMode=yes', '-o', 'LogLevel=ERROR'],
    ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'IdentitiesOnly=yes'],
    // An emulated guest on a busy machine takes long for its first output and the exchange of keys.
    ['-o', `ConnectTimeout=${CONNECT_S}`],
  ].flat()
  const { stdout } = await promisify(execFile)('ssh', [...options, `${user}@127.0.0.1`, command], { timeout: SSH_MS })
  return stdout
}

/** Searches command lines, independently of the code under test. */
export function qemuPids(folder: string): number[] {
  const lines = execFileSync('ps', ['-eww', '-o', 'pid=,stat=,args='], { encoding: 'utf8' }).split('\n')
  return lines
    .filter((line) => line.includes('qemu-system') && line.includes(folder) && !/^\s*\d+\s+Z/.test(line))
    .map((line) => Number.parseInt(line, 10))
}
