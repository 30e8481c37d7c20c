/** The container runtime on a lab's daemon, test workloads, and connections into them from this machine. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import type { Program, Workload } from '../../src/contract/agent.ts'
import { dockerRuntime } from '../../src/runtimes/docker/runtime.ts'
import type { DockerRuntimeOptions } from '../../src/runtimes/docker/runtime-options.ts'
import type { WorkloadStatus, Runtime } from '../../src/runtimes/runtime.ts'
import type { DockerLab } from '../lab/docker-lab.ts'
import { waitFor } from './wait.ts'

const execFileAsync = promisify(execFile)

export type DockerRuntime = ReturnType<typeof dockerRuntime>
export const forever = new AbortController().signal

/** Ports are published on the lab's host, because its loopback address is not ours. */
export function runtimeOn(lab: DockerLab, changes: Partial<DockerRuntimeOptions> = {}): DockerRuntime {
  return dockerRuntime({
    socketPath: lab.socketPath,
    folder: path.join(lab.folder, 'kept'),
    defaultImage: `${lab.images.busybox.name}:${lab.images.busybox.tag}`,
    gpus: [0, 1].map((index) => ({ index, uuid: `GPU-sim-${index}`, name: 'NVIDIA H200', simulated: true })),
    allowLocalImages: false,
    allowPrivateRegistries: false,
    // Includes options a test adds to the lab's own.
    allowedRegistries: [lab.network.bridgeAddress],
    registries: {},
    allowUnfenced: false,
    // A shell does not end when it is asked to.
    stopGraceS: 1,
    portAddress: lab.address,
    networkNamespace: `/run/netns/${lab.netns}`,
    // A restarting daemon breaks streams; tests check the consequences.
    onError: () => {},
    ...changes,
  })
}

type Spec = NonNullable<Workload['spec']>

export function workloadOf(id: string, changes: Partial<Spec> = {}): Workload {
  return {
    id,
    tag: `berth-lab-${id}-00000000`,
    want: 'run',
    started: false,
    spec: {
      kind: 'container',
      name: id,
      gpuCount: 1,
      resources: { cpuModel: 'any', cpuCount: 1, ramGb: 0.2, storageGb: 1 },
      sshKeys: [],
      ports: [],
      image: null,
      ...changes,
    },
    node: { index: 0, gpuIndexes: [0], peers: [] },
    disks: [],
    baseImage: null,
  }
}

/** Options of an order, by default none. */
export function programOf(changes: Partial<Program>): Program {
  return {
    env: {},
    files: [],
    command: null,
    args: null,
    onStart: null,
    userData: null,
    shmGb: null,
    restart: { policy: 'never', maxRetries: 0 },
    registry: null,
    ...changes,
  }
}

export function withProgram(workload: Workload, changes: Partial<Program>): Workload {
  const { spec } = workload
  return spec === null ? workload : { ...workload, spec: { ...spec, program: programOf(changes) } }
}

/** Waits until it is in that state. */
export function waitForState(runtime: Runtime, id: string, state: WorkloadStatus['state']): Promise<WorkloadStatus> {
  let seen: WorkloadStatus | undefined
  return waitFor(
    () => `${id} ${state}; it is ${JSON.stringify(seen)}`,
    async () => {
      seen = (await runtime.list(forever)).find((one) => one.id === id)
      return seen?.state === state ? seen : undefined
    },
  )
}

export async function readAll(stream: Duplex): Promise<string> {
  let text = ''
  for await (const chunk of stream as AsyncIterable<Buffer>) text += chunk.toString()
  return text
}

/** A local port that forwards to a container's port, as the server's relay does; 0 is SSH. */
export async function relayTo(
  runtime: Runtime,
  workloadId: string,
  port: number,
): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    void join(runtime, workloadId, port, socket)
    socket.once('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

async function join(runtime: Runtime, workloadId: string, port: number, socket: net.Socket): Promise<void> {
  try {
    const { stream } = await runtime.open({ kind: 'port', workloadId, port }, forever)
    stream.on('error', () => socket.destroy())
    if (socket.destroyed) stream.destroy()
    socket.once('close', () => stream.destroy())
    socket.pipe(stream).pipe(socket)
  } catch {
    socket.destroy()
  }
}

/** An SSH key pair: the path of the private key and the text of the public one. */
export async function makeSshKey(
  folder: string,
  type = 'ed25519',
): Promise<{ file: string; text: string; remove(): Promise<void> }> {
  const own = await mkdtemp(path.join(folder, 'key-'))
  const file = path.join(own, 'id')
  await execFileAsync('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', 'lab', '-f', file])
  const text = (await readFile(`${file}.pub`, 'utf8')).trim()
  return { file, text, remove: () => rm(own, { recursive: true }) }
}

/** A second connection to the lab's daemon on which requests of one kind wait until released. */
export async function holdRequests(
  lab: DockerLab,
  kind: RegExp,
): Promise<{ socketPath: string; held(): number; goOn(): void; close(): Promise<void> }> {
  const socketPath = path.join(lab.folder, 'held.sock')
  const sockets = new Set<net.Socket>()
  const waiting: Array<() => void> = []
  let isHolding = true
  const server = net.createServer((socket) => {
    const daemon = net.connect(lab.socketPath)
    for (const one of [socket, daemon]) sockets.add(one.on('error', () => {}))
    daemon.pipe(socket)
    socket.on('data', (request) => {
      if (isHolding && kind.test(request.toString())) waiting.push(() => daemon.write(request))
      else daemon.write(request)
    })
    socket.once('close', () => daemon.destroy())
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  return {
    socketPath,
    held: () => waiting.length,
    goOn: () => {
      isHolding = false
      for (const send of waiting.splice(0)) send()
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

/** A service on all addresses of a network namespace that sends `open` to every client. */
export async function startListener(netns: string): Promise<{ port: number; close(): Promise<void> }> {
  const script = `require('net').createServer((socket) => socket.on('error', () => {}).end('open\\n'))
    .listen(0, '0.0.0.0', function () { console.log(this.address().port) })`
  const child = spawn('nsenter', [`--net=/run/netns/${netns}`, process.execPath, '-e', script])
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const port = await new Promise<number>((resolve) => child.stdout.once('data', (out) => resolve(Number(String(out)))))
  return {
    port,
    close: () => {
      child.kill()
      return ended
    },
  }
}
