/**
 * A real Docker daemon as if on a separate machine: in its own folder and network namespace, without firewall rules, so
 * that its containers reach only the lab. Comes with a real registry (registry-lab.ts). Several can run at once;
 * daemons that share a network and a registry act as neighbouring hosts.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { startHostNetwork, type HostNetwork, type NetworkHost } from './host-network.ts'
import { killProcess, removeFolder } from '../harness/leftover.ts'
import { startRegistryLab, type LabImages, type RegistryLab } from './registry-lab.ts'
import { waitFor } from '../harness/wait.ts'

const execFileAsync = promisify(execFile)

export interface DockerLab {
  readonly socketPath: string
  readonly folder: string
  /** Its images and containers. */
  readonly dataDir: string
  readonly network: HostNetwork
  readonly host: NetworkHost
  /** The name of its network namespace. */
  readonly netns: string
  /** The address of its host. */
  readonly address: string
  readonly registry: RegistryLab
  readonly images: LabImages
  /** The `docker` command. */
  docker(...args: string[]): Promise<string>
  /** SIGTERM, as a package update sends it; containers end with the daemon. */
  stopDaemon(): Promise<void>
  /** SIGKILL to the daemon and everything it runs, at once: simulates a power failure. */
  cutPower(): Promise<void>
  startDaemon(): Promise<void>
  restartDaemon(): Promise<void>
  close(): Promise<void>
}

export interface DockerLabOptions {
  readonly name: string
  readonly network?: HostNetwork
  readonly registry?: RegistryLab
  /** Its own small disk in memory, for tests that fill it. Absent: uses the disk of this machine. */
  readonly diskMb?: number
  /** The daemon adds its own firewall rules, as it does by default. */
  readonly firewall?: true
}

const programs = ['dockerd', 'docker', 'docker-registry', 'busybox', 'ip', 'nsenter', 'runc', 'containerd']
const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const DAEMON_UP_MS = 30_000
const DAEMON_END_MS = 30_000

/** The reason no lab can run here; undefined if it can. */
export function whyNoDockerLab(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'it needs root on Linux'
  const missing = programs.filter((program) => !folders.some((folder) => isProgram(path.join(folder, program))))
  return missing.length === 0 ? undefined : `it needs ${missing.join(', ')}`
}

export async function startDockerLab(options: DockerLabOptions): Promise<DockerLab> {
  const undo: Array<() => Promise<void>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the lab was not taken down in whole')
  }
  try {
    const network = options.network ?? (await startHostNetwork())
    if (options.network === undefined) undo.push(() => network.close())
    const registry = options.registry ?? (await startRegistryLab(network.bridgeAddress))
    if (options.registry === undefined) undo.push(() => registry.close())
    const host = await network.addHost(options.name)
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-docker-'))
    undo.push(() => unmountAndRemove(folder))
    const dataDir = path.join(folder, 'data')
    await mkdir(dataDir)
    if (options.diskMb !== undefined) {
      await execFileAsync('mount', ['-t', 'tmpfs', '-o', `size=${options.diskMb}m`, 'berth-lab', dataDir])
    }
    const daemon = await daemonOf(folder, host, network.subnet, options.firewall === true)
    undo.push(() => daemon.stop())
    await daemon.start()
    return {
      socketPath: daemon.socketPath,
      folder,
      dataDir,
      network,
      host,
      netns: host.netns,
      address: host.address,
      registry,
      images: registry.images,
      docker: async (...args) => (await execFileAsync('docker', ['-H', `unix://${daemon.socketPath}`, ...args])).stdout,
      stopDaemon: () => daemon.stop(),
      cutPower: () => daemon.cutPower(),
      startDaemon: () => daemon.start(),
      restartDaemon: async () => {
        await daemon.stop()
        await daemon.start()
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function daemonOf(folder: string, host: NetworkHost, trusted: string, firewall: boolean) {
  const at = (name: string): string => path.join(folder, name)
  const socketPath = at('docker.sock')
  const bin = at('bin')
  await mkdir(bin)
  // The daemon detects GPU support by this program's name; this one passes nothing through.
  await writeFile(path.join(bin, 'nvidia-container-runtime-hook'), '#!/bin/sh\ncat >/dev/null\n', { mode: 0o755 })
  const config = {
    'insecure-registries': [trusted],
    'default-address-pools': [{ base: host.innerSubnet, size: 28 }],
    iptables: firewall,
    'ip-forward': firewall,
    bip: '172.31.255.1/24',
    'shutdown-timeout': 1,
  }
  await writeFile(at('daemon.json'), JSON.stringify(config))
  const paths = ['--data-root', at('data'), '--exec-root', at('exec'), '-p', at('pid'), '-H', `unix://${socketPath}`]
  let child: ChildProcess | undefined
  let output = ''

  const start = async (): Promise<void> => {
    output = ''
    const args = [`--net=/run/netns/${host.netns}`, 'dockerd', '--config-file', at('daemon.json'), ...paths]
    const env = { ...process.env, PATH: `${bin}:${folders.join(':')}` }
    const started = spawn('nsenter', args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    child = started
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-20_000)
    }
    started.stdout.on('data', read)
    started.stderr.on('data', read)
    await waitFor(
      () => `the Docker daemon:\n${output}`,
      async () => {
        if (started.exitCode !== null) throw new Error(`the Docker daemon ended at its start:\n${output}`)
        return isAnswering(socketPath)
      },
      DAEMON_UP_MS,
    )
  }
  const stop = async (): Promise<void> => {
    const running = child
    child = undefined
    if (running !== undefined && running.exitCode === null) {
      const ended = new Promise((resolve) => running.once('exit', resolve))
      running.kill('SIGTERM')
      const late = setTimeout(() => running.kill('SIGKILL'), DAEMON_END_MS)
      await ended
      clearTimeout(late)
    }
    await killAllOf(folder)
  }
  const cutPower = async (): Promise<void> => {
    const running = child
    child = undefined
    const ended = running?.exitCode === null ? new Promise((resolve) => running.once('exit', resolve)) : undefined
    await killAllOf(folder)
    await ended
  }
  return { socketPath, start, stop, cutPower }
}

/** Every process with the folder in its command line and its children: the daemon, its helpers and the containers. */
async function killAllOf(folder: string): Promise<void> {
  const killed = new Set<number>()
  // Repeated, because a process about to be killed may have started another.
  await waitFor('the processes of the daemon to end', async () => {
    const tree = await readProcesses()
    const isOurs = (pid: number): boolean => {
      const found = tree.get(pid)
      if (found === undefined || pid <= 1) return false
      // Clients of its socket, such as an agent, are not part of it.
      const isPart = found.command.replaceAll(`${folder}/docker.sock`, '').includes(`${folder}/`)
      return isPart || isOurs(found.parent)
    }
    for (const pid of [...tree.keys()].filter((one) => !killed.has(one) && isOurs(one))) {
      killed.add(pid)
      killProcess(pid)
    }
    return [...killed].every((pid) => tree.get(pid)?.isZombie !== false)
  })
  // A daemon that finds this file waits for a containerd that no longer exists.
  await rm(path.join(folder, 'exec/containerd/containerd.pid'), { force: true })
}

async function readProcesses(): Promise<Map<number, { parent: number; command: string; isZombie: boolean }>> {
  const found = new Map<number, { parent: number; command: string; isZombie: boolean }>()
  for (const name of await readdir('/proc')) {
    if (!/^[0-9]+$/.test(name)) continue
    try {
      const stat = await readFile(`/proc/${name}/stat`, 'utf8')
      const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const command = (await readFile(`/proc/${name}/cmdline`, 'utf8')).replaceAll('\0', ' ')
      found.set(Number(name), { parent: Number(parent), command, isZombie: state === 'Z' })
    } catch {
      // The process ended in the meantime.
    }
  }
  return found
}

async function isAnswering(socketPath: string): Promise<boolean> {
  try {
    await execFileAsync('docker', ['-H', `unix://${socketPath}`, 'version', '--format', '{{.Server.Version}}'])
    return true
  } catch {
    return false
  }
}

/** Unmounts the daemon's mounts first. */
/** With everything that is mounted below it. */
export async function unmountAndRemove(folder: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((at) => at.startsWith(`${folder}/`))
  for (const mount of mounts.toReversed()) await execFileAsync('umount', ['-l', mount])
  await removeFolder(folder)
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
