/** Opens the runtime of this machine: containers with Docker or Podman, or virtual machines with QEMU. */
import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { SECOND_MS } from '../base/instant.ts'
import { whyNoFence } from '../runtimes/docker/fence.ts'
import { dockerRuntime } from '../runtimes/docker/runtime.ts'
import { chooseAccelerator } from '../runtimes/qemu/accelerator.ts'
import { qemuProgram } from '../runtimes/qemu/command-line.ts'
import { findProgram } from '../runtimes/run-program.ts'
import { qemuRuntime } from '../runtimes/qemu/runtime.ts'
import { buildSmallImage, type SmallImage } from '../runtimes/qemu/small-image.ts'
import type { Runtime } from '../runtimes/runtime.ts'
import { AgentError } from './agent-error.ts'
import { findDockerSocket, type SocketPlaces } from './docker-socket.ts'
import type { AgentDownloads } from './downloads.ts'
import type { AgentFolder } from './folder.ts'
import { claimMachine } from './machine-claim.ts'
import type { GpuSnapshot } from './gpu-source.ts'
import type { AgentTerms, RunSettings } from './identity.ts'

/** `close` releases the runtime's resources; workloads keep running. */
export type HostRuntime = Runtime & { close(): Promise<void> | void }

/** Called once, with the GPUs in index order. */
export type MakeRuntime = (
  snapshot: GpuSnapshot,
  onError: (what: string, error: unknown) => void,
  downloads: AgentDownloads,
) => HostRuntime

export interface HostRuntimeOptions {
  readonly offering: AgentTerms['offering']
  readonly isSimulated: boolean
  readonly folder: AgentFolder
  readonly socket: SocketPlaces
  readonly settings: RunSettings
}

const DEFAULT_IMAGE = 'debian:12'

/** Checks that Docker, Podman or QEMU works before the machine is offered. Throws an error with the next step. */
export async function prepareRuntime(options: HostRuntimeOptions): Promise<MakeRuntime> {
  return options.offering === 'virtual-machine' ? openQemu(options) : openDocker(options)
}

/** The default image of virtual machines, which is built once and then reused. */
export function smallImage(
  folder: AgentFolder,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<SmallImage> {
  const arch = process.arch === 'arm64' ? 'arm64' : 'amd64'
  return buildSmallImage({ folder: path.join(folder.dir, 'small-image'), arch, progress, signal })
}

function openQemu({ folder, settings, isSimulated }: HostRuntimeOptions): MakeRuntime {
  const accel = settings.accel ?? 'auto'
  try {
    const emulator = qemuProgram(process.arch === 'arm64' ? 'arm64' : 'x64')
    for (const program of [emulator, 'qemu-img']) findProgram(program)
    chooseAccelerator(accel)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new AgentError(`This machine cannot run virtual machines: ${why}`, [
      'To run containers instead, which need only Docker or Podman: --offer marketplace',
    ])
  }
  claimMachine({ isSimulated, socketPath: undefined })
  let built: SmallImage | undefined
  return (snapshot, onError) =>
    qemuRuntime({
      folder: path.join(folder.dir, 'machines'),
      accel,
      gpus: snapshot.gpus.map(({ gpu }, index) => ({
        index,
        name: gpu.name,
        pciAddress: snapshot.simulated ? null : gpu.pciAddress,
      })),
      // It takes seconds to check whether the image is current, so that is done for the first machine only.
      smallImage: async (progress, signal) => {
        if (built === undefined || !fs.existsSync(built.initrd)) built = await smallImage(folder, progress, signal)
        return built
      },
      allowPrivateAddresses: settings.allowPrivateRegistries === true,
      onError,
    })
}

async function openDocker({ socket, folder, settings, isSimulated }: HostRuntimeOptions): Promise<MakeRuntime> {
  const socketPath = await findDockerSocket(socket)
  const registries = settings.registryAuth === undefined ? {} : readLogins(settings.registryAuth)
  const { pullStall, allowUnfenced = false } = settings
  const why = allowUnfenced ? undefined : await whyNoFence()
  if (why !== undefined) {
    throw new AgentError(`Cannot isolate tenants on this machine: ${why}`, [
      'Install nftables (Debian: apt-get install nftables) and run the agent as root.',
      'If all tenants of this machine trust each other: --allow-unfenced',
    ])
  }
  const notes = claimMachine({ isSimulated, socketPath })
  return (snapshot, onError, downloads) =>
    dockerRuntime({
      notes,
      downloads,
      compileCacheBytes: downloads.compileCacheBytes,
      socketPath,
      folder: path.join(folder.dir, 'containers'),
      volumeFolder: path.join(folder.dir, 'volumes'),
      defaultImage: settings.image ?? DEFAULT_IMAGE,
      ...(settings.image === undefined ? { smallImageFolder: path.join(folder.dir, 'small-image') } : {}),
      allowLocalImages: settings.allowLocalImages === true,
      gpus: snapshot.gpus.map(({ gpu }, index) => ({
        index,
        uuid: gpu.uuid,
        name: gpu.name,
        simulated: snapshot.simulated,
      })),
      allowPrivateRegistries: settings.allowPrivateRegistries === true,
      allowedRegistries: settings.allowRegistry ?? [],
      registries,
      allowUnfenced,
      ...(pullStall === undefined ? {} : { pullStallMs: pullStall * SECOND_MS }),
      onError,
    })
}

/** The file that `docker login` writes, without credentials that a keychain holds. */
const loginFile = z.object({ auths: z.record(z.string(), z.object({ auth: z.string() })) })

function readLogins(file: string): Record<string, { username: string; password: string }> {
  try {
    const { auths } = loginFile.parse(JSON.parse(fs.readFileSync(file, 'utf8')))
    return Object.fromEntries(
      Object.entries(auths).map(([host, { auth }]) => {
        const [, username = '', password = ''] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth, 'base64').toString()) ?? []
        return [host.replace(/^https?:\/\//, '').replace(/\/.*$/, ''), { username, password }]
      }),
    )
  } catch (error) {
    const next = ['Expected the format of docker login: { "auths": { "HOST": { "auth": "…" } } }']
    throw new AgentError(`Cannot read registry credentials from ${file}.`, next, error)
  }
}
